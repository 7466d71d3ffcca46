package localworld

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
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
		{"0.0.0.0:8086", "", "other hosts can reach it, and their writers need a token"},
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

// The token of a data folder is made once, for this user only. A damaged one is replaced.
func TestOwnToken(t *testing.T) {
	data := t.TempDir()
	path := daemon.MetricsToken(data)
	log := slog.New(slog.DiscardHandler)
	token := func() string {
		t.Helper()
		got, err := ownToken(data, log)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("token file: %v, %v, want mode 0600", info, err)
		}
		return string(got)
	}
	first := token()
	if len(first) < 26 || token() != first {
		t.Errorf("tokens %q and %q, want the same long one", first, token())
	}
	if err := os.WriteFile(path, []byte("chosen\n"), 0o600); err != nil || token() != "chosen" {
		t.Errorf("a token that the user wrote is not used: %v", err)
	}
	for _, damaged := range []string{"", "\n", "a\x00b", "two words", "\xff\xfe", strings.Repeat("x", 2000)} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := token(); got == first || !sendable(got) || token() != got {
			t.Errorf("after %.20q the token is %q, want a new one", damaged, got)
		}
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ownToken(data, log); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("with a folder in its place: %v, want an error with the path", err)
	}
}
