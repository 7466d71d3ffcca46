package bootstrap_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
)

const (
	// faults is how many the chaos test makes.
	faults = 1000

	// healthy is the app of a signal that nobody harms, harmedBudget what the
	// others have for an evaluation.
	healthy      = "healthy"
	harmedBudget = 50 * time.Millisecond
)

// A thousand faults over eight signals: no tick of a healthy signal is lost, each
// of the harmed ones comes back, and nothing is left of any of it.
func TestChaos(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	harmed := []string{"a", "b", "c", "d", "e", "f"}
	more := []bootstrap.SignalPlan{shipped(healthy, "rps"), shipped("plugin", plugged)}
	for _, app := range harmed {
		more = append(more, shipped(app, moody))
	}
	plan := planOf("chaos", more...)
	plan.Signals[2].Kind = bootstrap.KindPlugin
	before := descriptors(t)
	p := start(t, plan, nobody{}, long)
	a := p.arrivals.next(t)
	for _, s := range plan.Signals {
		a.awaitEntry(t, s.App, "up", up)
	}
	e := a.evaluateSparing(t, harmedBudget, healthy)
	e.awaitAnswers(t, healthy, 10)
	asked := map[string]int{} // how often, when it was harmed last
	for i := range faults {
		app := harmed[i%len(harmed)]
		eventually(t, "a tick after the last fault of "+app, func() error {
			if h := e.ofApp(app); h.answers+h.failed == asked[app] {
				return errors.New("none yet")
			}
			return nil
		})
		now := livingProcess(t, p, app)
		h := e.ofApp(app)
		asked[app] = h.answers + h.failed
		harm(t, p, now, i/len(harmed))
	}
	for _, app := range append(harmed, "plugin") {
		syscall.Kill(-p.process(app).PID, syscall.SIGCONT) // an error: it is not there, or runs
		_ = p.Restart(app)
		e.awaitAnswers(t, app, 3)
	}
	if h := e.ofApp(healthy); h.failed > 0 {
		t.Errorf("%d of %d ticks of the healthy signal were lost, the last with %v: want none", h.failed, h.failed+h.answers, h.lastErr)
	} else {
		t.Logf("%d ticks, the longest gap between two answers of the healthy signal %v", h.answers, h.longest)
	}
	if now := p.process(healthy); now.Restarts != 0 {
		t.Errorf("the healthy signal is %+v, want it never restarted", now)
	}
	if err := p.end(); err != nil {
		t.Errorf("bootstrap ended with %v, want nil", err)
	}
	for _, a := range p.arrivals.all {
		a.awaitEnd(t)
	}
	eventually(t, "no descriptor is left", func() error {
		// What the test itself holds: the listener and the evaluator's.
		if now := descriptors(t); now > before+1 {
			return fmt.Errorf("%d descriptors, %d before", now, before)
		}
		return nil
	})
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v are left, want none", left, err)
	}
}

// harm makes a fault of one of nine kinds: of two that any process can have, and
// seven that a moody one has when it is told.
func harm(t *testing.T, p *pool, now bootstrap.Process, kind int) {
	t.Helper()
	kind %= int(moods) + 1
	var err error
	switch kind {
	case 0:
		err = syscall.Kill(-now.PID, syscall.SIGKILL)
		if plugin := p.process("plugin"); plugin.PID != 0 {
			_ = syscall.Kill(-plugin.PID, syscall.SIGKILL) // it may have ended by now
		}
	case 1:
		err = syscall.Kill(-now.PID, syscall.SIGSTOP)
	default:
		err = syscall.Kill(now.PID, syscall.Signal(firstMood+kind-1))
	}
	if err != nil && err != syscall.ESRCH {
		t.Fatal(err)
	}
}

// livingProcess waits until an app's signal runs. One that rests after too many
// faults is started at once, or the test would take as long as its patience.
func livingProcess(t *testing.T, p *pool, app string) bootstrap.Process {
	t.Helper()
	return p.awaitProcess(t, app, "running", func(now bootstrap.Process) bool {
		if now.State == "backoff" {
			_ = p.Restart(app)
		}
		return running(now)
	})
}

// descriptors returns how many files this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
