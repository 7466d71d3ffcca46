package state

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// maxName bounds what stands for a node, a group or a lease in a key, in bytes.
const maxName = 253

// checkNames refuses what is not one token of a subject: it would be written
// where nobody reads, or read what is another pool's.
func checkNames(cluster, pool string) error {
	if !message.ValidName(cluster) {
		return fmt.Errorf("cluster %q is no name of a cluster", cluster)
	}
	if !message.ValidName(pool) {
		return fmt.Errorf("pool %q is no name of a pool", pool)
	}
	return nil
}

// validKey reports whether s may be a key, or the end of one.
func validKey(s string) bool {
	if s == "" || len(s) > maxName || s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, "..") {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_/=.", rune(c)) {
			return false
		}
	}
	return true
}

// checkNode refuses the name of a node that is no end of a key.
func checkNode(node string) error {
	if !validKey(node) {
		return fmt.Errorf("node %.80q: want 1 to %d bytes of letters, digits and -_/=. only", node, maxName)
	}
	return nil
}

// groupToken returns what stands for a group in a key, another one for each group.
func groupToken(group string) (string, error) {
	if validKey(group) && group[0] != '=' {
		return group, nil
	}
	token := "=" + base64.RawURLEncoding.EncodeToString([]byte(group))
	if group == "" || len(token) > maxName {
		return "", fmt.Errorf("group %.80q: want a name of 1 to 189 bytes", group)
	}
	return token, nil
}
