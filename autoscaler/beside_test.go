package autoscaler

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// shadowed returns a pool whose app web has a shadow with that tolerance.
func shadowed(t *testing.T, beside signals.Signal, tolerance float64) (*world, *need, *process) {
	w := newWorld(t, []int{3}, "web")
	w.config.Tick = 4 * time.Second
	w.config.Apps[0].Windows = []ask.Window{{Name: "requests", Type: metrics.App, Range: time.Hour, MaxAge: time.Hour}}
	w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 7}, 0)
	w.asks(sigproto.DefaultApp, 1)
	own := w.asks("web", 8)
	p := w.spawn("web", 1, "v2", beside)
	w.signals.setCandidate("web", ask.Candidate{Endpoint: p.Endpoint, Shadow: true, Tolerance: tolerance})
	return w, own, p
}

func TestShadow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		own        resource.Request
		beside     resource.Request
		want       api.Verdict
		compared   bool
		difference string
	}{
		{"agrees", cpus(8), cpus(8.8), api.VerdictValue, true, ""},
		{"differs", cpus(8), cpus(10), api.VerdictValue, true, "cpus 8 -> 10 (+25 %, tolerance 10 %)"},
		{"has no opinion", cpus(8), resource.Request{}, api.VerdictNoOpinion, true, "verdict value -> no_opinion"},
		{"alone has one", resource.Request{}, cpus(8), api.VerdictValue, true, "verdict no_opinion -> value"},
		{"neither has one", resource.Request{}, resource.Request{}, api.VerdictNoOpinion, false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			beside := &need{request: test.beside}
			w, own, p := shadowed(t, beside, 0.1)
			own.set(test.own, nil)
			r := w.tick()
			want := []api.ShadowRecord{{
				App: "web", Tolerance: 0.1, Compared: test.compared, Difference: test.difference,
				Opinion: api.Opinion{
					Signal: namespace(t) + "/Need", Version: "v2", Verdict: test.want, Request: test.beside, At: w.now,
				},
			}}
			if diff := cmp.Diff(want, r.Shadows, cmpopts.IgnoreFields(api.Opinion{}, "Latency", "Why"),
				cmpopts.EquateComparable(resource.Request{})); diff != "" {
				t.Errorf("shadows (-want +got):\n%s", diff)
			}
			answers := w.signals.lastReport(t).Results
			last := answers[len(answers)-1]
			if !last.Candidate || last.Compared != test.compared || last.Difference != test.difference || last.Address != p.Address || last.Group != p.Group {
				t.Errorf("answer %+v, want it compared: %t, %q", last, test.compared, test.difference)
			}
			if diff := cmp.Diff(own.lastInput(t), beside.lastInput(t)); diff != "" {
				t.Errorf("the shadow was asked otherwise (-own +shadow):\n%s", diff)
			}
		})
	}
}

// Whatever a shadow does, the decision has the same bytes, and the tick is no longer than the
// signals' own time.
func TestShadowHasNoEffect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		treat  func(peer)
		silent bool
	}{
		{"asks for more", answering(`{"Resources":{"cpus":400,"mem":1}}`), false},
		{"asks for nothing", answering(`{"Resources":{"cpus":0}}`), false},
		{"garbage", answering("garbage"), false},
		{"hangs up", func(p peer) { p.body() }, false},
		{"is silent", func(p peer) { p.body(); p.hangUp() }, true},
		{"does not listen", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			decision := func(beside bool) ([]byte, api.TickRecord) {
				w := newWorld(t, []int{3}, "web")
				w.now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
				w.config.Tick = 2 * time.Second
				w.config.DryRun = true
				app := "web"
				if beside {
					app += "-beside" // the sockets of the other one still exist
				}
				w.config.Apps[0].HoldFor = time.Hour
				own := w.spawn(app, 1, "v1", &need{request: cpus(8)})
				standby := w.spawn(app, 2, "v1", &need{request: cpus(1)})
				w.signals.set("web", own.Endpoint)
				w.signals.set(sigproto.DefaultApp, standby.Endpoint)
				if beside {
					at := ask.Endpoint{Address: own.Address + "~s", Version: "v2"}
					w.signals.set("shadow", at)
					if test.treat != nil {
						w.misbehave("shadow", test.treat)
					}
					w.signals.setCandidate("web", ask.Candidate{Endpoint: at, Shadow: true})
				}
				began := time.Now()
				r := w.tick()
				if took := time.Since(began); took > w.config.panel().Timeout()+patience/2 {
					t.Errorf("the tick took %v", took)
				}
				data, err := json.Marshal(resolve.Resolve(*r.Case).Decision)
				if err != nil {
					t.Fatal(err)
				}
				return data, r
			}
			without, _ := decision(false)
			with, r := decision(true)
			if diff := cmp.Diff(string(without), string(with)); diff != "" {
				t.Errorf("decision (-without +with the shadow):\n%s", diff)
			}
			if len(r.Shadows) != 1 {
				t.Fatalf("shadows %+v, want one", r.Shadows)
			}
			app, _ := appOf(t, r, "web")
			wantOpinion(t, app.Opinion, api.VerdictValue)
			if test.silent && r.Shadows[0].Verdict != api.VerdictFailed {
				t.Errorf("shadow %+v, want it failed", r.Shadows[0])
			}
		})
	}
}

// The loop decides and acts while a shadow still works, and records its response.
func TestSlowShadow(t *testing.T) {
	t.Parallel()
	raised := make(chan struct{})
	beside := valueFunc(func(ctx context.Context, _ signals.Input) (resource.Request, error) {
		select {
		case <-raised:
			return cpus(16), nil
		case <-ctx.Done():
			return resource.Request{}, ctx.Err()
		}
	})
	w, own, _ := shadowed(t, beside, 0)
	w.config.Tick = 2 * patience
	own.set(cpus(16), nil)
	w.groups[0].raise = func(context.Context) { close(raised) }
	r := w.tick()
	wantOps(t, r, "set target a: 4")
	if len(r.Shadows) != 1 || !r.Shadows[0].Compared || r.Shadows[0].Difference != "" {
		t.Errorf("shadows %+v, want one that agrees", r.Shadows)
	}
}

// A late response of a shadow does not cost the signal its own response, and the other way round.
func TestShadowAndSignalGetRequestsConcurrently(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	beside := valueFunc(func(ctx context.Context, _ signals.Input) (resource.Request, error) {
		close(asked)
		return cpus(8), nil
	})
	w, _, _ := shadowed(t, beside, 0)
	p := w.spawn("web", 2, "v1", valueFunc(func(ctx context.Context, _ signals.Input) (resource.Request, error) {
		select {
		case <-asked:
			return cpus(8), nil
		case <-ctx.Done():
			return resource.Request{}, ctx.Err()
		}
	}))
	w.signals.set("web", p.Endpoint)
	r := w.tick()
	app, _ := appOf(t, r, "web")
	wantOpinion(t, app.Opinion, api.VerdictValue)
	if len(r.Shadows) != 1 || !r.Shadows[0].Compared {
		t.Errorf("shadows %+v, want one that was compared", r.Shadows)
	}
}

// A shadow gets a request when its signal does, and no request without it.
func TestShadowGetsRequestsWithItsSignal(t *testing.T) {
	t.Parallel()
	beside := &need{request: cpus(8)}
	w, own, _ := shadowed(t, beside, 0)
	w.config.Apps[0].Period = 3 * time.Minute
	for range 4 {
		w.tick()
	}
	if own.count() != 2 || beside.count() != 2 {
		t.Errorf("asked %d times, the shadow %d: want 2 and 2", own.count(), beside.count())
	}
	w.signals.change(func(_ map[string]ask.Endpoint, candidates map[string]ask.Candidate) { delete(candidates, "web") })
	for range 3 {
		if r := w.tick(); r.Shadows != nil {
			t.Errorf("shadows %+v, want none", r.Shadows)
		}
	}
	if own.count() != 3 || beside.count() != 2 {
		t.Errorf("asked %d times, the shadow %d: want 3 and 2", own.count(), beside.count())
	}
}

func TestShadowOfASignalThatFails(t *testing.T) {
	t.Parallel()
	w, own, _ := shadowed(t, &need{request: cpus(8)}, 0)
	own.set(resource.Request{}, context.Canceled)
	r := w.tick()
	if s := r.Shadows; len(s) != 1 || s[0].Compared || s[0].Verdict != api.VerdictValue || s[0].Difference != "" {
		t.Errorf("shadows %+v, want one that answers and is not compared", s)
	}
	if _, resolved := appOf(t, r, "web"); resolved.Source != api.FromDefault {
		t.Errorf("served by %s, want the default signal", resolved.Source)
	}
}
