package bootstrap_test

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
)

// faults is the number of faults of the chaos test: many of each kind.
var faults = testsize.Pick(1000, 250)

const (
	// healthy is the app of a signal that is never harmed. harmedBudget bounds an evaluation of the others.
	healthy      = "healthy"
	harmedBudget = 50 * time.Millisecond
)

// Many faults in eight signals: no tick of a healthy signal is lost, each harmed signal recovers, and nothing is left.
func TestChaos(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	harmed := []string{"a", "b", "c", "d", "e", "f"}
	more := []bootstrap.SignalPlan{shipped(healthy, "rps"), shipped("plugin", plugged)}
	for _, app := range harmed {
		more = append(more, shipped(app, changeable))
	}
	plan := planOf("chaos", more...)
	plan.Signals[2].Kind = api.KindPlugin
	before := descriptors(t)
	p := start(t, plan, noReleases{}, long)
	a := p.arrivals.next(t)
	for _, s := range plan.Signals {
		a.awaitEntry(t, s.App, "up", up)
	}
	e := a.evaluateWith(t, &evaluator{budget: harmedBudget, spared: []string{healthy}, pause: 5 * time.Millisecond})
	e.awaitAnswers(t, healthy, 10)
	v := newVictims(p, e, harmed)
	for v.made < faults {
		await.Nil(t, fmt.Sprintf("another fault after %d", v.made), func() error {
			if v.harm(t, faults-v.made) == 0 {
				return fmt.Errorf("no signal is left to harm: %v", v.faults)
			}
			return nil
		})
	}
	v.restoreAll(t)
	e.awaitAnswers(t, "plugin", 3)
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
	await.Nil(t, "no descriptor is left", func() error {
		// The listener belongs to the test itself.
		if now := descriptors(t); now > before+1 {
			return fmt.Errorf("%d descriptors, %d before", now, before)
		}
		return nil
	})
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v are left, want none", left, err)
	}
}

// victims are the apps whose signals are harmed, each in one way after another.
type victims struct {
	pool      *pool
	evaluator *evaluator
	apps      []string

	made      int            // faults
	faults    map[string]int // per app
	requested map[string]int // per app: number of requests at its last fault
}

func newVictims(p *pool, e *evaluator, apps []string) *victims {
	return &victims{pool: p, evaluator: e, apps: apps, faults: map[string]int{}, requested: map[string]int{}}
}

// harm makes at most most faults and returns their number. It takes each app whose signal runs and had a request since
// its last fault, those with the fewest faults first.
func (v *victims) harm(t testing.TB, most int) (made int) {
	t.Helper()
	status := v.pool.Status().Signals
	slices.SortStableFunc(status, func(a, b api.Process) int { return v.faults[a.App] - v.faults[b.App] })
	for _, now := range status {
		if !slices.Contains(v.apps, now.App) || made == most {
			continue
		}
		if now.State == "backoff" {
			// Start a signal that pauses after too many faults at once. Otherwise its pause would take long.
			_ = v.pool.Restart(now.App)
		}
		h := v.evaluator.ofApp(now.App)
		before, harmed := v.requested[now.App]
		if requested := h.answers + h.failed; running(now) && (requested > before || !harmed) {
			harm(t, v.pool, now, v.faults[now.App])
			v.faults[now.App]++
			v.requested[now.App] = requested
			made++
		}
	}
	v.made += made
	return made
}

// restoreAll restarts all of them and waits until they answer.
func (v *victims) restoreAll(t testing.TB) {
	t.Helper()
	clear(v.requested)
	for _, app := range v.apps {
		syscall.Kill(-v.pool.process(app).PID, syscall.SIGCONT) // an error means that it has ended or runs
		_ = v.pool.Restart(app)
		v.evaluator.awaitAnswers(t, app, 3)
	}
}

// harm makes a fault of one of nine kinds. Two work on any process; seven need a changeable one.
func harm(t testing.TB, p *pool, now api.Process, kind int) {
	t.Helper()
	kind %= int(behaviours) + 1
	var err error
	switch kind {
	case 0:
		err = syscall.Kill(-now.PID, syscall.SIGKILL)
		if plugin := p.process("plugin"); plugin.PID != 0 {
			_ = syscall.Kill(-plugin.PID, syscall.SIGKILL) // it may have ended already
		}
	case 1:
		err = syscall.Kill(-now.PID, syscall.SIGSTOP)
	default:
		err = syscall.Kill(now.PID, syscall.Signal(firstBehaviour+kind-1))
	}
	if err != nil && err != syscall.ESRCH {
		t.Fatal(err)
	}
}

// descriptors returns the number of open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
