package autoscaler

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// advised returns a pool of 2 machines of 4 cpus. Its app needs 8 cpus, and its advisor requests 16. A tick is a minute.
func advised(t *testing.T) (w *world, own, advisor *need) {
	w = newWorld(t, []int{2}, "web")
	w.config.Tick = 2 * time.Second
	a := ask.Signal{App: "web~calendar", Namespace: namespace(t), Name: "Need", Period: time.Minute, HoldFor: 2 * time.Minute,
		Windows: []ask.Window{{Name: "requests", Type: metrics.App, Range: window, MaxAge: window}}}
	w.config.Apps[0].Raise = []ask.Signal{a}
	w.signals.set(a.App, ask.Endpoint{Address: w.address(a), Version: "v3"})
	w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 7}, 0)
	w.asks(sigproto.DefaultApp, 1)
	own, advisor = w.asks("web", 8), w.asks("web~calendar", 16)
	return w, own, advisor
}

// TestAdvisor: an advisor gets the windows of its app and raises its request. When it fails, its last value counts for one
// period more than its own, and then the pool is as without it.
func TestAdvisor(t *testing.T) {
	t.Parallel()
	w, _, advisor := advised(t)
	app, resolved := appOf(t, w.tick(), "web")
	if in := advisor.lastInput(t); in.App != "web" || in.Metrics["requests"].Len() != 1 {
		t.Errorf("the advisor got %+v, want app web and its window", in)
	}
	wantOpinion(t, app.Raise[0].Opinion, api.VerdictValue)
	if app.Raise[0].Opinion.Version != "v3" || resolved.Request != cpus(16) || resolved.Source != api.FromSignal {
		t.Errorf("advice %+v, resolved %+v", app.Raise[0], resolved)
	}
	w.wantTarget(4)
	advisor.set(resource.Request{}, errors.New("cannot say"))
	for range 2 { // minutes after its value
		_, resolved = appOf(t, w.tick(), "web")
		if resolved.Request != cpus(16) {
			t.Errorf("resolved %+v, want the last value", resolved)
		}
	}
	r := w.tick()
	app, resolved = appOf(t, r, "web")
	wantOpinion(t, app.Raise[0].Opinion, api.VerdictFailed)
	if resolved.Request != cpus(8) || resolved.Fallback {
		t.Errorf("resolved %+v, want the app's own request", resolved)
	}
	if r.Result.Target != 2 {
		t.Errorf("target %v, want 2", r.Result.Target)
	}
	if text := r.Result.Steps[3]; text.Rule != api.RuleAdvisors || !strings.HasPrefix(text.Why, "web~calendar failed (") {
		t.Errorf("step %+v, want the advisor's failure", text)
	}
}

// TestAdvisorOfAnUnknownNeed: an advisor neither lifts the bar of its app, nor is one.
func TestAdvisorOfAnUnknownNeed(t *testing.T) {
	t.Parallel()
	w, own, advisor := advised(t)
	advisor.set(cpus(4), nil)
	own.set(resource.Request{}, errors.New("cannot say"))
	r := w.tick()
	if r.Result.Target != 2 {
		t.Errorf("target %v, want 2: nothing shrinks", r.Result.Target)
	}
	if len(r.State.UnknownNeed) != 1 || r.State.UnknownNeed[0].App != "web" {
		t.Errorf("unknown needs %+v, want that of web", r.State.UnknownNeed)
	}
	advisor.set(cpus(12), nil)
	w.tick()
	w.wantTarget(3)
	own.set(cpus(4), nil)
	w.signals.set("web~calendar", ask.Endpoint{Down: "it is gone"})
	for range 3 {
		r = w.tick()
	}
	if len(r.State.UnknownNeed) != 0 || r.Result.Target != 1 {
		t.Errorf("target %v, unknown needs %+v: want 1, and none", r.Result.Target, r.State.UnknownNeed)
	}
}

// TestShadowOfAnAdvisor: a shadow gets the advisor's requests, and its answers are compared.
func TestShadowOfAnAdvisor(t *testing.T) {
	t.Parallel()
	w, _, _ := advised(t)
	p := w.spawn("beside", 1, "v4", &need{request: cpus(40)})
	w.signals.setCandidate("web~calendar", ask.Candidate{Endpoint: p.Endpoint, Shadow: true, Tolerance: 0.05})
	r := w.tick()
	if len(r.Shadows) != 1 || r.Shadows[0].App != "web~calendar" || !r.Shadows[0].Compared || r.Shadows[0].Difference == "" {
		t.Errorf("shadows %+v, want a difference of web~calendar", r.Shadows)
	}
	w.wantTarget(4)
}

// An advisor gets the time in which the machines of the pool join, in whole minutes, once three of a group have joined. The signal of
// the app gets none, so a new time interrupts no evaluation of it.
func TestAdvisorGetsTheTimeOfLaunch(t *testing.T) {
	t.Parallel()
	w, own, advisor := advised(t)
	ticks := func(n int) (r api.TickRecord) {
		for range n {
			w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 7}, 0)
			r = w.tick()
		}
		return r
	}
	ticks(6)
	if got := advisor.lastInput(t).Launch; got != 0 {
		t.Errorf("launch %v after two machines, want 0", got)
	}
	advisor.set(cpus(24), nil)
	r := ticks(6)
	p95, ok := r.State.Groups["a"].Boots.Quantile("", 0.95)
	want := (p95 + time.Minute - 1).Truncate(time.Minute)
	if got := advisor.lastInput(t).Launch; !ok || got != want || got < time.Minute {
		t.Errorf("launch %v after four machines, want %v for a p95 of %v", got, want, p95)
	}
	if got := own.lastInput(t).Launch; got != 0 {
		t.Errorf("the signal of the app got launch %v", got)
	}
	w.loop = nil // another process
	ticks(1)
	if got := advisor.lastInput(t).Launch; got != want {
		t.Errorf("launch %v after a takeover, want %v", got, want)
	}
}
