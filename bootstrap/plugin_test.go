package bootstrap_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

func TestPlugin(t *testing.T) {
	plan := planOf("plugin", shipped("web", plugged))
	plan.Signals[1].Kind = api.KindPlugin
	folder := t.TempDir()
	p := startWith(t, plan, noReleases{}, func(c *bootstrap.Config) { c.Folder = folder })
	a := p.arrivals.next(t)
	e := a.awaitEntry(t, "web", "up", up)
	if now := p.process("web"); !e.Columnar || !now.Columnar || now.Kind != api.KindPlugin {
		t.Errorf("the signal is %+v, listed as %+v: want a plugin that offered the columnar body", now, e)
	}
	if err := request(t, e.Address); err != nil {
		t.Error(err)
	}
	first := onlySocket(t, folder)
	kill(t, -e.Group)
	again := a.awaitEntry(t, "web", "up again", func(now bootstrap.Entry) bool { return up(now) && now.Group != e.Group })
	if !again.Columnar {
		t.Errorf("after a restart it is listed as %+v, want it columnar", again)
	}
	if second := onlySocket(t, folder); second == first {
		t.Errorf("the sockets are %s, and %s after a restart, want another", first, second)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left of the plugins, want nothing", left, err)
	}
}

// If the folder of the sockets is removed, the next plugin starts in a new folder of the same mode.
func TestPluginFolderIsMadeAgain(t *testing.T) {
	plan := planOf("refolder", shipped("web", plugged))
	plan.Signals[1].Kind = api.KindPlugin
	above := filepath.Join(t.TempDir(), "run")
	folder := filepath.Join(above, "pool")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.Chmod(above, 0o711), os.Chmod(folder, 0o751)); err != nil {
		t.Fatal(err)
	}
	p := startWith(t, plan, noReleases{}, func(c *bootstrap.Config) { c.Folder = folder })
	a := p.arrivals.next(t)
	e := a.awaitEntry(t, "web", "up", up)
	if err := os.RemoveAll(above); err != nil {
		t.Fatal(err)
	}
	kill(t, -e.Group)
	a.awaitEntry(t, "web", "up again", func(now bootstrap.Entry) bool { return up(now) && now.Group != e.Group })
	onlySocket(t, folder)
	for path, want := range map[string]os.FileMode{above: 0o711, folder: 0o751} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("folder %s: %v, %v, want mode %v", path, info, err, want)
		}
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

// onlySocket returns the only plugin socket below folder. Other users must not have access to its folder.
func onlySocket(t *testing.T, folder string) string {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(folder, "*", "*"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %q, %v, want one", sockets, err)
	}
	of, err := os.Stat(filepath.Dir(sockets[0]))
	if err != nil || of.Mode().Perm() != 0o700 {
		t.Errorf("folder %s has mode %v, %v, want 0700", of.Name(), of.Mode(), err)
	}
	return sockets[0]
}

// A plugin with an invalid handshake is ended before its start timeout, and restarted.
func TestPluginWithInvalidHandshake(t *testing.T) {
	for name, why := range map[string]string{
		invalidHandshake: `its first line is "hello, world"`,
		foreign:          `the signal has version "99"`,
	} {
		t.Run(name, func(t *testing.T) {
			plan := planOf("noplugin", shipped("web", name))
			plan.Signals[1].Kind = api.KindPlugin
			p := start(t, plan, noReleases{}, time.Millisecond)
			p.awaitProcess(t, "web", "down, and why", func(p api.Process) bool {
				return p.State == "backoff" && p.Restarts > 1 && strings.Contains(p.Why, why)
			})
			p.arrivals.next(t).awaitEntry(t, "web", "down, and why", func(e bootstrap.Entry) bool { return strings.Contains(e.Down, why) })
		})
	}
}

// A plugin without a handshake does not count as running, even if it listens.
func TestPluginWithoutHandshake(t *testing.T) {
	plan := planOf("nogreeting", shipped("web", "rps"))
	plan.Signals[1].Kind = api.KindPlugin
	p := start(t, plan, noReleases{}, time.Millisecond)
	await.Nil(t, "a process listens", func() error {
		conn, err := net.Dial("unix", "@"+plan.Signals[1].Address)
		if err == nil {
			conn.Close()
		}
		return err
	})
	p.arrivals.next(t).awaitEntry(t, "web", "starting", func(e bootstrap.Entry) bool { return e.Down == "the signal is starting" })
}
