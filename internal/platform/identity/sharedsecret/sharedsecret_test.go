package sharedsecret_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/sharedsecret"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func statement() identity.Statement {
	return identity.Statement{
		Claim: identity.Claim{Cluster: "prod", Pool: "web", Node: "i-01"}, Key: "UABC", Nonce: "nonce", Now: now,
	}
}

func secret(c string) string { return strings.Repeat(c, 32) }

// file writes secrets, one a line.
func file(t *testing.T, secrets ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(path, []byte(strings.Join(secrets, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string) identity.Verifier {
	t.Helper()
	v, err := sharedsecret.Kind().Open(t.Context(), identity.Site{Settings: &sharedsecret.Settings{KeyFile: path, Pools: []string{"web"}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func prove(t *testing.T, path string, s identity.Statement) json.RawMessage {
	t.Helper()
	p, err := sharedsecret.Kind().Prove(t.Context(), &sharedsecret.ProverSettings{KeyFile: path})
	if err != nil {
		t.Fatal(err)
	}
	proof, err := p.Prove(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(proof)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestProofIsForOneConnectionOfOneAgent(t *testing.T) {
	path := file(t, secret("a"))
	proof := prove(t, path, statement())
	v := open(t, path)
	if got, err := v.Verify(t.Context(), identity.Request{Statement: statement(), Proof: proof}); err != nil || got != (identity.Identity{Pool: "web", Node: "i-01"}) {
		t.Errorf("Verify = %+v, %v", got, err)
	}
	other := statement()
	other.Pool = "db"
	for name, tc := range map[string]struct {
		change func(*identity.Statement)
		proof  json.RawMessage
		want   identity.Reason
	}{
		"another cluster": {func(s *identity.Statement) { s.Cluster = "test" }, proof, identity.Forged},
		"another pool":    {func(s *identity.Statement) { s.Pool = "db" }, proof, identity.Forged},
		"another node":    {func(s *identity.Statement) { s.Node = "i-02" }, proof, identity.Forged},
		"another key":     {func(s *identity.Statement) { s.Key = "UDEF" }, proof, identity.Forged},
		"another nonce":   {func(s *identity.Statement) { s.Nonce = "next" }, proof, identity.Forged},
		"late":            {func(s *identity.Statement) { s.Now = now.Add(6 * time.Minute) }, proof, identity.Stale},
		"early":           {func(s *identity.Statement) { s.Now = now.Add(-6 * time.Minute) }, proof, identity.Stale},
		"another secret":  {func(*identity.Statement) {}, prove(t, file(t, secret("b")), statement()), identity.Forged},
		"pool not listed": {func(s *identity.Statement) { s.Pool = "db" }, prove(t, path, other), identity.WrongName},
		"unknown key":     {func(*identity.Statement) {}, json.RawMessage(`{"at":1,"mac":"","x":1}`), identity.Malformed},
		"too long":        {func(*identity.Statement) {}, json.RawMessage(`"` + strings.Repeat("x", 300) + `"`), identity.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			s := statement()
			tc.change(&s)
			_, err := v.Verify(t.Context(), identity.Request{Statement: s, Proof: tc.proof})
			if r, ok := errors.AsType[*identity.Refusal](err); !ok || r.Reason != tc.want {
				t.Errorf("Verify = %v, want %s", err, tc.want)
			}
		})
	}
}

func TestSecretsAreRotatedWithoutARestart(t *testing.T) {
	verifierFile, agentFile := file(t, secret("a")), file(t, secret("b"))
	v := open(t, verifierFile)
	request := identity.Request{Statement: statement(), Proof: prove(t, agentFile, statement())}
	if _, err := v.Verify(t.Context(), request); err == nil {
		t.Error("the secret was accepted before it was added")
	}
	if err := os.WriteFile(verifierFile, []byte(secret("a")+"\n"+secret("b")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), request); err != nil {
		t.Errorf("Verify with the added secret = %v", err)
	}
	if err := os.Remove(verifierFile); err != nil {
		t.Fatal(err)
	}
	if r, ok := errors.AsType[*identity.Refusal](second(v.Verify(t.Context(), request))); !ok || r.Reason != identity.Unavailable {
		t.Errorf("Verify without the file = %v, want unavailable", r)
	}
}

func second[A any](_ A, err error) error { return err }

func TestWrongKeyFilesAreNamed(t *testing.T) {
	open := file(t, secret("a"))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, want string }{
		"missing":         {filepath.Join(t.TempDir(), "none"), "no such file"},
		"open to others":  {open, "chmod 600"},
		"empty":           {file(t), "has no secret"},
		"one is short":    {file(t, secret("a"), "short"), "secret 2 has 5 bytes"},
		"a folder":        {t.TempDir(), "folder"},
		"without an end":  {"/dev/zero", "regular file"},
		"more than 16 KB": {file(t, strings.Repeat("a", 17<<10)), "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sharedsecret.Kind().Open(t.Context(), identity.Site{Settings: &sharedsecret.Settings{KeyFile: tc.path}})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.path) {
				t.Errorf("Open = %v, want %q and the path", err, tc.want)
			}
		})
	}
	if ps := new(sharedsecret.Settings).Check(); len(ps) != 2 {
		t.Errorf("Check of empty settings = %v, want two problems", ps)
	}
}
