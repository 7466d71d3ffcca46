package supervise

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// All processes of its user can read the environment of a keeper.
func TestKeeperHasNoSecrets(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://user:password@host/")
	l := newLauncher(t)
	awaitEnd(t, start(t, l, shell("true", newMark(t), &listing{}))) // the keeper runs
	l.mu.Lock()
	pid := l.keeper.process.Pid
	l.mu.Unlock()
	environ, err := readEnviron(pid, make([]byte, usualEnviron))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(environ); strings.Contains(text, "DATABASE_URL") || !strings.Contains(text, "PATH=") {
		t.Errorf("the keeper's environment is %q", text)
	}
}

func TestPlainEnvironment(t *testing.T) {
	env := []string{
		"PATH=/bin", "HOME=/home/x", "LANG=C", "LC_ALL=C", "TZ=UTC", "TMPDIR=/tmp", "GOMAXPROCS=2", "CMAN_POOL=p",
		"DATABASE_URL=x", "NATS_URL=x", "GITHUB_PAT=x", "INFLUX_APIKEY=x", "SSH_AUTH_SOCK=x", "AWS_ACCESS_KEY_ID=x",
		"AWS_PROFILE=x", "WEIR_NATS=x", "GOPROXY=x", "LD_PRELOAD=x", "HTTPS_PROXY=x", "NAMED=x", "path=x", "PATH", "",
	}
	got := PlainEnvironment(env, "NAMED", "DATABASE_URL")
	want := []string{"PATH=/bin", "HOME=/home/x", "LANG=C", "LC_ALL=C", "TZ=UTC", "TMPDIR=/tmp", "GOMAXPROCS=2", "CMAN_POOL=p", "DATABASE_URL=x", "NAMED=x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("PlainEnvironment (-want +got):\n%s", diff)
	}
}
