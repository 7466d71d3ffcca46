package identity_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

func token() identity.Token {
	return identity.Token{
		Verifier: "sharedsecret", Claim: identity.Claim{Cluster: "prod", Pool: "web", Node: "i-01"}, Proof: json.RawMessage(`{"a":1}`),
	}
}

func TestTokenIsDecodedAsItWasEncoded(t *testing.T) {
	text, err := token().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := identity.Decode(text)
	if err != nil || got.Claim != token().Claim || got.Verifier != "sharedsecret" || string(got.Proof) != `{"a":1}` {
		t.Errorf("Decode(%s) = %+v, %v", text, got, err)
	}
}

func TestWrongTokensAreRefused(t *testing.T) {
	const start = `{"verifier":"v","cluster":"prod","pool":"web","node":"i-01","proof":`
	for name, tc := range map[string]struct{ text, want string }{
		"none":          {"", "no token"},
		"not JSON":      {"hunter2", "invalid character"},
		"unknown key":   {start + `{},"admin":true}`, "admin"},
		"two values":    {start + `{}}{}`, "something follows"},
		"no proof":      {`{"verifier":"v","cluster":"prod","pool":"web","node":"i-01"}`, "proof is missing"},
		"node of two":   {strings.Replace(start, "i-01", "i.01", 1) + `{}}`, "node"},
		"node wildcard": {strings.Replace(start, "i-01", ">", 1) + `{}}`, "node"},
		"pool wildcard": {strings.Replace(start, "web", "*", 1) + `{}}`, "pool"},
		"cluster empty": {strings.Replace(start, "prod", "", 1) + `{}}`, "cluster"},
		"verifier path": {strings.Replace(start, `"v"`, `"../v"`, 1) + `{}}`, "verifier"},
		"4 KB":          {start + `"` + strings.Repeat("x", 4096) + `"}`, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := identity.Decode(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") || got.Verifier != "" {
				t.Errorf("Decode = %+v, %v, want one line with %q", got, err, tc.want)
			}
		})
	}
	long := token()
	long.Proof = json.RawMessage(`"` + strings.Repeat("x", identity.MaxToken) + `"`)
	if text, err := long.Encode(); err == nil {
		t.Errorf("Encode = %d bytes, want an error", len(text))
	}
}

func FuzzDecode(f *testing.F) {
	text, err := token().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(`{"verifier":"v","cluster":"prod","pool":"web","node":"*","proof":[1,[2]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := identity.Decode(text)
		if err != nil {
			return
		}
		if bad := got.Validate(); bad != nil || len(got.Proof) == 0 || len(text) > identity.MaxToken {
			t.Errorf("Decode(%q) = %+v: %v", text, got, bad)
		}
	})
}

func TestAgentKeepsItsKey(t *testing.T) {
	data := t.TempDir()
	first, err := identity.OpenKey(data, "i-01")
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.OpenKey(data, "i-01")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := public(t, first), public(t, again); a != b || !nkeys.IsValidPublicUserKey(a) {
		t.Errorf("keys %q and %q, want one public user key", a, b)
	}
	path := filepath.Join(data, "identity", "i-01.nk")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key = %v, %v, want 0600", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.OpenKey(data, "i-01"); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("OpenKey with mode 0640 = %v, want the remedy", err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := account.Seed()
	if err != nil {
		t.Fatal(err)
	}
	_, err = identity.ParseSeed("file", seed, nkeys.PrefixByteUser)
	if err == nil || strings.Contains(err.Error(), string(seed)) || !strings.Contains(err.Error(), "begins with SU") {
		t.Errorf("seed of an account = %v, want an error without the seed", err)
	}
}

func public(t *testing.T, pair nkeys.KeyPair) string {
	t.Helper()
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}
