package apiserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Role is what a token permits. The zero value permits nothing.
type Role string

const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // reads, and gives orders
)

// Token is one line of a token file.
type Token struct {
	Role   Role
	Name   string // of the person or program; orders and the ledger show it
	Secret string
}

const (
	maxTokenFile = 64 << 10 // bytes
	minSecret    = 16       // bytes
	maxSecret    = 512      // bytes
)

// ReadTokens reads a token file that only its owner can read.
func ReadTokens(path string) ([]Token, error) {
	data, err := inputfile.Read(path, maxTokenFile)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	if info.Mode()&fs.ModeNamedPipe == 0 && inputfile.ReadableByOthers(path, info.Mode()) {
		return nil, fmt.Errorf("token file %s: other users can read it; run \"chmod 600 %s\"", path, path)
	}
	tokens, err := parseTokens(data)
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, err)
	}
	return tokens, nil
}

// parseTokens parses the lines "ROLE NAME SECRET" of a token file. It ignores empty lines, and lines that begin with #.
// An error does not have a secret.
func parseTokens(data []byte) (tokens []Token, err error) {
	if len(data) > maxTokenFile {
		return nil, fmt.Errorf("has more than %d bytes", maxTokenFile)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxTokenFile+1)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 3 {
			return nil, fmt.Errorf("line %d: want ROLE NAME SECRET", n)
		}
		t := Token{Role(words[0]), words[1], words[2]}
		switch {
		case t.Role != Viewer && t.Role != Operator:
			return nil, fmt.Errorf("line %d: role %.20q: want %s or %s", n, words[0], Viewer, Operator)
		case !names.Valid(t.Name):
			return nil, fmt.Errorf("line %d: name %.80q: %s", n, t.Name, names.Rule)
		case len(t.Secret) < minSecret || len(t.Secret) > maxSecret:
			return nil, fmt.Errorf("line %d: the secret of %s has %d bytes: want %d to %d", n, t.Name, len(t.Secret), minSecret, maxSecret)
		}
		tokens = append(tokens, t)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the lines: %w", err)
	}
	if len(tokens) == 0 {
		return nil, errors.New("has no token: add a line ROLE NAME SECRET")
	}
	return tokens, nil
}

// Find returns the token with the secret; a zero one without it. Its time does not depend on the secrets.
func Find(tokens []Token, secret string) (found Token) {
	for _, t := range tokens {
		if httpguard.Equal(secret, t.Secret) && secret != "" {
			found = t
		}
	}
	return found
}
