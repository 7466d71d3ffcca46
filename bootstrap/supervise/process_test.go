package supervise

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// quick restarts without noticeable pauses.
func quick(budget int) Policy {
	return Policy{Budget: budget, Window: time.Hour, Base: time.Millisecond, Max: 2 * time.Millisecond}
}

// supervised is a process under test with its statuses.
type supervised struct {
	*Process
	statuses chan Status
	stop     func() error // ends Run and returns its error
}

// supervise runs a process until the test ends.
func supervise(t *testing.T, config ProcessConfig) supervised {
	t.Helper()
	return superviseWith(t, newLauncher(t), config)
}

func superviseWith(t *testing.T, launcher *Launcher, config ProcessConfig) supervised {
	t.Helper()
	statuses := make(chan Status, 1000)
	config.Name = "web"
	config.Log = slog.New(slog.DiscardHandler)
	config.Watch = func(s Status) {
		if s.State == Running && s.PID == 0 {
			t.Errorf("running without a process: %+v", s)
		}
		statuses <- s
	}
	if config.StartTimeout == 0 {
		config.StartTimeout = 10 * time.Second
	}
	process, err := NewProcess(launcher, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- process.Run(ctx); close(ended) }()
	stop := func() error { cancel(); return <-ended }
	t.Cleanup(func() { _ = stop() })
	return supervised{process, statuses, stop}
}

// await returns the next status with a state.
func (s supervised) await(t *testing.T, state State) Status {
	t.Helper()
	late := time.After(await.Patience)
	for {
		select {
		case status := <-s.statuses:
			if status.State == state {
				return status
			}
		case <-late:
			t.Fatalf("not %s after 10 s, but %+v", state, s.Status())
		}
	}
}

// states drains the statuses received so far and returns each change of state.
func (s supervised) states() (states []string) {
	for {
		select {
		case status := <-s.statuses:
			if n := len(states); n == 0 || states[n-1] != status.State.String() {
				states = append(states, status.State.String())
			}
		default:
			return states
		}
	}
}

// always returns the same spec for each start.
func always(spec Spec) func(context.Context) (Spec, error) {
	return func(context.Context) (Spec, error) { return spec, nil }
}

func serveSpec(socket, mark string) Spec {
	return Spec{Name: "serve", Argv: []string{self}, StopGrace: time.Second,
		Env: []string{roleVariable + "=serve", socketVariable + "=" + socket, markVariable + "=" + mark}}
}

func TestProcessLife(t *testing.T) {
	mark := newMark(t)
	socket := "@" + mark
	p := supervise(t, ProcessConfig{NewSpec: always(serveSpec(socket, mark)), Probe: probeHello(socket), Policy: quick(3)})
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	status := p.Status()
	if status.State != Running || !lives(status.PID) || status.Restarts != 0 || status.LastExit != "" {
		t.Errorf("status %+v", status)
	}
	if err := probeHello(socket)(t.Context()); err != nil {
		t.Errorf("ready, but: %v", err)
	}
	if err := p.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if diff := cmp.Diff([]string{"starting", "running", "stopping", "stopped"}, p.states()); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("left: %d", left)
	}
	if err := p.Ready(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("Ready after the end = %v, want ErrStopped", err)
	}
}

func TestProcessRestartsAfterKill(t *testing.T) {
	mark := newMark(t)
	socket := "@" + mark
	p := supervise(t, ProcessConfig{NewSpec: always(serveSpec(socket, mark)), Probe: probeHello(socket), Policy: quick(3)})
	before := p.await(t, Running)
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	pause := p.await(t, Backoff)
	if pause.Why != "killed by SIGKILL" || pause.LastExit != "killed by SIGKILL" || pause.PID != 0 {
		t.Errorf("status %+v", pause)
	}
	after := p.await(t, Running)
	if after.PID == before.PID || after.Restarts != 1 || after.LastExit != "killed by SIGKILL" || after.Why != "" {
		t.Errorf("status %+v, before %+v", after, before)
	}
}

func TestProcessGivesUp(t *testing.T) {
	tests := []struct {
		name   string
		config ProcessConfig
		why    string
	}{
		{"ends at once", ProcessConfig{NewSpec: always(shell("exit 3", "", &listing{}))}, "exit status 3"},
		{"ends before it answers", ProcessConfig{
			NewSpec: always(shell("exit 3", "", &listing{})),
			Probe:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, "exit status 3"},
		{"never answers", ProcessConfig{
			NewSpec:      always(shell("exec sleep 1000", "", &listing{})),
			Probe:        func(context.Context) error { return errors.New("refused") },
			StartTimeout: 20 * time.Millisecond}, "no answer within 20ms: refused"},
		{"probe that hangs", ProcessConfig{
			NewSpec:      always(shell("exec sleep 1000", "", &listing{})),
			Probe:        func(ctx context.Context) error { <-ctx.Done(); return errors.New("hung") },
			StartTimeout: 20 * time.Millisecond}, "no answer within 20ms: hung"},
		{"cannot be started", ProcessConfig{
			NewSpec: always(Spec{Name: "x", Argv: []string{"/nonexistent/x"}})}, "start x: fork/exec /nonexistent/x: no such file or directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.config.Policy = quick(2)
			p := supervise(t, test.config)
			if err := p.Ready(t.Context()); err == nil {
				// Without a probe it runs for a moment.
				p.await(t, Fatal)
			}
			err := p.Ready(t.Context())
			if !errors.Is(err, errFatal) || !strings.Contains(err.Error(), test.why) {
				t.Errorf("Ready = %v, want ErrFatal and %q", err, test.why)
			}
			if status := p.Status(); status.Why != test.why || status.Restarts != 2 || status.PID != 0 {
				t.Errorf("status %+v, want after 2 restarts, why %q", status, test.why)
			}
			if err := p.stop(); err != nil {
				t.Errorf("Run = %v", err)
			}
			if state := p.Status().State; state != Stopped {
				t.Errorf("state %s after the end", state)
			}
		})
	}
}

func TestProcessAnswersLate(t *testing.T) {
	probes := 0
	p := supervise(t, ProcessConfig{
		NewSpec: always(shell("exec sleep 1000", newMark(t), &listing{})),
		Policy:  quick(3),
		Probe: func(context.Context) error {
			if probes++; probes < 5 {
				return errors.New("not yet")
			}
			return nil
		},
	})
	status := p.await(t, Running)
	if probes != 5 || status.Restarts != 0 {
		t.Errorf("%d probes, %d restarts, want 5, 0", probes, status.Restarts)
	}
}

func TestOperatorRestart(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	slow := Policy{Budget: 9, Window: time.Hour, Base: time.Hour, Max: time.Hour}
	tests := []struct {
		name    string
		command string
		probe   func(context.Context) error
		policy  Policy
		from    State
		through []string
	}{
		{"running", "exec sleep 1000", nil, quick(0), Running, []string{"stopping", "starting", "running"}},
		{"starting", "exec sleep 1000", hang, quick(0), Starting, []string{"stopping", "starting"}},
		{"backoff", "exit 1", hang, slow, Backoff, []string{"starting"}},
		{"fatal", "exit 1", hang, quick(0), Fatal, []string{"starting"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := supervise(t, ProcessConfig{NewSpec: always(shell(test.command, newMark(t), &listing{})),
				Probe: test.probe, Policy: test.policy})
			status := p.await(t, test.from)
			if test.from == Starting && status.PID == 0 {
				status = p.await(t, test.from) // the status with a child
			}
			if test.from == Backoff {
				status = p.await(t, test.from) // the first restart has no pause
			}
			p.Restart("asked to")
			for _, want := range test.through {
				select {
				case got := <-p.statuses:
					for got.State == status.State && got.PID != status.PID {
						got = <-p.statuses // the same state again, now with its child
					}
					if status = got; got.State.String() != want {
						t.Fatalf("state %s, want %s", got.State, want)
					}
				case <-time.After(await.Patience):
					t.Fatalf("not %s after %v", want, await.Patience)
				}
			}
		})
	}
}

func TestRestartForgetsFailures(t *testing.T) {
	p := supervise(t, ProcessConfig{NewSpec: always(shell("exit 1", "", &listing{})), Policy: quick(1)})
	if status := p.await(t, Fatal); status.Restarts != 1 {
		t.Errorf("fatal after %d restarts, want 1", status.Restarts)
	}
	p.Restart("mended")
	// One restart by Restart, and again one of the budget.
	if status := p.await(t, Fatal); status.Restarts != 3 {
		t.Errorf("fatal after %d restarts, want 3", status.Restarts)
	}
}

func TestProcessWithoutLauncher(t *testing.T) {
	launcher, stop := runLauncher(t)
	p := superviseWith(t, launcher, ProcessConfig{NewSpec: always(shell("exec sleep 1000", newMark(t), &listing{})), Policy: quick(3)})
	p.await(t, Running)
	if err := stop(); err != nil {
		t.Errorf("launcher: %v", err)
	}
	p.await(t, Stopped)
	if err := p.stop(); !errors.Is(err, errClosed) {
		t.Errorf("Run = %v, want ErrClosed", err)
	}
}

func TestReadyEndsWithContext(t *testing.T) {
	p := supervise(t, ProcessConfig{
		NewSpec: always(shell("exec sleep 1000", newMark(t), &listing{})), Policy: quick(3),
		Probe: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	})
	p.await(t, Starting)
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if err := p.Ready(ctx); !errors.Is(err, reason) {
		t.Errorf("Ready = %v, want %v", err, reason)
	}
}

func TestProcessClosesFilesOfSpec(t *testing.T) {
	var opened []*os.File
	p := supervise(t, ProcessConfig{Policy: quick(3), NewSpec: func(context.Context) (Spec, error) {
		executable, err := os.Open("/bin/sh")
		if err != nil {
			return Spec{}, err
		}
		opened = append(opened, executable)
		return Spec{Name: "x", Executable: executable, Argv: []string{"sh", "-c", "exec sleep 1000"},
			Env: []string{"PATH=" + os.Getenv("PATH")}}, nil
	}})
	p.await(t, Running)
	if _, err := opened[0].Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Stat = %v, want ErrClosed", err)
	}
}

func TestProcessConfigValidate(t *testing.T) {
	_, err := NewProcess(nil, ProcessConfig{})
	for _, want := range []string{"without a name", "no NewSpec", "start timeout", "no logger", "restart window"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewProcess = %v, want %q in it", err, want)
		}
	}
}
