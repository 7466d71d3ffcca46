package bootstrap_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// next is the version after version.
const next = "v1.5.0"

// patient is the budget of an evaluation that should succeed.
const patient = 10 * time.Second

// pinned returns the plan with another version of its second signal.
func pinned(plan bootstrap.Plan, version string) bootstrap.Plan {
	plan.Signals = slices.Clone(plan.Signals)
	plan.Signals[1].Version = version
	return plan
}

func update(t testing.TB, p *pool, plan bootstrap.Plan) {
	t.Helper()
	if err := p.Update(withTestVariables(plan)); err != nil {
		t.Fatal(err)
	}
}

func runs(version string) func(bootstrap.Entry) bool {
	return func(e bootstrap.Entry) bool { return up(e) && e.Version == version && e.Candidate == nil }
}

// swapped runs a pool with a working signal of app web, under an evaluator, and then pins a version with another
// behaviour.
func swapped(t testing.TB, namespace, how string) (*pool, *autoscaler, *evaluator) {
	t.Helper()
	plan := released(namespace)
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), behaving(how))
	p := start(t, plan, s, long)
	a := p.arrivals.next(t)
	a.awaitEntry(t, "web", "up", up)
	e := a.evaluate(t, patient)
	e.awaitAnswers(t, "web", 10)
	update(t, p, pinned(plan, next))
	return p, a, e
}

func TestSwap(t *testing.T) {
	p, a, e := swapped(t, "swap", four)
	before := p.plan.Signals[1].Address
	now := a.awaitEntry(t, "web", "the next version", runs(next))
	await.Nil(t, "answers of the next version", func() error {
		if h := e.ofApp("web"); h.cpus != 4 {
			return errors.New("there are none")
		}
		return nil
	})
	if now.Address == before || !strings.Contains(now.Address, "-web~1-") {
		t.Errorf("the next version answers at @%s, want APP~1", now.Address)
	}
	h := e.ofApp("web")
	if h.failed > 0 {
		t.Errorf("%d evaluations failed, the last with %v: want no tick lost", h.failed, h.lastErr)
	}
	t.Logf("longest gap between two of %d answers: %v", h.answers, h.longest)
	await.Nil(t, "the end of the version before", func() error {
		if isHeld(before) {
			return errors.New("it listens")
		}
		return nil
	})
	if status := p.process("web"); status.Version != next || status.Wanted != next || status.Why != "" || status.Candidate != nil {
		t.Errorf("the signal is %+v, want it to run %s", status, next)
	}
	kill(t, -now.Group)
	again := a.awaitEntry(t, "web", "up again", func(e bootstrap.Entry) bool { return up(e) && e.Group != now.Group })
	if again.Address != now.Address {
		t.Errorf("after a restart it answers at @%s, want it to keep @%s", again.Address, now.Address)
	}
	update(t, p, p.plan)
	back := a.awaitEntry(t, "web", "the version before", runs(version))
	if back.Address == again.Address {
		t.Errorf("the version before answers at @%s, want another address than that of %s", back.Address, next)
	}
}

func TestSwapToVersionWithoutAnswer(t *testing.T) {
	for _, c := range []struct{ how, why string }{
		{crashing, "exit status 1"},
		{invalidAnswers, "failed on live windows"},
		{half, "failed on live windows"},
		{closing, "failed on live windows"},
		{silent, "no response to live windows within 1s"},
	} {
		t.Run(c.how, func(t *testing.T) {
			p, a, e := swapped(t, "bad"+c.how, c.how)
			status := p.awaitProcess(t, "web", "reporting that the next version failed", func(p api.Process) bool {
				return strings.Contains(p.Why, "cannot replace it yet") && strings.Contains(p.Why, c.why)
			})
			if !strings.HasPrefix(status.Why, next+" cannot replace it yet: ") {
				t.Errorf("why %q, want that of %s", status.Why, next)
			}
			if status.Version != version || status.Wanted != next || status.State != "running" || status.Restarts != 0 {
				t.Errorf("the signal is %+v, want %s to go on and %s wanted", status, version, next)
			}
			update(t, p, p.plan)
			p.awaitProcess(t, "web", "as before", func(p api.Process) bool { return p.Why == "" && p.Candidate == nil })
			a.awaitEntry(t, "web", "the version before", runs(version))
			if h := e.ofApp("web"); c.how != silent && h.failed > 0 {
				t.Errorf("%d evaluations failed, the last with %v: want no tick lost", h.failed, h.lastErr)
			}
		})
	}
}

// A new version has its time limit in addition to the timeout of the swap.
func TestSwapWaitsForTheTimeLimit(t *testing.T) {
	plan := released("limit")
	plan.Signals[1].TimeLimit = 2 * time.Second
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), behaving(silent))
	p := start(t, plan, s, long)
	a := p.arrivals.next(t)
	a.awaitEntry(t, "web", "up", up)
	a.evaluate(t, patient)
	update(t, p, pinned(plan, next))
	status := p.awaitProcess(t, "web", "reporting that the next version failed", func(p api.Process) bool { return strings.Contains(p.Why, "cannot replace it yet") })
	if want := "no response to live windows within 3s"; !strings.Contains(status.Why, want) {
		t.Errorf("why %q, want that %s", status.Why, want)
	}
}

func TestSwapToVersionThatCannotBeFetched(t *testing.T) {
	plan := released("unfetched")
	s := newStore(t, plan)
	p := start(t, plan, s, long)
	a := p.arrivals.next(t)
	a.awaitEntry(t, "web", "up", up)
	update(t, p, pinned(plan, next))
	status := p.awaitProcess(t, "web", "reporting that the next version is not available", func(p api.Process) bool {
		return p.Candidate != nil && p.Candidate.State == "not fetched"
	})
	if want := next + " is not fetched: fetch "; status.State != "running" || status.Version != version || !strings.HasPrefix(status.Why, want) {
		t.Errorf("the signal is %+v, want %s to go on, and %q", status, version, want)
	}
	s.publish(t, pinned(plan, next).Signals[1].Ref(), program)
	e := a.evaluate(t, patient)
	a.awaitEntry(t, "web", "the next version", runs(next))
	e.awaitAnswers(t, "web", 1)
}

func TestSwapWithoutAnAutoscaler(t *testing.T) {
	g := newGate(t)
	plan := planOf("alone", bootstrap.SignalPlan{App: "web", Name: "rps", Version: version}, shipped("late", gated))
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), behaving(four))
	p := start(t, plan, s, long)
	p.awaitProcess(t, "web", "running", running)
	update(t, p, pinned(plan, next))
	p.awaitProcess(t, "web", "the next version", func(p api.Process) bool { return running(p) && p.Version == next })
	g.open(t)
	p.arrivals.next(t).awaitEntry(t, "web", "the next version", runs(next))
}

func TestSwapOfAFixedApp(t *testing.T) {
	plan := released("fixed")
	plan.Signals[1].FixedApp = true
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), behaving(four))
	p := start(t, plan, s, long)
	a := p.arrivals.next(t)
	before := a.awaitEntry(t, "web", "up", up)
	update(t, p, pinned(plan, "v9"))
	p.awaitProcess(t, "web", "reporting that v9 is not available", func(p api.Process) bool { return strings.Contains(p.Why, "v9 cannot replace it yet: fetch ") })
	if now := a.reader.Entry("web"); now != before {
		t.Errorf("the entry is %+v, want %+v untouched", now, before)
	}
	update(t, p, pinned(plan, next))
	after := a.awaitEntry(t, "web", "the next version", runs(next))
	if after.Address != before.Address || after.Group == before.Group {
		t.Errorf("the entry is %+v after %+v, want another process at the same address", after, before)
	}
}

func TestUpdateChangesOnlyDifferences(t *testing.T) {
	plan := planOf("differs", shipped("web", "rps"), shipped("api", "rps"))
	plan.Config = []byte("one")
	p := start(t, plan, noReleases{}, long)
	a := p.arrivals.next(t)
	web := a.awaitEntry(t, "web", "up", up)
	api := a.awaitEntry(t, "api", "up", up)
	update(t, p, plan)
	other := plan
	other.Config = []byte("two")
	other.Signals = append(slices.Clone(plan.Signals[:2]), bootstrap.NewSignalPlan("cron", plan.Signals[1].Namespace, "rps", ""))
	update(t, p, other)
	a.awaitEntry(t, "cron", "up", up)
	if now := a.reader.Entry("web"); now != web {
		t.Errorf("the entry of web is %+v, want %+v untouched", now, web)
	}
	d, _ := a.reader.Directory()
	if e := a.reader.Entry("api"); e.Down == "" || string(d.Config) != "two" {
		t.Errorf("the entry of api is %+v, with configuration %q: want it gone, and two", e, d.Config)
	}
	if !isHeld(api.Address) {
		t.Error("api has ended before the autoscaler followed")
	}
	a.reader.Report(bootstrap.Report{Revision: d.Revision})
	await.Nil(t, "the end of api", func() error {
		if isHeld(api.Address) {
			return errors.New("it listens")
		}
		return nil
	})
}

func TestUpdateRefusesABadPlan(t *testing.T) {
	plan := planOf("refused", shipped("web", "rps"))
	p := start(t, plan, noReleases{}, long)
	a := p.arrivals.next(t)
	web := a.awaitEntry(t, "web", "up", up)
	bad := plan
	bad.Signals = append(slices.Clone(plan.Signals), plan.Signals[1])
	if err := p.Update(bad); err == nil || !strings.Contains(err.Error(), "two signals have namespace") {
		t.Errorf("Update = %v, want it refused", err)
	}
	other := plan
	other.Pool = "other"
	if err := p.Update(other); !errors.Is(err, bootstrap.ErrOtherPool) {
		t.Errorf("Update = %v, want %v", err, bootstrap.ErrOtherPool)
	}
	if now := a.reader.Entry("web"); now != web || len(p.Status().Signals) != 2 {
		t.Errorf("the entry is %+v, want %+v untouched", now, web)
	}
}

func TestUpdatesOfManyAtOnce(t *testing.T) {
	plan := planOf("many", shipped("web", "rps"), shipped("api", "rps"), shipped("cron", "rps"))
	p := start(t, plan, noReleases{}, long)
	a := p.arrivals.next(t)
	a.evaluate(t, patient)
	var updating sync.WaitGroup
	for i := range 8 {
		updating.Go(func() {
			some := plan
			some.Signals = slices.Concat(plan.Signals[:1+i%2], plan.Signals[2+i%3:])
			if err := p.Update(withTestVariables(some)); err != nil {
				t.Error(err)
			}
			p.Status()
		})
	}
	updating.Wait()
	update(t, p, plan)
	for _, s := range plan.Signals {
		a.awaitEntry(t, s.App, "up", up)
	}
}

func TestSignalThatAcceptsOnce(t *testing.T) {
	plan := released("once")
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), behaving(acceptOne))
	p := start(t, pinned(plan, next), s, long)
	p.awaitProcess(t, "web", "running", running)
	if err := request(t, plan.Signals[1].Address); err != nil {
		t.Errorf("the first connection got %v, want an answer", err)
	}
}

func TestSilentSignalIsRestarted(t *testing.T) {
	plan := released("silence")
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), behaving(silent))
	p := start(t, pinned(plan, next), s, long)
	a := p.arrivals.next(t)
	first := a.awaitEntry(t, "web", "up", up)
	a.evaluate(t, 20*time.Millisecond)
	a.awaitEntry(t, "web", "up again", func(e bootstrap.Entry) bool { return up(e) && e.Group != first.Group })
}

func TestRestartAndLogs(t *testing.T) {
	p := start(t, planOf("asked", shipped("web", "rps")), noReleases{}, long)
	a := p.arrivals.next(t)
	first := a.awaitEntry(t, "web", "up", up)
	if err := p.Restart("web"); err != nil {
		t.Fatal(err)
	}
	a.awaitEntry(t, "web", "up again", func(e bootstrap.Entry) bool { return up(e) && e.Group != first.Group })
	tail, err := p.Logs("web")
	if err != nil {
		t.Fatal(err)
	}
	if lines, _ := tail.Since(0); len(lines) < 3 {
		t.Errorf("the log has %+v, want two starts and an end", lines)
	}
	if _, err := p.Logs("nobody"); !errors.Is(err, bootstrap.ErrNoApp) {
		t.Errorf("Logs of an unknown app = %v, want %v", err, bootstrap.ErrNoApp)
	}
	if err := p.Restart("nobody"); !errors.Is(err, bootstrap.ErrNoApp) {
		t.Errorf("Restart of an unknown app = %v, want %v", err, bootstrap.ErrNoApp)
	}
}

// isHeld reports whether a process holds an address.
func isHeld(address string) bool {
	l, err := sigproto.Listen(address)
	if err == nil {
		l.Close()
	}
	return err != nil
}
