package bootstrap_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
)

// notebook is an in-memory Trials.
type notebook struct {
	mu     sync.Mutex
	trials []api.Trial
}

func (n *notebook) Load(context.Context) ([]api.Trial, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.trials), nil
}

func (n *notebook) Save(_ context.Context, t api.Trial) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trials = append(n.trials, t)
	return nil
}

// shadowed returns a plan whose second signal has a shadow.
func shadowed(plan bootstrap.Plan, promoteAfter int) bootstrap.Plan {
	plan.Signals = slices.Clone(plan.Signals)
	plan.Signals[1].Shadow = &bootstrap.ShadowPlan{Version: next, PromoteAfter: promoteAfter}
	return plan
}

func decided(p api.Process) bool {
	return p.Trial != nil && p.Trial.Outcome != api.TrialUndecided
}

func TestShadowIsPromoted(t *testing.T) {
	plan := released("promoted")
	s := newStore(t, plan)
	flag := brittleFlag(t)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), behaving(brittle))
	book := &notebook{}
	p := startWith(t, shadowed(plan, 20), s, func(c *bootstrap.Config) { c.Trials = book })
	a := p.arrivals.next(t)
	e := a.evaluate(t, patient)
	now := a.awaitEntry(t, "web", "the shadow's version", runs(next))
	status := p.awaitProcess(t, "web", "promoted", decided)
	if status.Trial.Outcome != api.TrialPromoted || status.Trial.Agreeing != 20 || status.Wanted != next || status.Version != next {
		t.Errorf("the signal is %+v, trial %+v, want it promoted after 20 ticks", status, status.Trial)
	}
	if h := e.ofApp("web"); h.failed > 0 {
		t.Errorf("%d evaluations failed, the last with %v: want no tick lost", h.failed, h.lastErr)
	}
	p.end()

	p = startWith(t, shadowed(plan, 20), s, func(c *bootstrap.Config) { c.Trials = book })
	a = p.arrivals.next(t)
	now = a.awaitEntry(t, "web", "the promoted version at once", up)
	if now.Version != next || now.Candidate != nil {
		t.Fatalf("after a restart the entry is %+v, want %s", now, next)
	}
	a.evaluate(t, patient)
	flag()
	kill(t, -now.Group)
	a.awaitEntry(t, "web", "the pinned version again", runs(version))
	if status := p.process("web"); status.Trial.Outcome != api.TrialRolledBack || status.Wanted != version {
		t.Errorf("the signal is %+v, trial %+v, want it rolled back", status, status.Trial)
	}
	if kept, _ := book.Load(t.Context()); kept[len(kept)-1].Outcome != api.TrialRolledBack {
		t.Errorf("kept %+v, want the last rolled back", kept)
	}
}

func TestFailingShadowEndsTrial(t *testing.T) {
	for _, c := range []struct {
		how     string
		outcome api.TrialOutcome
		why     string
	}{
		{four, api.TrialDiverged, "cpus 4, not 3"},
		{crashing, api.TrialCrashed, "exit status 1"},
		{invalidAnswers, api.TrialDiverged, "it failed"},
		{silent, api.TrialDiverged, "it accepted the connection and sent no response"},
	} {
		t.Run(c.how, func(t *testing.T) {
			plan := released("shadow" + c.how)
			s := newStore(t, plan)
			s.publish(t, pinned(plan, next).Signals[1].Ref(), behaving(c.how))
			book := &notebook{}
			p := startWith(t, shadowed(plan, 3), s, func(c *bootstrap.Config) { c.Trials = book })
			a := p.arrivals.next(t)
			e := a.evaluate(t, time.Second)
			status := p.awaitProcess(t, "web", "decided", func(p api.Process) bool { return decided(p) && p.Candidate == nil })
			if status.Trial.Outcome != c.outcome || !strings.Contains(status.Trial.Why, c.why) || status.Version != version || status.Wanted != version {
				t.Errorf("the signal is %+v, trial %+v, want it %s: %s", status, status.Trial, c.outcome, c.why)
			}
			e.awaitAnswers(t, "web", 5)
			p.end()
			p = startWith(t, shadowed(plan, 3), s, func(c *bootstrap.Config) { c.Trials = book })
			p.awaitProcess(t, "web", "running", running)
			if status := p.process("web"); status.Trial.Outcome != c.outcome || status.Candidate != nil {
				t.Errorf("after a restart the signal is %+v, trial %+v, want it to stay ended", status, status.Trial)
			}
			update(t, p, plan)
			update(t, p, shadowed(plan, 3))
			if status := p.process("web"); status.Trial.Outcome != api.TrialUndecided {
				t.Errorf("after another plan in between the trial is %+v, want a new one", status.Trial)
			}
		})
	}
}

// A shadow without promotion continues after a difference.
func TestShadowWithoutPromotion(t *testing.T) {
	plan := released("compared")
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), behaving(four))
	p := start(t, shadowed(plan, 0), s, long)
	a := p.arrivals.next(t)
	a.evaluate(t, patient)
	status := p.awaitProcess(t, "web", "compared again and again", func(p api.Process) bool { return p.Trial != nil && p.Trial.Compared >= 20 })
	if status.Trial.Outcome != api.TrialUndecided || status.Trial.Agreeing != 0 || status.Trial.Difference != "cpus 4, not 3" {
		t.Errorf("the trial is %+v, want it to go on, with the difference", status.Trial)
	}
	if status.Version != version || status.Candidate == nil || status.Candidate.Restarts != 0 || !running(*status.Candidate) {
		t.Errorf("the signal is %+v, its shadow %+v, want both to run", status, status.Candidate)
	}
}

// If a shadow's version is pinned, it replaces the current one without a new process.
func TestShadowIsPinned(t *testing.T) {
	plan := released("pinned")
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), program)
	p := start(t, shadowed(plan, 0), s, long)
	a := p.arrivals.next(t)
	a.evaluate(t, patient)
	shadow := a.awaitEntry(t, "web", "with a shadow", func(e bootstrap.Entry) bool { return e.Candidate != nil && e.Candidate.Down == "" })
	if !shadow.Candidate.Shadow || shadow.Candidate.Version != next {
		t.Errorf("the candidate is %+v, want the shadow", shadow.Candidate)
	}
	update(t, p, pinned(plan, next))
	if now := a.awaitEntry(t, "web", "the shadow's version", runs(next)); now.Group != shadow.Candidate.Group {
		t.Errorf("group %d runs, want the shadow's %d", now.Group, shadow.Candidate.Group)
	}
}

// brittleFlag returns a function after which brittle signals crash.
func brittleFlag(t testing.TB) (raise func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "broken")
	t.Setenv(brittleVariable, path)
	return func() {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
