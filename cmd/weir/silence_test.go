package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// suspend stops a process without ending it, until the test ends.
func suspend(t *testing.T, pid int) {
	t.Helper()
	if err := await.Halt(pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // it may have been killed
}

// A halted agent is silent for every part by the same rule, before its instances run
// elsewhere: status shows since when, and what happens next.
func TestHaltedAgentIsShownAsSilent(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	u.weir(t, "app", "set", "web", "--instances", "4", "--cpus", "0.2", "--command", "sleep 1000")
	u.waitRunning(t, "web", 4)
	s, err := runJSON[api.HarmonizerStatus](u, "app", "status", "web")
	if err != nil {
		t.Fatal(err)
	}
	victim := s.App.Indices[0].Instances[0].Node
	suspend(t, agentPID(t, victim))
	shown := func() error {
		text := u.weir(t, "status")
		warned := strings.Contains(text, "! node "+victim+" is silent since ") || strings.Contains(text, "! node "+victim+" was silent at the last tick")
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); warned && len(f) > 2 && f[0] == victim && f[2] == "silent" {
				return nil
			}
		}
		return errors.New(text)
	}
	eventually(t, "a silent node in status", func() error {
		moved := runsElsewhere(u, victim, 4) == nil
		err := shown()
		if moved && err != nil {
			t.Fatalf("the instances run elsewhere before status shows the silent node:\n%v", err)
		}
		return err
	})
	eventually(t, "web elsewhere", func() error { return runsElsewhere(u, victim, 4) })
	eventually(t, "a silent node in status, while its instances run elsewhere", shown)
}

// A halted autoscaler is shown after two ticks, and restarted after a limit that follows
// the tick.
func TestHaltedAutoscalerIsShownAndRestarted(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	s, err := runJSON[api.PoolStatus](u, "status")
	if err != nil || s.Processes == nil || s.Processes.Autoscaler.PID <= 0 {
		t.Fatalf("status: %+v, %v", s.Processes, err)
	}
	halted := s.Processes.Autoscaler
	suspend(t, halted.PID)
	eventually(t, "a silent autoscaler in status", func() error {
		text := u.weir(t, "status")
		first, _, _ := strings.Cut(text, "\n")
		if !strings.HasPrefix(first, "! no tick since ") || !strings.Contains(first, "the autoscaler has not reported since ") || !strings.Contains(first, "bootstrap restarts it at ") {
			return errors.New(text)
		}
		return nil
	})
	u.pool(t, "a tick of another autoscaler", func(s api.PoolStatus) error {
		if s.Processes == nil || s.Processes.Autoscaler.PID == halted.PID || s.LastTick.At.Before(s.Processes.Autoscaler.Since) {
			return fmt.Errorf("%+v, last tick at %v", s.Processes, s.LastTick.At)
		}
		return nil
	})
}
