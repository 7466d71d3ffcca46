package supervise

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// printDetached starts a detached child, prints its identity, and waits for the end of ctx.
func printDetached(ctx context.Context, launcher *Launcher, spec Spec) error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	spec.Detached, spec.Stdout, spec.Stderr, spec.Lines = NewTag(), null, null, nil
	child, err := launcher.Start(ctx, spec)
	if err != nil {
		return err
	}
	id, err := child.Identity()
	if err != nil {
		return err
	}
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", text)
	<-ctx.Done()
	return nil
}

// detachedShell returns the spec of a detached child whose output goes to a file.
func detachedShell(t testing.TB, command, mark string) (Spec, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	spec := shell(command, mark, &listing{})
	spec.Detached, spec.Stdout, spec.Stderr, spec.Lines = NewTag(), file, file, nil
	return spec, path
}

func adopt(t testing.TB, l *Launcher, id Identity) *Child {
	t.Helper()
	child, err := l.Adopt(id, "adopted", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return child
}

func identity(t testing.TB, c *Child) Identity {
	t.Helper()
	id, err := c.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Validate(); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestDetachedChildOutlivesItsLauncher ends a launcher. The next one adopts the child and receives its end.
func TestDetachedChildOutlivesItsLauncher(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, first *Launcher, stop func() error, have bool) {
		mark := newMark(t)
		spec, path := detachedShell(t, `trap 'echo bye; exit 3' TERM; sleep 60 & echo up; wait`, mark)
		child := start(t, first, spec)
		id := identity(t, child)
		if (id.Cgroup != "") != have {
			t.Errorf("cgroup %q, want one: %v", id.Cgroup, have)
		}
		await.True(t, "it prints a line", func() bool { text, _ := os.ReadFile(path); return string(text) == "up\n" })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if !lives(id.PID) || len(marked(t, mark)) != 2 {
			t.Fatalf("processes after the end of the launcher: %v, want the child and its own", marked(t, mark))
		}
		if _, ended := child.Exit(); ended {
			t.Error("the child is reported as ended")
		}

		second := newLauncher(t)
		again := adopt(t, second, id)
		if got := identity(t, again); got != id {
			t.Errorf("identity %+v, want %+v", got, id)
		}
		if err := again.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if exit := awaitEnd(t, again); !exit.Unknown && exit.String() != "exit status 3" {
			t.Errorf("exit = %s, want exit status 3 or unknown", exit)
		}
		if text, _ := os.ReadFile(path); string(text) != "up\nbye\n" {
			t.Errorf("output %q", text)
		}
		if left := marked(t, mark); len(left) != 0 {
			t.Errorf("processes %v are left", left)
		}
		if _, err := os.Stat(cmp.Or(id.Cgroup, "/nonexistent")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its cgroup: %v, want it removed", err)
		}
		if _, err := second.Adopt(id, "adopted", time.Second); !errors.Is(err, ErrGone) {
			t.Errorf("Adopt after the end = %v, want ErrGone", err)
		}
	})
}

// TestChildWithoutCgroup stays in the cgroup of its launcher's process, and ends as others do.
func TestChildWithoutCgroup(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, l *Launcher, _ func() error, _ bool) {
		mark := newMark(t)
		spec, path := detachedShell(t, "sleep 60 & echo up; wait", mark)
		spec.NoCgroup = true
		child := start(t, l, spec)
		if id := identity(t, child); id.Cgroup != "" {
			t.Errorf("cgroup %q, want none", id.Cgroup)
		}
		if got, own := membershipOf(child.PID()), membershipOf(os.Getpid()); got != own {
			t.Errorf("it is in cgroup %q, want %q", got, own)
		}
		await.True(t, "it prints a line", func() bool { text, _ := os.ReadFile(path); return string(text) == "up\n" })
		if err := l.Clear(spec.Detached); err != nil {
			t.Error(err)
		}
		awaitEnd(t, child)
		if left := marked(t, mark); len(left) != 0 {
			t.Errorf("processes %v are left", left)
		}
	})
}

// TestDetachedChildOutlivesAKill kills the process of the launcher. Its keeper has nothing to do.
func TestDetachedChildOutlivesAKill(t *testing.T) {
	mark := newMark(t)
	supervisor := exec.Command(self)
	supervisor.Env = append(os.Environ(), roleVariable+"=supervise", markVariable+"="+mark,
		commandVariable+"=detached: (exit 4) & wait; exec sleep 60")
	out, err := supervisor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var id Identity
	if err := json.Unmarshal([]byte(line), &id); err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Process.Kill() // it runs
	_ = supervisor.Wait()         // returns that it was killed
	// The keeper has no mark of its own environment to lose: it ends after its work.
	await.True(t, "the keeper ends", func() bool { return len(marked(t, mark)) == 1 })
	if !lives(id.PID) {
		t.Fatal("the child ended with its supervisor")
	}
	child := adopt(t, newLauncher(t), id)
	if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := awaitEnd(t, child); !exit.Unknown && exit.String() != "killed by SIGKILL" {
		t.Errorf("exit = %s, want killed by SIGKILL or unknown", exit)
	}
}

// TestDetachedChildEndsWithAnOuterSupervisor: the tag of the outer launcher covers detached children of an inner one.
func TestDetachedChildEndsWithAnOuterSupervisor(t *testing.T) {
	mark := newMark(t)
	outer := newLauncher(t)
	var lines listing
	spec := shell("", mark, &lines)
	spec.Argv = []string{self}
	spec.Env = append(os.Environ(), roleVariable+"=supervise", markVariable+"="+mark, commandVariable+"=detached: exec sleep 60")
	inner := start(t, outer, spec)
	await.True(t, "the identity", func() bool { return len(lines.all()) == 1 })
	if err := syscall.Kill(inner.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, inner)
	await.True(t, "nothing is left", func() bool { return len(marked(t, mark)) == 0 })
}

// TestAdoptRefuses: an identity that does not fit a process never reaches that process.
func TestAdoptRefuses(t *testing.T) {
	launcher := newLauncher(t)
	mark := newMark(t)
	spec, _ := detachedShell(t, "exec sleep 60", mark)
	child := start(t, launcher, spec)
	good := identity(t, child)
	tests := []struct {
		name   string
		change func(*Identity)
		want   string
	}{
		{"another boot", func(id *Identity) { id.Boot = "other" }, "ran before the last boot"},
		{"another start", func(id *Identity) { id.Start++; id.Tag = NewTag(); id.Cgroup = "" }, "process has ended"},
		{"another process", func(id *Identity) { id.PID = os.Getpid(); id.Tag = NewTag(); id.Cgroup = "" }, "process has ended"},
		{"no process", func(id *Identity) { id.PID = 1 << 22; id.Tag = NewTag(); id.Cgroup = "" }, "process has ended"},
		{"process 1", func(id *Identity) { id.PID = 1 }, "process 1, start"},
		{"a group", func(id *Identity) { id.PID = -id.PID }, "want more than 1"},
		{"no start", func(id *Identity) { id.Start = 0 }, "start 0"},
		{"no boot", func(id *Identity) { id.Boot = "" }, "boot id of 0 bytes"},
		{"no tag", func(id *Identity) { id.Tag = ""; id.Cgroup = "" }, "want 20 to 64 characters"},
		{"a tag of others", func(id *Identity) { id.Tag = "A:" + id.Tag; id.Cgroup = "" }, "want 20 to 64 characters"},
		{"another cgroup", func(id *Identity) { id.Cgroup = "/sys/fs/cgroup" }, "is not that of tag"},
		{"a relative cgroup", func(id *Identity) { id.Cgroup = "weir-" + id.Tag }, "is not that of tag"},
		{"a cgroup above", func(id *Identity) { id.Cgroup = "/a/../weir-" + id.Tag }, "is not that of tag"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			id := good
			test.change(&id)
			if _, err := launcher.Adopt(id, "x", time.Second); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Adopt = %v, want %q in it", err, test.want)
			}
		})
	}
	if _, ended := child.Exit(); ended || !lives(good.PID) {
		t.Error("a refused identity ended the child")
	}
	if err := launcher.Clear("short"); err == nil {
		t.Error("Clear of a short tag = nil")
	}
	if err := launcher.Clear(good.Tag); err != nil || lives(good.PID) {
		t.Errorf("Clear = %v, and the child lives: %v", err, lives(good.PID))
	}
	awaitEnd(t, child)
}

func TestDetachedNeedsFiles(t *testing.T) {
	spec := shell("true", newMark(t), &listing{})
	spec.Detached = NewTag()
	if err := spec.Validate(); err == nil || !strings.Contains(err.Error(), "files for its output") {
		t.Errorf("Validate = %v", err)
	}
}

// TestReleaseDuringEnds ends a launcher while its detached children end.
func TestReleaseDuringEnds(t *testing.T) {
	launcher, stop := runLauncher(t)
	mark := newMark(t)
	var ending sync.WaitGroup
	for range 8 {
		spec, _ := detachedShell(t, "exec sleep 60", mark)
		child := start(t, launcher, spec)
		ending.Go(func() { _ = syscall.Kill(child.PID(), syscall.SIGKILL) }) // it may be reaped
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	ending.Wait()
	if _, err := launcher.Adopt(Identity{Boot: "x", PID: 2, Start: 1, Tag: NewTag()}, "x", 0); err == nil {
		t.Error("Adopt after the end = nil")
	}
	await.True(t, "nothing is left", func() bool { return len(marked(t, mark)) == 0 })
}
