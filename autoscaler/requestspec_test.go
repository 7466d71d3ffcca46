package autoscaler

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// requesting returns a spec with one metric of the app and one parameter.
func requesting(metric string, headroom float64) *ask.RequestSpec {
	return &ask.RequestSpec{
		Windows:    []ask.Window{{Name: metric, Type: metrics.App, Range: time.Hour, MaxAge: time.Hour}},
		Parameters: map[string]any{"headroom": headroom},
	}
}

// versions returns a pool whose app web has the metrics old and new and a period of ten minutes. It
// is configured with the spec of its next version.
func versions(t *testing.T) *world {
	w := newWorld(t, []int{3}, "web")
	w.config.Apps[0].Period = 10 * time.Minute
	w.asks(sigproto.DefaultApp, 1)
	w.write(metrics.Sample{Type: metrics.App, Name: "web,old", Value: 7}, 0)
	w.write(metrics.Sample{Type: metrics.App, Name: "web,new", Value: 7}, 0)
	w.configure(requesting("new", 2))
	return w
}

func (w *world) configure(q *ask.RequestSpec) {
	w.config.Apps = slices.Clone(w.config.Apps)
	w.config.Apps[0].Windows, w.config.Apps[0].Parameters = q.Windows, q.Parameters
}

// list lists a process with a spec.
func (w *world) list(p *process, q *ask.RequestSpec) {
	p.Request = q
	w.signals.set("web", p.Endpoint)
}

// wantRequests checks how many requests a signal got, and the spec of the last one.
func wantRequests(t *testing.T, n *need, times int, metric string, headroom float64) {
	t.Helper()
	if got := n.count(); got != times {
		t.Fatalf("asked %d times, want %d", got, times)
	}
	in := n.lastInput(t)
	if got, err := in.Parameters.Float("headroom", 0); err != nil || got != headroom {
		t.Errorf("asked with the headroom %v, %v, want %v", got, err, headroom)
	}
	if _, ok := in.Metrics[metric]; !ok || len(in.Metrics) != 1 {
		t.Errorf("asked with the metrics %v, want %s", in.Metrics, metric)
	}
}

// If the files name the next version before it runs, the old version gets requests of its own spec
// until the next one is listed.
func TestOldVersionKeepsItsRequestSpec(t *testing.T) {
	t.Parallel()
	w := versions(t)
	next := w.config.Apps[0]
	w.config.Apps[0].Version = "v1"
	w.configure(requesting("old", 1))
	v1, v2 := &need{request: cpus(12)}, &need{request: cpus(16)}
	p := w.spawn("web", 1, "v1", v1)
	w.list(p, requesting("old", 1))
	w.tick()
	wantRequests(t, v1, 1, "old", 1)

	next.Version = "v2"
	w.config.Apps = []ask.Signal{next}
	w.reconfigure()
	for range 10 { // a period
		w.tick()
	}
	wantRequests(t, v1, 2, "old", 1)
	w.wantTarget(3)

	w.list(w.spawn("web", 2, "v2", v2), nil)
	w.tick()
	wantRequests(t, v2, 1, "new", 2)
	wantRequests(t, v1, 2, "old", 1)
	w.wantTarget(4)
}

func TestChangedRequestSpec(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*world, ask.Endpoint) ask.Endpoint
		asked  int
		metric string
	}{
		{"an equal one", func(_ *world, e ask.Endpoint) ask.Endpoint { e.Request = requesting("old", 1); return e }, 1, "old"},
		{"another one", func(_ *world, e ask.Endpoint) ask.Endpoint { e.Request = requesting("new", 2); return e }, 2, "new"},
		{"none, as in the files", func(_ *world, e ask.Endpoint) ask.Endpoint { e.Request = nil; return e }, 2, "new"},
		{"the files", func(w *world, e ask.Endpoint) ask.Endpoint {
			w.configure(requesting("old", 7))
			w.reconfigure()
			return e
		}, 1, "old"},
		{"another version", func(_ *world, e ask.Endpoint) ask.Endpoint { e.Version = "v2"; return e }, 2, "old"},
		{"it is down", func(_ *world, e ask.Endpoint) ask.Endpoint { return ask.Endpoint{Address: e.Address, Down: "fatal"} }, 1, "old"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := versions(t)
			s := &need{request: cpus(12)}
			p := w.spawn("web", 1, "v1", s)
			w.list(p, requesting("old", 1))
			w.tick()
			w.signals.set("web", test.change(w, p.Endpoint))
			w.tick()
			w.tick()
			wantRequests(t, s, test.asked, test.metric, map[string]float64{"old": 1, "new": 2}[test.metric])
		})
	}
}

// A candidate gets requests of its own spec if it is to replace the signal's process, and of the
// signal's spec if it is a shadow.
func TestRequestSpecOfACandidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		shadow bool
		metric string
	}{{"to take the place", false, "new"}, {"a shadow", true, "old"}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := versions(t)
			w.configure(requesting("of nobody", 3))
			v1, v2 := &need{request: cpus(12)}, &need{request: cpus(12)}
			w.list(w.spawn("web", 1, "v1", v1), requesting("old", 1))
			p := w.spawn("web", 2, "v2", v2)
			p.Request = requesting("new", 2)
			w.signals.setCandidate("web", ask.Candidate{Endpoint: p.Endpoint, Shadow: test.shadow})
			w.tick()
			wantRequests(t, v1, 1, "old", 1)
			wantRequests(t, v2, 1, test.metric, map[string]float64{"old": 1, "new": 2}[test.metric])
			w.signals.promote("web")
			w.tick()
			wantRequests(t, v2, 2, "new", 2)
		})
	}
}

// A process that is down is listed without a spec: the spec of the next version in the files is not
// its own.
func TestRequestOfAProcessThatIsDown(t *testing.T) {
	t.Parallel()
	w := versions(t)
	w.config.Tick = 2 * patience
	w.configure(requesting("of nobody", 3))
	s := &need{request: cpus(12)}
	p := w.spawn("web", 1, "v1", s)
	w.list(p, requesting("old", 1))
	w.tick()
	w.signals.set("web", ask.Endpoint{Address: p.Address, Down: "the signal is backoff"})
	w.now = w.now.Add(10 * time.Minute)
	w.groups[0].tamper = func(*pools.GroupSnapshot) { w.list(p, requesting("old", 1)) }
	app, _ := appOf(t, w.tick(), "web")
	wantOpinion(t, app.Opinion, api.VerdictValue)
	wantRequests(t, s, 2, "old", 1)
}

// A process that is listed in the middle of a tick gets requests of its own spec, whose windows may
// be bad. The response of its shadow is not comparable then.
func TestRequestOfAProcessListedInTheTick(t *testing.T) {
	t.Parallel()
	tests := []struct {
		metric  string
		verdict api.Verdict
	}{{"new", api.VerdictValue}, {"of nobody", api.VerdictStale}}
	for _, test := range tests {
		t.Run(test.metric, func(t *testing.T) {
			t.Parallel()
			w := versions(t)
			w.config.Tick = 2 * patience
			v1 := &need{request: cpus(12)}
			w.list(w.spawn("web", 1, "v1", v1), requesting("old", 1))
			w.tick()
			v2, beside := &need{request: cpus(12)}, &need{request: cpus(12)}
			fresh := w.spawn("web", 2, "v2", v2)
			dies := ask.Endpoint{Address: fresh.Address + "~dies", Version: "v1", Request: requesting("old", 1)}
			_, kill := w.listen(dies.Address, func(p peer) {
				p.body()
				w.list(fresh, requesting(test.metric, 2))
			})
			defer kill()
			w.signals.set("web", dies)
			w.signals.setCandidate("web", ask.Candidate{Endpoint: w.spawn("web", 3, "v3", beside).Endpoint, Shadow: true})
			w.now = w.now.Add(10 * time.Minute)
			reports := len(w.signals.reports)
			r := w.tick()
			app, _ := appOf(t, r, "web")
			wantOpinion(t, app.Opinion, test.verdict)
			if app.Opinion.Version != "v2" {
				t.Errorf("version %s, want v2", app.Opinion.Version)
			}
			if test.verdict == api.VerdictValue {
				wantRequests(t, v2, 1, "new", 2)
			}
			wantRequests(t, beside, 1, "old", 1)
			if len(r.Shadows) != 1 || r.Shadows[0].Compared {
				t.Errorf("shadows %+v, want one that is not compared", r.Shadows)
			}
			want := []string{"v2 value", "v3 value"}
			if test.verdict == api.VerdictStale {
				want = []string{"v3 value"} // no process got these windows
			}
			// The end of v1 may be known before v2 has responded, or not.
			got := slices.DeleteFunc(w.signals.answers(reports, "web"), func(a string) bool { return a == "v1 failed" })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}
