package autoscaler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Between two ticks a candidate is probed as soon as it is listed. It keeps its connection when it
// replaces the signal's process, and the old connection is closed.
func TestRunFollowsBetweenTicks(t *testing.T) {
	w := newWorld(t, []int{1}, "web")
	w.config.Tick = time.Hour
	w.asks(sigproto.DefaultApp, 1)
	hungUp := make(chan struct{})
	old := w.misbehave("web", func(p peer) {
		answering(goodAnswer)(p)
		close(hungUp)
	})
	w.run()
	await.Value(t, "the tick", w.ledger.appended)
	before := w.ledger.last(t)

	at := w.signals.Endpoint("web")
	at.Address, at.Version = at.Address+"~1", "v2"
	w.signals.set("other", at) // to listen there
	connections := w.misbehave("other", answering(goodAnswer))
	revision := w.signals.setCandidate("web", ask.Candidate{Endpoint: at})
	r, next := w.signals.awaitReport(t, 0, "the listing", func(r ask.Report) bool { return r.Revision >= revision })
	if r.Results != nil {
		t.Errorf("answers %+v, want none: nobody was asked yet", r.Results)
	}
	r, next = w.signals.awaitReport(t, next, "the candidate", func(r ask.Report) bool { return r.Results != nil })
	want := []ask.Result{{App: "web", Version: "v2", Address: at.Address, Candidate: true, Verdict: api.VerdictValue}}
	if diff := cmp.Diff(want, r.Results); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	select {
	case <-hungUp:
		t.Error("the old connection was closed too early")
	default:
	}
	revision = w.signals.promote("web")
	r, _ = w.signals.awaitReport(t, next, "the promotion", func(r ask.Report) bool { return r.Revision >= revision })
	if r.Results != nil {
		t.Errorf("answers %+v, want none: nobody was asked", r.Results)
	}
	await.Value(t, "the end of the old connection", hungUp)
	if old.Load() != 1 || connections.Load() != 1 {
		t.Errorf("%d connections to the old one, %d to the new one: want 1 and 1", old.Load(), connections.Load())
	}
	if n := w.ledger.len(); n != 1 {
		t.Errorf("%d ticks, want 1", n)
	}
	wantExplained(t, before)
}

func TestProbe(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		treat func(peer)
		want  ask.Result
		why   string
	}{
		{"answers", answering(goodAnswer), ask.Result{Verdict: api.VerdictValue}, ""},
		{"has no opinion", answering(`{"Resources":{}}`), ask.Result{Verdict: api.VerdictNoOpinion}, "every resource is null"},
		{"garbage", answering("garbage"), ask.Result{Verdict: api.VerdictFailed}, "protocol error"},
		{"hangs up", func(p peer) { p.body() }, ask.Result{Verdict: api.VerdictFailed}, "EOF"},
		{"is silent", func(p peer) { p.body(); p.hangUp() }, ask.Result{Verdict: api.VerdictFailed, Silent: true}, "no answer within 1s"},
		{"does not listen", nil, ask.Result{Verdict: api.VerdictFailed}, "connect: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{1}, "web")
			w.config.Tick = 2 * time.Second
			w.asks(sigproto.DefaultApp, 1)
			web := w.asks("web", 4)
			w.tick()
			at := w.signals.Endpoint("web")
			at.Address += "~1"
			w.signals.set("other", at)
			if test.treat != nil {
				w.misbehave("other", test.treat)
			}
			opinion := w.loop.signals.Opinions().Apps[0].Opinion
			w.signals.setCandidate("web", ask.Candidate{Endpoint: at})
			w.loop.signals.Follow(t.Context(), w.now)
			r := w.signals.lastReport(t)
			if len(r.Results) != 1 {
				t.Fatalf("answers %+v, want one", r.Results)
			}
			wantOpinion(t, api.Opinion{Verdict: r.Results[0].Verdict, Why: r.Results[0].Why}, test.want.Verdict, test.why)
			test.want.App, test.want.Version, test.want.Address, test.want.Candidate = "web", "v1", at.Address, true
			test.want.Why = r.Results[0].Why
			if diff := cmp.Diff(test.want, r.Results[0]); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if w.loop.signals.Opinions().Apps[0].Opinion != opinion || web.count() != 1 {
				t.Errorf("opinion %+v, asked %d times: want %+v, once", w.loop.signals.Opinions().Apps[0].Opinion, web.count(), opinion)
			}
			// It gets one request, and none at the ticks.
			app, _ := appOf(t, w.tick(), "web")
			wantOpinion(t, app.Opinion, api.VerdictValue)
			if again := w.signals.lastReport(t).Results; slices.ContainsFunc(again, func(a ask.Result) bool { return a.Candidate }) {
				t.Errorf("asked again: %+v", again)
			}
		})
	}
}

// A candidate gets no request while it is down or its windows are not good.
func TestProbeThatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4)
	w.config.Apps[0].Windows = []ask.Window{{Name: "requests", Type: metrics.App, Range: window, MaxAge: window}}
	w.tick()
	p := w.spawn("web", 1, "v2", &need{request: cpus(4)})
	down := p.Endpoint
	down.Group, down.Down = 0, "the signal is starting"
	w.signals.setCandidate("web", ask.Candidate{Endpoint: down})
	candidate := func() []ask.Result {
		return slices.DeleteFunc(w.signals.lastReport(t).Results, func(a ask.Result) bool { return !a.Candidate })
	}
	w.tick()
	if got := candidate(); len(got) > 0 {
		t.Errorf("asked while it was down: %+v", got)
	}
	w.signals.setCandidate("web", ask.Candidate{Endpoint: p.Endpoint})
	for _, unreadable := range []bool{false, true} {
		why := "requests has no point in the last 5m0s"
		if unreadable {
			w.store.fail["web,requests"] = errors.New("no metrics store answers")
			why = "window of requests is unknown: no metrics store answers"
		}
		w.tick()
		want := []ask.Result{{App: "web", Version: "v2", Address: p.Address, Group: p.Group, Candidate: true, Why: why}}
		if diff := cmp.Diff(want, candidate()); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	}
	delete(w.store.fail, "web,requests")
	w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 7}, 0)
	w.tick()
	if got := candidate(); len(got) != 1 || got[0].Verdict != api.VerdictValue {
		t.Errorf("answers %+v, want a value", got)
	}
}

// Each tick reports which processes got requests, and which were silent.
func TestTickReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1}, "web", "quiet", "away")
	w.config.Tick = 2 * time.Second
	w.config.Apps[1].Name = "Other"
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4)
	w.misbehave("quiet", func(p peer) { p.body(); p.hangUp() })
	w.signals.set("away", ask.Endpoint{Down: "not fetched"})
	w.tick()
	r := w.signals.lastReport(t)
	if r.Revision != w.signals.Listing().Revision || len(r.Results) != 3 {
		t.Fatalf("report %+v, want 3 answers", r)
	}
	for i, want := range []ask.Result{
		{App: sigproto.DefaultApp, Verdict: api.VerdictValue}, {App: "web", Verdict: api.VerdictValue},
		{App: "quiet", Verdict: api.VerdictFailed, Silent: true},
	} {
		want.Version, want.Address, want.Why = "v1", w.signals.Endpoint(want.App).Address, r.Results[i].Why
		if diff := cmp.Diff(want, r.Results[i]); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	}
}

// A process with a request in progress when the loop ends is not reported as failed.
func TestProcessIsNotFailedByTheEndOfTheLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	asked := make(chan struct{})
	w.misbehave("web", func(p peer) { p.body(); close(asked); p.hangUp() })
	w.start()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { <-asked; cancel() })
	if err := w.loop.Tick(ctx, w.now); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if r := w.signals.lastReport(t); r.Results != nil {
		t.Errorf("answers %+v, want none", r.Results)
	}
}
