package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// MaxToken is the longest token, in bytes. A server accepts 4096 bytes for the whole CONNECT
// line (max_control_line). The other fields of that line need the rest.
const MaxToken = 3500

// maxNonce bounds the server's nonce, in bytes. Servers send 15 to 22.
const maxNonce = 128

// Claim is what an agent states about itself.
type Claim struct {
	Cluster string `json:"cluster"`
	Pool    string `json:"pool"`
	Node    string `json:"node"`
}

// Validate returns the first name that cannot be part of a subject.
func (c Claim) Validate() error {
	switch {
	case !names.Valid(c.Cluster):
		return fmt.Errorf("cluster %.70q: %s", c.Cluster, names.Rule)
	case !names.Valid(c.Pool):
		return fmt.Errorf("pool %.70q: %s", c.Pool, names.Rule)
	}
	return names.CheckToken("node", c.Node)
}

// Token is what an agent sends as its connect token.
type Token struct {
	Verifier string `json:"verifier"` // key of the Kind that made the proof
	Claim
	Proof json.RawMessage `json:"proof"` // one JSON value, of the verifier's own form
}

// Encode returns the text of the token. A token of more than MaxToken bytes is an error.
func (t Token) Encode() (string, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("encode the identity token: %w", err)
	}
	if len(data) > MaxToken {
		return "", fmt.Errorf("encode the identity token: it has %d bytes, a server accepts %d: use a verifier with a shorter proof", len(data), MaxToken)
	}
	return string(data), nil
}

// Decode reads the token of a connection. Its names are valid. Its proof is not checked.
func Decode(text string) (Token, error) {
	var t Token
	if text == "" {
		return t, errors.New("the connection has no token")
	}
	if err := strictjson.Within([]byte(text), MaxToken, &t); err != nil {
		return Token{}, err
	}
	if !names.ValidToken(t.Verifier) {
		return Token{}, names.CheckToken("verifier", t.Verifier)
	}
	if err := t.Validate(); err != nil {
		return Token{}, err
	}
	if len(t.Proof) == 0 {
		return Token{}, errors.New("proof is missing")
	}
	return t, nil
}

// Statement is what a proof is about.
type Statement struct {
	Claim
	Key   string    // public nkey of the agent
	Nonce string    // of the server, for one connection
	Now   time.Time // time of the host that makes or checks the proof
}

// validNonce reports whether the nonce is printable ASCII without white space.
func validNonce(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxNonce
}
