package authcallout

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

const (
	xkeyHeader  = "Nats-Server-Xkey"           // the server's public curve key
	audience    = "nats-authorization-request" // of each request
	maxRequest  = 64 << 10                     // bytes; a request has the token and the TLS certificates of the client
	signatures  = 64                           // bytes of a signature
	maxHostText = 100                          // bytes of a client's address that are logged
)

// attempt is one connection, which a server describes in a request.
type attempt struct {
	userKey  string // public key that the server expects as the user's name
	serverID string // public key of the server
	server   string // name of the server
	xkey     string // public curve key of the server; empty: not encrypted
	host     string // address of the client
	nkey     string // public key of the agent
	nonce    string // of the server
	sig      string // of the nonce, in base64
	token    string
}

// decode reads a request. It verifies that a server signed it, and that it is for this issuer.
func (r *Responder) decode(now time.Time, data []byte, xkey string) (attempt, error) {
	if len(data) > maxRequest {
		return attempt{}, identity.Refuse(identity.Malformed, "a request has %d bytes, at most %d are read: give the client a shorter certificate or proof", len(data), maxRequest)
	}
	if (xkey != "") != (r.c.XKey != nil) {
		return attempt{}, identity.Refuse(identity.Malformed, "either only the servers or only this process encrypts: give both the same xkey, or none")
	}
	if xkey != "" {
		plain, err := r.c.XKey.Open(data, xkey)
		if err != nil {
			return attempt{}, identity.Refuse(identity.Malformed, "decrypt the request of a server: %v; compare auth_callout.xkey of the servers", err)
		}
		data = plain
	}
	c, err := jwt.DecodeAuthorizationRequestClaims(string(data))
	if err != nil {
		return attempt{}, identity.Refuse(identity.Malformed, "decode the request of a server: %v; run NATS 2.15 or later", err)
	}
	a := attempt{
		userKey: c.UserNkey, serverID: c.Server.ID, server: cut(c.Server.Name), xkey: xkey, host: cut(c.ClientInformation.Host),
		nkey: c.ConnectOptions.Nkey, nonce: c.ClientInformation.Nonce, sig: c.ConnectOptions.SignedNonce, token: c.ConnectOptions.Token,
	}
	switch {
	case c.Audience != audience, !nkeys.IsValidPublicUserKey(a.userKey), !nkeys.IsValidPublicServerKey(a.serverID), c.Issuer != a.serverID:
		return a, identity.Refuse(identity.Malformed, "the request is not of a server: permit no client to publish to %s", Subject)
	case c.Subject != r.issuer:
		return a, identity.Refuse(identity.Malformed, "server %q has another auth_callout.issuer: set it to %s", a.server, r.issuer)
	case c.Expires != 0 && c.Expires < now.Unix():
		return a, identity.Refuse(identity.Overload, "server %q no longer waits for the answer: compare the clocks, or start another \"weir auth\"", a.server)
	}
	return a, nil
}

func cut(s string) string { return s[:min(len(s), maxHostText)] }

// signed verifies that the agent's nkey signed the server's nonce.
func (a attempt) signed() error {
	if a.nkey == "" || a.sig == "" || a.nonce == "" {
		return identity.Refuse(identity.Unsigned, "the client connects without an nkey: give an agent the block identity in its weir.yaml, and a daemon nats.nkey_file")
	}
	if !nkeys.IsValidPublicUserKey(a.nkey) {
		return identity.Refuse(identity.Unsigned, "the client's nkey is not one of a user: use a seed that begins with SU")
	}
	sig, err := base64.RawURLEncoding.DecodeString(a.sig)
	if err != nil || len(sig) != signatures {
		return identity.Refuse(identity.Unsigned, "the signature of the server's nonce is malformed: connect with an agent of weir")
	}
	public, err := nkeys.FromPublicKey(a.nkey)
	if err == nil {
		err = public.Verify([]byte(a.nonce), sig)
	}
	if err != nil {
		return identity.Refuse(identity.Unsigned, "the client did not sign the server's nonce with its nkey: it uses the nkey of another process; give it a key of its own")
	}
	return nil
}

// encode returns the answer: the user, or the reason of the refusal. The server logs the reason.
func (r *Responder) encode(a attempt, user string, refusal error) ([]byte, error) {
	answer := jwt.NewAuthorizationResponseClaims(a.userKey)
	answer.Audience = a.serverID
	if refusal != nil {
		answer.Error = string(reasonOf(refusal))
	} else {
		answer.Jwt = user
	}
	text, err := answer.Encode(r.c.Issuer)
	if err != nil {
		return nil, fmt.Errorf("sign the answer: %w", err)
	}
	if a.xkey == "" {
		return []byte(text), nil
	}
	sealed, err := r.c.XKey.Seal([]byte(text), a.xkey)
	if err != nil {
		return nil, fmt.Errorf("encrypt the answer: %w", err)
	}
	return sealed, nil
}
