package bootstrap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// A process gets one value of each variable: the plan's, not an inherited one.
func TestSignalSeesThePlansVariables(t *testing.T) {
	p := startWith(t, planOf("variables", shipped("web", "rps")), noReleases{}, func(c *bootstrap.Config) {
		c.Environ = append(c.Environ, "CMAN_POOL=stale", "CMAN_SIGNAL_APPS=stale")
	})
	now := p.awaitProcess(t, "web", "running", running)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", now.PID))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if text := string(entry); strings.HasPrefix(text, "CMAN_POOL=") || strings.HasPrefix(text, "CMAN_SIGNAL_APPS=") {
			got = append(got, text)
		}
	}
	if diff := cmp.Diff([]string{"CMAN_POOL=default", "CMAN_SIGNAL_APPS="}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// A shadow that temporarily cannot start keeps its trial.
func TestShadowKeepsTrialWithoutFreeSocket(t *testing.T) {
	plan := released("crowded")
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), program)
	w := plan.Signals[1]
	var release []func() error
	for n := 1; n <= 99; n++ {
		l, err := sigproto.Listen(sigproto.Address(w.Namespace, w.Name, fmt.Sprintf("%s~%d", w.App, n)))
		if err != nil {
			t.Fatal(err)
		}
		release = append(release, l.Close)
	}
	p := start(t, shadowed(plan, 0), s, long)
	// More often than the restart budget of a shadow allows.
	held := p.awaitProcess(t, "web", "beside a shadow that fails to start", func(p api.Process) bool {
		return p.Candidate != nil && p.Candidate.Restarts > 6 && p.Candidate.State == "backoff"
	})
	for _, part := range []string{"belongs to the app's other process, " + version, "99 alternative sockets are in use too"} {
		if !strings.Contains(held.Candidate.Why, part) {
			t.Errorf("the shadow waits because %q, want it to say %q", held.Candidate.Why, part)
		}
	}
	if decided(held) {
		t.Errorf("the trial is %+v, want it undecided", held.Trial)
	}
	for _, free := range release {
		free()
	}
	p.awaitProcess(t, "web", "beside a shadow that runs", func(p api.Process) bool {
		return p.Candidate != nil && running(*p.Candidate)
	})
}

// damagedNotebook is a notebook with an unreadable part.
type damagedNotebook struct{ notebook }

func (n *damagedNotebook) Load(ctx context.Context) ([]api.Trial, error) {
	kept, _ := n.notebook.Load(ctx)
	return kept, errors.New("a page is torn")
}

func TestTrialsPartlyUnreadable(t *testing.T) {
	plan := shadowed(released("torn"), 3)
	w := plan.Signals[1]
	book := &damagedNotebook{}
	book.Save(t.Context(), api.Trial{
		App: w.App, Signal: w.Namespace + "/" + w.Name, Pinned: version, Shadow: next,
		Outcome: api.TrialCrashed, Why: "long ago", Since: time.Unix(1_700_000_000, 0),
	})
	p := startWith(t, plan, newStore(t, plan), func(c *bootstrap.Config) { c.Trials = book })
	now := p.awaitProcess(t, "web", "running", running)
	if now.Trial.Outcome != api.TrialCrashed || now.Candidate != nil {
		t.Errorf("the trial is %+v, want the one that could be read", now.Trial)
	}
}

func TestCountsWithoutLists(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		err  string
	}{
		{"nothing", nil, ""},
		{"counts of nothing", map[string]string{"CMAN_NUM_SIGNALS": "0", "CMAN_NUM_VERSIONS": "0", "CMAN_VERSIONS_TO_FETCH": " "}, ""},
		{"a number of signals", map[string]string{"CMAN_NUM_SIGNALS": "2"}, `CMAN_NUM_SIGNALS is "2", but there are 0`},
		{"a number of versions", map[string]string{"CMAN_NUM_VERSIONS": "1"}, `CMAN_NUM_VERSIONS is "1", but there are 0`},
		{"versions to fetch", map[string]string{"CMAN_VERSIONS_TO_FETCH": "v1"}, `CMAN_VERSIONS_TO_FETCH is ["v1"], but the signals' versions are []`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, ok, err := bootstrap.PlanFromEnvironment(func(name string) string { return c.env[name] })
			if ok || c.err == "" && err != nil || c.err != "" && !strings.Contains(fmt.Sprint(err), c.err) {
				t.Errorf("PlanFromEnvironment = %v, %v, want false and %q", ok, err, c.err)
			}
		})
	}
}

// The signal's process may leave the group of the started process.
func TestSignalThatLeavesItsGroup(t *testing.T) {
	plan := released("wrapper")
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), strings.Replace(program, "exec", "setsid --wait", 1))
	p := start(t, pinned(plan, next), s, long)
	now := p.awaitProcess(t, "web", "running", running)
	if now.Restarts != 0 {
		t.Errorf("the signal is %+v, want its first start to succeed", now)
	}
	if err := request(t, plan.Signals[1].Address); err != nil {
		t.Error(err)
	}
}

// An app that is removed and added again gets its previous address.
func TestReaddedAppKeepsItsAddress(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		t.Run(fmt.Sprintf("fixed app %v", fixed), func(t *testing.T) {
			plan := planOf(fmt.Sprintf("back%v", fixed), shipped("web", "rps"))
			plan.Signals[1].FixedApp = fixed
			p := start(t, plan, noReleases{}, long)
			a := p.arrivals.next(t)
			first := a.awaitEntry(t, "web", "up", up)
			without := plan
			without.Signals = plan.Signals[:1]
			for range 3 {
				update(t, p, without)
				update(t, p, plan)
			}
			p.awaitProcess(t, "web", "waiting for its former process", func(p api.Process) bool {
				return p.Why == "waiting for the end of the app's previous process"
			})
			a.evaluate(t, patient)
			again := a.awaitEntry(t, "web", "up again", func(e bootstrap.Entry) bool { return up(e) && e.Group != first.Group })
			if again.Address != first.Address {
				t.Errorf("it answers at @%s, want @%s as before", again.Address, first.Address)
			}
			if now := p.process("web"); now.Restarts != 0 || now.Why != "" {
				t.Errorf("the signal is %+v, want its first start to succeed", now)
			}
		})
	}
}

// An autoscaler that stops reading is ended and replaced.
func TestHungAutoscalerIsReplaced(t *testing.T) {
	plan := planOf("hung", shipped("web", "rps"))
	plan.Config = make([]byte, bootstrap.MaxPlanConfig)
	p := start(t, plan, noReleases{}, long)
	await.Nil(t, "the end of the first autoscaler", func() error {
		if now := p.Status().Autoscaler; now.Restarts == 0 {
			return fmt.Errorf("it is %+v", now)
		}
		return nil
	})
	p.arrivals.next(t) // the first, which does not read
	second := p.arrivals.next(t)
	second.awaitEntry(t, "web", "up", up)
}

func TestAutoscalerRequestsRestart(t *testing.T) {
	flag := t.TempDir() + "/asked"
	p := startWith(t, planOf("restart"), noReleases{}, func(c *bootstrap.Config) {
		script := fmt.Sprintf("[ -e %s ] || { touch %s; exit %d; }; exec %s %s", flag, flag, api.ExitRestart, selfPath(t), asAutoscaler)
		c.Autoscaler = []string{"/bin/sh", "-c", script}
	})
	p.arrivals.next(t).awaitEntry(t, sigproto.DefaultApp, "up", up)
	if now := p.Status().Autoscaler; now.Restarts != 1 || !running(now) {
		t.Errorf("the autoscaler is %+v, want its second start to run", now)
	}
}

func selfPath(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReleases(t *testing.T) {
	plan := released("uses")
	s := newStore(t, plan)
	p := start(t, plan, s, long)
	a := p.arrivals.next(t)
	a.awaitEntry(t, "web", "up", up)
	of := func(versions ...string) (refs []release.Ref) {
		for _, v := range versions {
			refs = append(refs, pinned(plan, v).Signals[1].Ref())
		}
		return refs
	}
	want := func(when string, refs []release.Ref) {
		t.Helper()
		if diff := cmp.Diff(refs, p.Releases()); diff != "" {
			t.Errorf("releases %s (-want +got):\n%s", when, diff)
		}
	}
	want("at first", of(version))
	update(t, p, shadowed(plan, 3))
	want("with a shadow that is not here", of(version, next))
	update(t, p, pinned(plan, next))
	want("while another is wanted", of(version, next))
	none := plan
	none.Signals = plan.Signals[:1]
	update(t, p, none)
	want("while the removed one runs", of(version))
	d, _ := a.reader.Directory()
	a.reader.Report(bootstrap.Report{Revision: d.Revision + 100})
	await.Nil(t, "no release in use", func() error {
		d, _ := a.reader.Directory()
		a.reader.Report(bootstrap.Report{Revision: d.Revision})
		if refs := p.Releases(); len(refs) > 0 {
			return fmt.Errorf("%v", refs)
		}
		return nil
	})
}

// A change of RequestConfig alone restarts no process. A new version gets its own RequestConfig.
func TestRequestConfigOfRunningSignal(t *testing.T) {
	requesting := func(p bootstrap.Plan, requestConfig string) bootstrap.Plan {
		p.Signals = slices.Clone(p.Signals)
		p.Signals[1].RequestConfig = requestConfig
		return p
	}
	plan := released("question")
	s := newStore(t, plan)
	s.publish(t, pinned(plan, next).Signals[1].Ref(), program)
	p := start(t, requesting(plan, "one"), s, long)
	a := p.arrivals.next(t)
	a.evaluate(t, patient)
	requested := func(requestConfig string) func(bootstrap.Entry) bool {
		return func(e bootstrap.Entry) bool { return up(e) && e.RequestConfig == requestConfig }
	}
	first := a.awaitEntry(t, "web", "asked with one", requested("one"))
	update(t, p, requesting(plan, "two"))
	if now := a.awaitEntry(t, "web", "asked with two", requested("two")); now.Group != first.Group {
		t.Errorf("listed as %+v after %+v, want the same process", now, first)
	}
	update(t, p, requesting(pinned(plan, "v9"), "nine"))
	p.awaitProcess(t, "web", "beside one that is not here", func(p api.Process) bool {
		return p.Candidate != nil && p.Candidate.State == "not fetched"
	})
	update(t, p, requesting(pinned(plan, next), "three"))
	a.awaitEntry(t, "web", "the next version, asked with three", func(e bootstrap.Entry) bool { return runs(next)(e) && e.RequestConfig == "three" })
	for _, d := range a.revisions(t) {
		i := slices.IndexFunc(d.Signals, func(e bootstrap.Entry) bool { return e.App == "web" })
		if e := d.Signals[i]; e.Version == version && e.RequestConfig != "one" && e.RequestConfig != "two" || e.Version == next && e.RequestConfig != "three" {
			t.Errorf("revision %d lists %+v, want each version with its own question", d.Revision, e)
		}
		if c := d.Signals[i].Candidate; c != nil && c.RequestConfig != "three" {
			t.Errorf("revision %d lists candidate %+v, want it asked with three", d.Revision, c)
		}
	}
}

func TestRequestConfigsAreBounded(t *testing.T) {
	plan := planOf("long", shipped("web", "rps"))
	plan.Signals[1].RequestConfig = strings.Repeat("<", bootstrap.MaxRequestConfigs/6)
	if err := plan.Validate(); err == nil || !strings.Contains(err.Error(), "windows and parameters of all signals") {
		t.Errorf("Validate = %v, want it refused: %d bytes of JSON", err, bootstrap.MaxRequestConfigs)
	}
	plan.Signals[1].RequestConfig = strings.Repeat("<", bootstrap.MaxRequestConfigs/6-2)
	if err := plan.Validate(); err != nil {
		t.Errorf("Validate = %v, want nil", err)
	}
}

// Without an operator, signals pause, spend their budget, pause longer, and recover.
func TestSignalsRecoverFromFaults(t *testing.T) {
	const rounds, budget = 20, 6
	harmed := []string{"a", "b", "c"}
	more := []bootstrap.SignalPlan{shipped(healthy, "rps")}
	for _, app := range harmed {
		more = append(more, shipped(app, changeable))
	}
	p := startWith(t, planOf("unmended", more...), noReleases{}, func(c *bootstrap.Config) {
		c.SetPolicy(supervise.Policy{Budget: budget, Window: time.Hour, Base: time.Millisecond, Max: 20 * time.Millisecond})
	})
	a := p.arrivals.next(t)
	for _, s := range p.plan.Signals {
		a.awaitEntry(t, s.App, "up", up)
	}
	e := a.evaluate(t, patient)
	for range rounds {
		for _, app := range harmed {
			now := p.awaitProcess(t, app, "running", running)
			kill(t, -now.PID)
			p.awaitProcess(t, app, "seen to end", func(p api.Process) bool { return p.PID != now.PID })
		}
	}
	for _, app := range harmed {
		e.awaitAnswers(t, app, 3)
		// After each long pause the budget starts again, and the signal is restarted once.
		if now := p.process(app); now.Restarts != rounds {
			t.Errorf("the signal is %+v, want %d restarts, with a long rest after each %d", now, rounds, budget)
		}
	}
	if h := e.ofApp(healthy); h.failed > 0 {
		t.Errorf("%d ticks of the healthy signal were lost, the last with %v: want none", h.failed, h.lastErr)
	}
}
