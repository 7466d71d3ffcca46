package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/smalldisk"
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
	u.pool(t, "an answer of the signal", func(s poolStatus) error { return answeredIn(*s.LastTick) })
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
	u.pool(t, "an answer of the signal, from the windows of the store that is back", func(s poolStatus) error {
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

// "weir up" does not start on a full disk, and its error says what to do.
func TestUpOnAFullDisk(t *testing.T) {
	t.Parallel()
	data, inside := smalldisk.On(t, 1<<20, ".")
	if !inside {
		return
	}
	u := launchUp(t, data)
	<-u.done
	want := "disk full: " + data + " has 1 MB free, and needs 64 MB: free space there, or give it more; or name another folder with --data"
	if out := u.output(); !strings.Contains(out, want) {
		t.Errorf("weir up printed:\n%s\nwant %q", out, want)
	}
	entries, err := os.ReadDir(data)
	if err != nil || len(entries) != 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
}
