package authcallout_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/identitytest"
)

// request returns the request of a server, with what the login sends.
func request(tb testing.TB, w *world, l *identity.Login, now time.Time) *jwt.AuthorizationRequestClaims {
	tb.Helper()
	const nonce = "0123456789abcdef"
	var o nats.Options
	if err := l.Apply(&o); err != nil {
		tb.Fatal(err)
	}
	sig, err := o.SignatureCB([]byte(nonce))
	if err != nil {
		tb.Fatal(err)
	}
	c := jwt.NewAuthorizationRequestClaims(identitytest.Public(tb, w.issuer))
	c.Audience, c.UserNkey, c.Expires = "nats-authorization-request", identitytest.Public(tb, identitytest.Key(tb, nkeys.CreateUser)), now.Add(3*time.Second).Unix()
	c.Server.Name, c.ClientInformation.Nonce = "n0", nonce
	c.ConnectOptions.Nkey, c.ConnectOptions.SignedNonce, c.ConnectOptions.Token = o.Nkey, base64.RawURLEncoding.EncodeToString(sig), o.TokenHandler()
	return c
}

// sign signs a request as a server.
func sign(tb testing.TB, c *jwt.AuthorizationRequestClaims) []byte {
	tb.Helper()
	s := identitytest.Key(tb, nkeys.CreateServer)
	if c.Server.ID == "" {
		c.Server.ID = identitytest.Public(tb, s)
	}
	text, err := c.Encode(s)
	if err != nil {
		tb.Fatal(err)
	}
	return []byte(text)
}

func answerOf(tb testing.TB, r *authcallout.Responder, now time.Time, c *jwt.AuthorizationRequestClaims) *jwt.AuthorizationResponseClaims {
	tb.Helper()
	answer := r.Answer(tb.Context(), now, sign(tb, c), "")
	claims, err := jwt.DecodeAuthorizationResponseClaims(string(answer))
	if err != nil {
		tb.Fatalf("answer %q: %v", answer, err)
	}
	return claims
}

// What no server has sent gets no answer.
func TestRequestsOfOthersGetNoAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	r, _ := w.respond(nil)
	now := time.Now()
	made := func(change func(*jwt.AuthorizationRequestClaims)) []byte {
		c := request(t, w, w.login("i-01", w.secret), now)
		change(c)
		return sign(t, c)
	}
	for name, tc := range map[string]struct {
		data []byte
		xkey string
		want identity.Reason
	}{
		"nothing":        {nil, "", identity.Malformed},
		"text":           {[]byte("hello"), "", identity.Malformed},
		"too long":       {[]byte(strings.Repeat("x", 65<<10)), "", identity.Malformed},
		"encrypted":      {made(func(*jwt.AuthorizationRequestClaims) {}), "XABC", identity.Malformed},
		"other audience": {made(func(c *jwt.AuthorizationRequestClaims) { c.Audience = "x" }), "", identity.Malformed},
		"other issuer": {made(func(c *jwt.AuthorizationRequestClaims) {
			c.Subject = identitytest.Public(t, identitytest.Key(t, nkeys.CreateAccount))
		}), "", identity.Malformed},
		"other server": {made(func(c *jwt.AuthorizationRequestClaims) {
			c.Server.ID = identitytest.Public(t, identitytest.Key(t, nkeys.CreateServer))
		}), "", identity.Malformed},
		"no user": {made(func(c *jwt.AuthorizationRequestClaims) { c.UserNkey = "U" }), "", identity.Malformed},
		"late":    {made(func(c *jwt.AuthorizationRequestClaims) { c.Expires = now.Add(-time.Minute).Unix() }), "", identity.Overload},
	} {
		t.Run(name, func(t *testing.T) {
			before := r.Status().Refused[tc.want]
			if answer := r.Answer(t.Context(), now, tc.data, tc.xkey); answer != nil {
				t.Errorf("answer = %q, want none", answer)
			}
			if got := r.Status().Refused[tc.want] - before; got != 1 {
				t.Errorf("%d refusals of reason %s, want 1", got, tc.want)
			}
		})
	}
}

// Whatever a client sends, the responder answers with a user only for a valid proof.
func FuzzConnection(f *testing.F) {
	w := newWorld(f, 1, 0, false)
	r, _ := w.respond(nil)
	now := time.Now()
	valid := request(f, w, w.login("i-01", w.secret), now).ConnectOptions
	f.Add(valid.Token, valid.Nkey, valid.SignedNonce, "0123456789abcdef", "127.0.0.1")
	f.Add(`{"verifier":"sharedsecret","cluster":"prod","pool":"web","node":"i-01","proof":{"at":1,"mac":"eA=="}}`, valid.Nkey, valid.SignedNonce, "x", "")
	f.Fuzz(func(t *testing.T, token, nkey, sig, nonce, host string) {
		c := jwt.NewAuthorizationRequestClaims(identitytest.Public(t, w.issuer))
		c.Audience, c.UserNkey = "nats-authorization-request", identitytest.Public(t, identitytest.Key(t, nkeys.CreateUser))
		c.ConnectOptions = jwt.ConnectOptions{Token: token, Nkey: nkey, SignedNonce: sig}
		c.ClientInformation = jwt.ClientInformation{Nonce: nonce, Host: host}
		answer := r.Answer(t.Context(), now, sign(t, c), "")
		got, err := jwt.DecodeAuthorizationResponseClaims(string(answer))
		if err != nil {
			return // the request was too long
		}
		var same identity.Token
		proof := json.Unmarshal([]byte(token), &same) == nil && nkey == valid.Nkey && nonce == "0123456789abcdef" && same.Node == "i-01"
		if got.Jwt != "" && !proof {
			t.Errorf("a user for token %q, nkey %q, nonce %q", token, nkey, nonce)
		}
	})
}
