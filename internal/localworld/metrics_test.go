package localworld

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/command"
)

// Without a token, the store accepts writes on addresses of this host only.
func TestIntake(t *testing.T) {
	dir := t.TempDir()
	token, empty := filepath.Join(dir, "token"), filepath.Join(dir, "empty")
	for path, text := range map[string]string{token: "secret\n", empty: "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ addr, token, want string }{
		{"127.0.0.1:0", "", ""},
		{"[::1]:8086", "", ""},
		{"localhost:8086", "", ""},
		{"0.0.0.0:8086", token, ""},
		{"0.0.0.0:8086", "", "other hosts can reach it"},
		{":8086", "", "other hosts can reach it"},
		{"metrics.example.com:8086", "", "other hosts can reach it"},
		{"8086", "", "want HOST:PORT"},
		{"0.0.0.0:8086", empty, "the file is empty"},
		{"0.0.0.0:8086", filepath.Join(dir, "nothing"), "no such file"},
	} {
		in, err := intakeOf(command.MetricsOptions{Addr: c.addr, TokenFile: c.token})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with token file %q: %v, want %q", c.addr, c.token, err, c.want)
		}
		if err == nil && c.token != "" && string(in.token) != "secret" {
			t.Errorf("%s: the token is %q", c.addr, string(in.token))
		}
	}
}
