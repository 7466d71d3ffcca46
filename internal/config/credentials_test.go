package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

func TestCredentialsOfAUnit(t *testing.T) {
	dir := t.TempDir()
	text := `nats:
  servers: [tls://n1:4222]
  nkey_file: ${CREDENTIALS_DIRECTORY}/nats.nk
  tls: {ca_file: ca.crt}
auth: {issuer_key_file: "${CREDENTIALS_DIRECTORY}/issuer.nk", verifiers: {sharedsecret: {key_file: /k, pools: [lab]}}}
`
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ variable, want, problem string }{
		"unit":          {"/run/credentials/weir-bootstrap@prod-web.service", "/run/credentials/weir-bootstrap@prod-web.service", ""},
		"no unit":       {"", "/run/credentials/CREDENTIALS_DIRECTORY-is-not-set", ""},
		"by hand":       {"/home/o/keys", "/home/o/keys", ""},
		"escaped name":  {`/run/credentials/weir\x2dx.service`, "", "want an absolute path"},
		"relative path": {"keys", "", "want an absolute path"},
		"YAML":          {"/x, user: root", "", "want an absolute path"},
		"line":          {"/x\nuser: root", "", "want an absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(inputfile.CredentialsVariable, test.variable)
			s, err := LoadService(dir)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("LoadService = %v, want an error with %q", err, test.problem)
				}
				return
			}
			if err != nil || s.NATS.NKeyFile != test.want+"/nats.nk" || s.Auth.IssuerKeyFile != test.want+"/issuer.nk" {
				t.Errorf("LoadService = %q, %q, %v, want files below %s", s.NATS.NKeyFile, s.Auth.IssuerKeyFile, err, test.want)
			}
		})
	}
}
