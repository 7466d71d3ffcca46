package webhook_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/webhook"
)

// The expected value is that of "printf 'a1.1764100800.{}' | openssl dgst -sha256 -hmac 0123456789abcdef".
func TestSign(t *testing.T) {
	h := http.Header{}
	webhook.Sign(h, time.Unix(1764100800, 0), []byte("0123456789abcdef"), "a1", []byte("{}"))
	const want = "sha256=79686e54c07cb4d8e3ec03bc6324ba6d2e7c58f1444c0d09190216c2ccb683fd"
	if got := h.Get(webhook.HeaderSignature); got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
	if got := h.Get(webhook.HeaderTimestamp); got != "1764100800" {
		t.Errorf("timestamp %s", got)
	}
}

// The group bits of a credential of a unit or a pod are no mistake.
func TestReadSecretOfTheCredentials(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(inputfile.CredentialsVariable, dir)
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte("0123456789abcdef"), 0o440); err != nil {
		t.Fatal(err)
	}
	if got, err := webhook.ReadSecret(file); err != nil || string(got) != "0123456789abcdef" {
		t.Errorf("ReadSecret = %q, %v", got, err)
	}
}

func TestReadSecret(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		mode os.FileMode
		want string // of the error; empty: none
	}{
		"valid":             {"0123456789abcdef\n", 0o600, ""},
		"readable by group": {"0123456789abcdef", 0o640, "mode 0640"},
		"short":             {"0123456789", 0o600, "want a secret of 16 to"},
		"long":              {strings.Repeat("x", 5000), 0o600, "want a secret of 16 to"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(file, []byte(test.text), test.mode); err != nil {
				t.Fatal(err)
			}
			got, err := webhook.ReadSecret(file)
			switch {
			case test.want == "" && (err != nil || string(got) != "0123456789abcdef"):
				t.Errorf("ReadSecret = %q, %v", got, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
