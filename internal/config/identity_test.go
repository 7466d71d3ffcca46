package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity/awssts"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/sharedsecret"
)

func serviceOf(t *testing.T, text string) (Service, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadService(dir)
}

func TestAuthHasSeveralVerifiersAndIdentityHasOne(t *testing.T) {
	s, err := serviceOf(t, `
auth:
  issuer_key_file: /etc/weir/issuer.nk
  timeout: 1s
  verifiers:
    sharedsecret: {key_file: /etc/weir/secrets, pools: [web]}
    awssts:
      endpoints: ["https://sts.eu-central-1.amazonaws.com"]
      allow: [{account: "123456789012", role: weir-node, pools: [web, db]}]
identity:
  awssts: {endpoint: "https://sts.eu-central-1.amazonaws.com", region: eu-central-1}
`)
	if err != nil {
		t.Fatal(err)
	}
	shared, _ := s.Auth.Verifiers.Values["sharedsecret"].(*sharedsecret.Settings)
	sts, _ := s.Auth.Verifiers.Values["awssts"].(*awssts.Settings)
	if shared == nil || shared.KeyFile != "/etc/weir/secrets" || sts == nil || len(sts.Allow) != 1 || sts.Allow[0].Pools[1] != "db" {
		t.Errorf("verifiers = %+v, %+v", shared, sts)
	}
	if !s.Auth.Given() || s.Auth.Timeout != time.Second {
		t.Errorf("auth = %+v", s.Auth)
	}
	kind, ok := s.Identity.Kind()
	if prover, _ := s.Identity.Value.(*awssts.ProverSettings); !ok || kind.Key != "awssts" || prover == nil || prover.Region != "eu-central-1" {
		t.Errorf("identity = %+v", s.Identity)
	}
	bare, err := serviceOf(t, "")
	if _, ok := bare.Identity.Kind(); err != nil || ok || bare.Auth.Given() {
		t.Errorf("without the sections: %+v, %+v, %v", bare.Auth, bare.Identity, err)
	}
}

// A wrong section is reported with all of its mistakes.
func TestAllMistakesOfAuthAreReported(t *testing.T) {
	_, err := serviceOf(t, `
auth:
  issuer_key_file: issuer.nk
  timeout: 1m
  user_lifetime: 1s
  verifiers:
    sharedsecret: {key_file: secrets, pool: web}
    awsst: {}
identity:
  sharedsecret: {key_file: x}
  awssts: {region: R}
`)
	for _, want := range []string{
		"weir.yaml:3: auth.issuer_key_file", "weir.yaml:4: auth.timeout", "weir.yaml:5: auth.user_lifetime",
		"auth.verifiers.sharedsecret.key_file", "auth.verifiers.sharedsecret.pool", "did you mean pools",
		"auth.verifiers.awsst", "did you mean awssts", "identity: names sharedsecret and awssts",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("errors = %v, want %q", err, want)
		}
	}
	if _, err := serviceOf(t, "auth: {}\n"); err == nil || !strings.Contains(err.Error(), "issuer_key_file") || !strings.Contains(err.Error(), "auth.verifiers: is missing") {
		t.Errorf("empty section = %v, want what is missing", err)
	}
}
