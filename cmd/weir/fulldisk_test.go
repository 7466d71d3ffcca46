package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
)

// firstLine returns the first line of "weir status".
func (u *upProcess) firstLine() string {
	r := weir("--data", u.data, "status")
	first, _, _ := strings.Cut(r.stdout+r.stderr, "\n")
	return first
}

// A disk that fills up while "weir up" runs ends nothing but the metrics store. Status
// begins with it, and all goes on when there is space.
func TestDiskFillsUpAndIsFreed(t *testing.T) {
	t.Parallel()
	data, inside := smalldisk.On(t, 200<<20, ".")
	if !inside {
		return
	}
	u := startUp(t, data)
	u.weir(t, "app", "set", "web", "--instances", "2", "--cpus", "0.2", "--mem", "64", "--command", webCommand)
	u.waitRunning(t, "web", 2)
	u.pool(t, "an answer of the signal", func(s api.PoolStatus) error { return answeredIn(*s.LastTick) })
	pid := u.cmd.Process.Pid
	free := smalldisk.Fill(t, data)
	eventually(t, "a status that begins with the full disk", func() error {
		if line := u.firstLine(); !strings.HasPrefix(line, "! disk full: "+data+" has 0 MB free") {
			return errors.New(line)
		}
		return nil
	})
	eventually(t, "the end of the metrics store alone", func() error {
		if out := u.output(); !strings.Contains(out, "! metrics: the store is away") {
			return errors.New(out)
		}
		return nil
	})
	eventually(t, "a write to the bus that fails for want of space", func() error {
		if r := weir("--data", data, "app", "set", "web", "--instances", "3"); r.code != 0 {
			return nil
		}
		return errors.New("it is taken")
	})
	free()
	eventually(t, "a write to the bus", func() error {
		if r := weir("--data", data, "app", "set", "web", "--instances", "4", "--cpus", "0.2", "--mem", "64", "--command", webCommand); r.code != 0 {
			return errors.New(r.stderr)
		}
		return nil
	})
	u.waitRunning(t, "web", 4)
	u.pool(t, "an answer of the signal, from the windows of the store that is back", func(s api.PoolStatus) error {
		if s.LastTick.Problems != nil {
			return fmt.Errorf("problems %q", s.LastTick.Problems)
		}
		return answeredIn(*s.LastTick)
	})
	if line := u.firstLine(); strings.Contains(line, "disk full") {
		t.Errorf("status still begins with %q", line)
	}
	if u.cmd.Process.Pid != pid || u.ended() == nil {
		t.Error("weir up ended")
	}
	log, err := os.ReadFile(filepath.Join(data, "weir.log"))
	if err != nil || strings.Contains(string(log), "panic:") {
		t.Errorf("the log has a panic, or cannot be read: %v", err)
	}
}

// An application that fills the disk with a file that is removed but open uses nothing in its folder, so the agent does
// not end it. It can be deleted: the bus then works with its reserve, which the application did not fill, although it
// needed more than a second for the last 64 MB. Its instance ends, and the space is reserved again.
func TestApplicationThatFillsTheDiskIsDeleted(t *testing.T) {
	t.Parallel()
	data, inside := smalldisk.On(t, 900<<20, ".")
	if !inside {
		return
	}
	u := startUp(t, data)
	full := filepath.Join(t.TempDir(), "full") // on another disk
	u.weir(t, "app", "set", "hog", "--instances", "1", "--cpus", "0.1", "--command",
		"exec 3>fill; rm fill; head -c 600M /dev/zero >&3; while head -c 8M /dev/zero >&3; do sleep 0.1; done; echo >"+full+"; exec sleep 1000")
	eventually(t, "an application that has no more space", func() error {
		_, err := os.Lstat(full)
		return err
	})
	eventually(t, "a status that begins with the disk", func() error {
		if line := u.firstLine(); !strings.HasPrefix(line, "! disk nearly full: "+data+" has ") {
			return errors.New(line)
		}
		return nil
	})
	u.deleteHog(t)
}

// deleteHog deletes the application that fills the disk, and waits until no disk is full.
func (u *upProcess) deleteHog(t *testing.T) {
	t.Helper()
	eventually(t, "the deletion", func() error {
		if r := weir("--data", u.data, "app", "delete", "hog"); r.code != 0 && !strings.Contains(r.stderr, "no application hog") {
			return errors.New(r.stderr)
		}
		return nil
	})
	eventually(t, "space", func() error {
		if line := u.firstLine(); strings.Contains(line, "disk") {
			return errors.New(line)
		}
		return nil
	})
}

// An application that fills the disk with files in its folder, without a disk request, is ended and named. The other
// application on the same disk runs on.
func TestApplicationThatFillsTheDiskIsEnded(t *testing.T) {
	t.Parallel()
	data, inside := smalldisk.On(t, 900<<20, ".")
	if !inside {
		return
	}
	u := startUp(t, data)
	u.weir(t, "app", "set", "web", "--instances", "2", "--cpus", "0.1", "--command", "head -c 3M /dev/zero > kept; "+webCommand)
	u.waitRunning(t, "web", 2)
	u.weir(t, "app", "set", "hog", "--instances", "1", "--cpus", "0.1", "--command", "dd if=/dev/zero of=fill bs=1M 2>/dev/null; exec sleep 1000")
	eventually(t, "the end of the instance", func() error {
		r := weir("--data", data, "app", "crashes", "hog")
		if !strings.Contains(r.stdout, "ended because the disk of its node had ") || !strings.Contains(r.stdout, " and requested no disk; killed by SIGTERM") {
			return errors.New(r.stdout + r.stderr)
		}
		return nil
	})
	u.deleteHog(t)
	if r := weir("--data", data, "app", "crashes", "web"); strings.Contains(r.stdout, "ended because") {
		t.Errorf("crashes of web:\n%s\nwant none", r.stdout)
	}
	eventually(t, "no files of the instance", func() error {
		left, err := filepath.Glob(filepath.Join(data, "local", "machines", "*", "*", "fill"))
		if err != nil || len(left) != 0 {
			return fmt.Errorf("%v are left, %w", left, err)
		}
		return nil
	})
}

// A disk of its own that is full takes its part away, and nothing else.
func TestFullDiskOfTheMetrics(t *testing.T) {
	t.Parallel()
	data, inside := smalldisk.On(t, 1<<20, "metrics")
	if !inside {
		return
	}
	u := startUp(t, data)
	u.weir(t, "app", "set", "web", "--instances", "2", "--cpus", "0.2", "--mem", "64", "--command", webCommand)
	u.waitRunning(t, "web", 2)
	if line, want := u.firstLine(), "! disk full: "+filepath.Join(data, "metrics")+" has "; !strings.HasPrefix(line, want) {
		t.Errorf("status begins with %q, want %q", line, want)
	}
	if out := u.output(); !strings.Contains(out, "! metrics: the store is away") {
		t.Errorf("weir up printed:\n%s\nwant that the store is away", out)
	}
}

// "weir up" does not start on a full disk. Its error has the path, the room and the remedy.
func TestUpOnAFullDisk(t *testing.T) {
	t.Parallel()
	data, inside := smalldisk.On(t, 1<<20, ".")
	if !inside {
		return
	}
	u := launchUp(t, data)
	<-u.done
	want := "disk full: " + data + " has 1 MB free and needs 64 MB: free or add space; or give another folder with --data"
	if out := u.output(); !strings.Contains(out, want) {
		t.Errorf("weir up printed:\n%s\nwant %q", out, want)
	}
	entries, err := os.ReadDir(data)
	if err != nil || len(entries) != 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
}

// A full disk of the bucket takes the bucket away, and nothing else. When there is space,
// the release is published and its signal answers.
func TestFullDiskOfTheBucket(t *testing.T) {
	t.Parallel()
	data, inside := smalldisk.On(t, 150<<20, "s3")
	if !inside {
		return
	}
	bucket := filepath.Join(data, "s3")
	free := smalldisk.Fill(t, bucket)
	u := startUp(t, data)
	if line, want := u.firstLine(), "! disk full: "+bucket+" has 0 MB free"; !strings.HasPrefix(line, want) {
		t.Errorf("status begins with %q, want %q", line, want)
	}
	u.weir(t, "app", "set", "web", "--instances", "2", "--cpus", "0.2", "--mem", "64", "--command", webCommand)
	u.waitRunning(t, "web", 2)
	free()
	u.waitFor(t, "  release    weir/instance_count@")
	u.pool(t, "an answer of the signal", func(s api.PoolStatus) error { return answeredIn(*s.LastTick) })
}

// The death of the metrics store, as by a panic of its database, takes nothing along.
func TestMetricsStoreIsKilled(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	u.pool(t, "an answer of the signal", func(s api.PoolStatus) error { return answeredIn(*s.LastTick) })
	before, err := runJSON[api.PoolStatus](u, "status")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(storePID(t, u.data), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	u.waitFor(t, "! metrics: the store is away (")
	u.waitFor(t, "  metrics    the store is back")
	u.pool(t, "an answer of the signal, after the death of the store", func(s api.PoolStatus) error {
		if len(s.LastTick.Problems) > 0 || !s.LastTick.At.After(before.LastTick.At) {
			return fmt.Errorf("problems %q at %v", s.LastTick.Problems, s.LastTick.At)
		}
		return answeredIn(*s.LastTick)
	})
	after, err := runJSON[api.PoolStatus](u, "status")
	if err != nil || after.Processes.PID != before.Processes.PID || after.Processes.Autoscaler.PID != before.Processes.Autoscaler.PID {
		t.Errorf("processes before and after: %+v, %+v, %v, want the same", before.Processes, after.Processes, err)
	}
}

// storePID returns the process of the metrics store of a data folder.
func storePID(t *testing.T, data string) int {
	t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if strings.Contains(string(line), "\x00metrics\x00serve\x00--data\x00"+data+"\x00") {
			var pid int
			fmt.Sscan(filepath.Base(dir), &pid)
			return pid
		}
	}
	t.Fatalf("no metrics store of %s", data)
	return 0
}
