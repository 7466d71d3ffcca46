package supervise

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// stubborn supervises children that only SIGKILL ends. Their own grace period is long.
func stubborn(t *testing.T, config ProcessConfig) supervised {
	ready := make(chan struct{}, 100)
	spec := shell(`trap '' TERM; echo ready; while :; do sleep 1000; done`, newMark(t), &listing{})
	spec.StopGrace = time.Hour
	spec.Lines = func(string, []byte) { ready <- struct{}{} }
	config.NewSpec = always(spec)
	if config.Probe == nil {
		config.Probe = func(ctx context.Context) error {
			select {
			case <-ready:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	p := supervise(t, config)
	t.Cleanup(func() {
		ended := make(chan error, 1)
		go func() { ended <- p.stop() }()
		await.True(t, "asked to end", func() bool {
			state := p.Status().State
			return state == Stopping || state == Stopped
		})
		if pid := p.Status().PID; pid != 0 {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // an error means that it is gone
		}
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return p
}

func TestFailRestartsUnderBudget(t *testing.T) {
	p := stubborn(t, ProcessConfig{Policy: quick(2)})
	for i := range 3 {
		status := p.await(t, Running)
		if status.Restarts != i {
			t.Errorf("%d restarts, want %d", status.Restarts, i)
		}
		p.Fail("no answer for 3 ticks")
		if status := p.await(t, Stopping); status.Why != "reported: no answer for 3 ticks" {
			t.Errorf("status %+v", status)
		}
		status = p.await(t, Backoff)
		if status.LastExit != "killed by SIGKILL" {
			t.Errorf("status %+v", status)
		}
	}
	if status := p.await(t, Fatal); status.Why != "reported: no answer for 3 ticks" {
		t.Errorf("status %+v", status)
	}
	p.Fail("no child")
	p.Restart("repaired")
	if status := p.await(t, Running); status.Restarts != 3 {
		t.Errorf("status %+v", status)
	}
}

func TestFailEndsStoppedChild(t *testing.T) {
	p := stubborn(t, ProcessConfig{Policy: quick(2)})
	before := p.await(t, Running)
	if err := syscall.Kill(-before.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Fail("silent")
	if after := p.await(t, Running); lives(before.PID) || after.PID == before.PID {
		t.Errorf("status %+v, before %+v", after, before)
	}
}

func TestFailWhileStarting(t *testing.T) {
	p := stubborn(t, ProcessConfig{Policy: quick(0),
		Probe: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
	for p.await(t, Starting).PID == 0 {
	}
	p.Fail("gone astray")
	if status := p.await(t, Fatal); status.Why != "reported: gone astray" {
		t.Errorf("status %+v", status)
	}
}

func TestFailWithoutChild(t *testing.T) {
	process, err := NewProcess(nil, ProcessConfig{Name: "x", NewSpec: always(Spec{}), StartTimeout: 1, Policy: quick(1), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	process.Fail("no child")
	if status := process.Status(); status.State != Stopped {
		t.Errorf("status %+v", status)
	}
}

func TestUnhealthyChildIsRestarted(t *testing.T) {
	tests := []struct {
		name   string
		health func(ctx context.Context) error
		why    string
	}{
		{"returns an error", func(context.Context) error { return errors.New("refused") }, "unhealthy, 3 in a row: refused"},
		{"hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "unhealthy, 3 in a row: context deadline exceeded"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := stubborn(t, ProcessConfig{Policy: quick(1),
				Health: test.health, HealthEvery: 2 * time.Millisecond, HealthTimeout: 3 * time.Millisecond, HealthFailures: 3})
			if status := p.await(t, Fatal); status.Why != test.why || status.Restarts != 1 {
				t.Errorf("status %+v, want why %q after 1 restart", status, test.why)
			}
			if got := p.states(); len(got) > 0 {
				t.Errorf("then %q", got)
			}
		})
	}
}

// Only failures in a row count.
func TestHealthSuccessResetsFailures(t *testing.T) {
	var calls atomic.Int64
	enough := make(chan struct{})
	p := supervise(t, ProcessConfig{NewSpec: always(shell("exec sleep 1000", newMark(t), &listing{})), Policy: quick(0),
		HealthEvery: time.Millisecond, HealthTimeout: 10 * time.Second, HealthFailures: 3,
		Health: func(context.Context) error {
			n := calls.Add(1)
			if n == 30 {
				close(enough)
			}
			if n%3 == 0 {
				return nil
			}
			return errors.New("now and then")
		}})
	select {
	case <-enough:
	case <-time.After(await.Patience):
		t.Fatalf("%d calls", calls.Load())
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if got := p.states(); !slices.Equal(got, []string{"starting", "running", "stopping", "stopped"}) {
		t.Errorf("states %q", got)
	}
}

// A health check that hangs does not delay the report that the child has ended.
func TestHealthCheckDoesNotDelayEnd(t *testing.T) {
	checking := make(chan struct{}, 100)
	p := supervise(t, ProcessConfig{NewSpec: always(shell("exec sleep 1000", newMark(t), &listing{})), Policy: quick(0),
		HealthEvery: time.Millisecond, HealthTimeout: time.Hour, HealthFailures: 1,
		Health: func(ctx context.Context) error { checking <- struct{}{}; <-ctx.Done(); return ctx.Err() }})
	status := p.await(t, Running)
	<-checking
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := p.await(t, Fatal); status.Why != "killed by SIGKILL" {
		t.Errorf("status %+v", status)
	}
}

func TestHealthConfigValidate(t *testing.T) {
	_, err := NewProcess(nil, ProcessConfig{Health: func(context.Context) error { return nil }})
	if want := "health every 0s, timeout 0s, failures 0"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("NewProcess = %v, want %q in it", err, want)
	}
}

func TestStatusReportsUnenforcedLimits(t *testing.T) {
	launcher, stop := runChanged(t, withoutCgroups)
	t.Cleanup(func() { _ = stop() })
	spec := shell("exec sleep 1000", newMark(t), &listing{})
	spec.Limits = Limits{Processes: 20}
	p := superviseWith(t, launcher, ProcessConfig{NewSpec: always(spec), Policy: quick(0)})
	if status := p.await(t, Running); status.Unenforced != "processes: no cgroup v2" {
		t.Errorf("status %+v", status)
	}
}
