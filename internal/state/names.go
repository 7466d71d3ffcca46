package state

import (
	"encoding/base64"
	"fmt"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// checkNames refuses a name that is not one token of a subject. Such a name would address another pool's data or
// none.
func checkNames(cluster, pool string) error {
	if !names.Valid(cluster) {
		return fmt.Errorf("cluster %q: invalid name", cluster)
	}
	if !names.Valid(pool) {
		return fmt.Errorf("pool %q: invalid name", pool)
	}
	return nil
}

// checkNode refuses the name of a node that cannot end a key.
func checkNode(node string) error {
	if !names.ValidKey(node) {
		return fmt.Errorf("node %.80q: want 1 to %d bytes of letters, digits and -_/=. only", node, names.MaxKey)
	}
	return nil
}

// GroupToken returns the end of a group's keys. No two groups share it.
func GroupToken(group string) (string, error) {
	if names.ValidKey(group) && group[0] != '=' {
		return group, nil
	}
	token := "=" + base64.RawURLEncoding.EncodeToString([]byte(group))
	if group == "" || len(token) > names.MaxKey {
		return "", fmt.Errorf("group %.80q: want a name of 1 to 189 bytes", group)
	}
	return token, nil
}
