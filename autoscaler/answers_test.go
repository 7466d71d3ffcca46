package autoscaler

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// window is the range of the windows here, and the maximum age of the newest point.
const window = 5 * time.Minute

const goodAnswer = `{"Resources":{"cpus":24,"mem":null}}`

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		treat func(peer)
		why   []string
	}{
		{"garbage", answering("hello world"), []string{": response: protocol error", "0x68"}},
		{"garbage for an ACK", func(p peer) { p.hello(); p.send("\x07"); p.hangUp() }, []string{": length ack: protocol error", "0x07"}},
		{"refuses the length", func(p peer) { p.hello(); p.length(); p.send("\x02"); p.hangUp() }, []string{": length ack: the signal refused"}},
		{"refuses the data", func(p peer) { p.body(); p.send("\x02"); p.hangUp() }, []string{": data ack: the signal refused"}},
		{"more than an ACK", func(p peer) { p.hello(); p.send("\x01\x01{}"); p.hangUp() }, []string{": length ack: protocol error"}},
		{"hangs up at once", func(peer) {}, nil}, // the kernel decides the phase
		{"hangs up before the answer", func(p peer) { p.body() }, []string{": data ack: EOF"}},
		{"hangs up in the answer", func(p peer) { p.body(); p.send("\x01" + goodAnswer[:20]) }, []string{": response: "}},
		{"NaN", answering(`{"Resources":{"cpus":NaN}}`), []string{": response: Resources.cpus: "}},
		{"infinite", answering(`{"Resources":{"mem":1e999}}`), []string{": response: Resources.mem: "}},
		{"negative", answering(`{"Resources":{"gpus":-1}}`), []string{": response: Resources.gpus: is -1"}},
		{"text for a number", answering(`{"Resources":{"disk":"8"}}`), []string{": response: Resources.disk: "}},
		{"twice", answering(`{"Resources":{"cpus":1,"cpus":2}}`), []string{": response: Resources.cpus: appears twice"}},
		{"no resources", answering(`{"cpus":1}`), []string{": response: Resources: is missing"}},
		{"no object", answering(`{"Resources":24}`), []string{": response: Resources: is 24"}},
		{"10 MB", answering(`{"pad":"` + strings.Repeat("x", 10<<20) + `"}`), []string{": response: message is too large"}},
		{"10 MB of nothing", answering(strings.Repeat(" ", 10<<20)), []string{": response: message is too large"}},
		{"nothing", func(p peer) { p.hangUp() }, []string{": length ack: context deadline exceeded"}},
		{"no answer", func(p peer) { p.body(); p.hangUp() }, []string{": data ack: context deadline exceeded"}},
		{"half an answer", answering(goodAnswer[:20]), []string{": response: context deadline exceeded"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{5}, "web")
			w.config.Tick = 4 * time.Second // the timeout of a signal is half of it
			w.asks(sigproto.DefaultApp, 4)
			connections := w.misbehave("web", test.treat, answering(goodAnswer))

			r := w.tick()
			app, resolved := appOf(t, r, "web")
			wantOpinion(t, app.Opinion, api.VerdictFailed, append(test.why, w.signals.Endpoint("web").Address)...)
			if !app.Opinion.Request.IsEmpty() || resolved.Source != api.FromDefault || !resolved.Fallback {
				t.Errorf("%+v: want the default signal to stand in", resolved)
			}
			if r.Result.Target != 5 {
				t.Errorf("target %v, want 5: it must not shrink", r.Result.Target)
			}
			wantOps(t, r)

			r = w.tick()
			app, resolved = appOf(t, r, "web")
			wantOpinion(t, app.Opinion, api.VerdictValue)
			if resolved.Source != api.FromSignal || r.Result.Target != 6 {
				t.Errorf("%+v, target %v: want its own answer, 6", resolved, r.Result.Target)
			}
			if n := connections.Load(); n != 2 {
				t.Errorf("%d connections, want 2", n)
			}
			w.wantCalls("set target a 6")
		})
	}
}

func TestVerdictsOfASignal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		answer  string
		want    api.Opinion
		source  api.RequestSource
		shrinks bool
	}{
		{"value", `{"Resources":{"cpus":8},"Verdict":"value","Explanation":"32 rps / 4"}`,
			api.Opinion{Verdict: api.VerdictValue, Explanation: "32 rps / 4"}, api.FromSignal, true},
		{"no opinion", `{"Resources":{},"Verdict":"no_opinion","Explanation":"it is night"}`,
			api.Opinion{Verdict: api.VerdictNoOpinion, Why: "it is night", Explanation: "it is night"}, api.FromNone, false},
		{"stale", `{"Resources":{},"Verdict":"stale","Explanation":"orders end at 12:00"}`,
			api.Opinion{Verdict: api.VerdictStale, Why: "orders end at 12:00", Explanation: "orders end at 12:00"}, api.FromDefault, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{5}, "web")
			w.asks(sigproto.DefaultApp, 4)
			w.misbehave("web", answering(test.answer))
			r := w.tick()
			app, resolved := appOf(t, r, "web")
			o := app.Opinion
			if o.Verdict != test.want.Verdict || o.Why != test.want.Why || o.Explanation != test.want.Explanation || resolved.Source != test.source {
				t.Errorf("opinion %+v, served by %s: want %+v, %s", o, resolved.Source, test.want, test.source)
			}
			if shrunk := r.Result.Target < 5; shrunk != test.shrinks {
				t.Errorf("target %v; shrunk: want %t", r.Result.Target, test.shrinks)
			}
		})
	}
}

func TestSignalThatDoesNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{5}, "web")
	w.config.Tick = 2 * time.Second
	w.asks(sigproto.DefaultApp, 4)
	r := w.tick()
	app, _ := appOf(t, r, "web")
	wantOpinion(t, app.Opinion, api.VerdictFailed, ": connect: ")
	wantOps(t, r)
	w.asks("web", 24)
	app, _ = appOf(t, w.tick(), "web")
	wantOpinion(t, app.Opinion, api.VerdictValue)
	w.wantCalls("set target a 6")
}

func TestSignalThatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{5}, "web")
	w.asks(sigproto.DefaultApp, 4)
	up := w.signals.Endpoint("web")
	w.signals.set("web", ask.Endpoint{Down: "release v2 could not be fetched"})
	r := w.tick()
	app, resolved := appOf(t, r, "web")
	wantOpinion(t, app.Opinion, api.VerdictFailed, "release v2 could not be fetched")
	if resolved.Source != api.FromDefault {
		t.Errorf("served by %s, want the default signal", resolved.Source)
	}
	wantOps(t, r)
	w.asks("web", 24)
	w.signals.set("web", up)
	app, _ = appOf(t, w.tick(), "web")
	wantOpinion(t, app.Opinion, api.VerdictValue)
}

func TestSignalMoves(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		moved bool // to another address; otherwise another process group there
	}{{"to another address", true}, {"to another process", false}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{5}, "web")
			w.asks(sigproto.DefaultApp, 4)
			hungUp := make(chan struct{})
			connections := w.misbehave("web", func(p peer) {
				answering(goodAnswer)(p)
				close(hungUp)
			}, answering(goodAnswer))
			w.tick()
			e := w.signals.Endpoint("web")
			e.Version, e.Group = "v2", 77
			if test.moved {
				e.Address += "~1"
				w.serveAt(signals.ServeConfig{Namespace: namespace(t), Name: "Need", App: "web-socket~1", Log: logger(t)}, &need{})
				e.Address = sigproto.Address(namespace(t), "Need", "web-socket~1")
			}
			w.signals.set("web", e)
			app, _ := appOf(t, w.tick(), "web")
			if app.Opinion.Version != "v2" {
				t.Errorf("version %s, want v2", app.Opinion.Version)
			}
			<-hungUp
			want := int64(2)
			if test.moved {
				want = 1
				wantOpinion(t, app.Opinion, api.VerdictNoOpinion, "every resource is null")
			}
			if n := connections.Load(); n != want {
				t.Errorf("%d connections there, want %d", n, want)
			}
		})
	}
}

func TestStaleWindows(t *testing.T) {
	t.Parallel()
	const none = -1
	tests := []struct {
		name string
		age  time.Duration // of the newest point
		want api.Verdict
		why  string
	}{
		{"no point", none, api.VerdictStale, "requests has no point in the last 5m0s"},
		{"no point in the window", 6 * time.Minute, api.VerdictStale, "requests has no point in the last 5m0s"},
		{"too old", 4 * time.Minute, api.VerdictStale, "newest point of requests is 4m0s old, at most 3m0s is allowed"},
		{"just good", 3 * time.Minute, api.VerdictValue, ""},
		{"new", 0, api.VerdictValue, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{5}, "web")
			w.asks(sigproto.DefaultApp, 4)
			web := w.asks("web", 8)
			w.config.Apps[0].Windows = []ask.Window{{Name: "requests", Type: metrics.App, Range: window, MaxAge: 3 * time.Minute}}
			w.now = w.now.Add(10 * time.Minute)
			for age := test.age; age != none && age < 10*time.Minute; age += time.Minute {
				w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 7}, age)
			}
			r := w.tickAgain()
			app, resolved := appOf(t, r, "web")
			wantOpinion(t, app.Opinion, test.want, test.why)
			if test.want == api.VerdictValue {
				if r.Result.Target != 2 || web.count() != 1 {
					t.Errorf("target %v, asked %d times: want 2, once", r.Result.Target, web.count())
				}
				return
			}
			if web.count() != 0 || resolved.Source != api.FromDefault {
				t.Errorf("asked %d times, served by %s: want never, the default signal", web.count(), resolved.Source)
			}
			wantOps(t, r)
			w.wantTarget(5)

			w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 7}, -time.Minute)
			app, _ = appOf(t, w.tick(), "web")
			wantOpinion(t, app.Opinion, api.VerdictValue)
		})
	}
}

func TestWindowThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{5}, "web")
	w.asks(sigproto.DefaultApp, 4)
	web := w.asks("web", 8)
	w.config.Apps[0].Windows = []ask.Window{{Name: "requests", Type: metrics.App, Range: window, MaxAge: window}}
	w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 7}, 0)
	w.store.fail["web,requests"] = errors.New("no metrics store answers")
	r := w.tick()
	app, resolved := appOf(t, r, "web")
	wantOpinion(t, app.Opinion, api.VerdictFailed, "window of requests is unknown: no metrics store answers")
	if web.count() != 0 || resolved.Source != api.FromDefault {
		t.Errorf("asked %d times, served by %s: want never, the default signal", web.count(), resolved.Source)
	}
	wantOps(t, r)
	w.wantTarget(5)
}

func TestWhatASignalSees(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.now = w.now.Truncate(time.Minute) // the begin of a slot
	w.asks(sigproto.DefaultApp, 4)
	web := w.asks("web", 8)
	w.config.Apps[0].Parameters = map[string]any{"headroom": 1.5}
	w.config.Apps[0].Setpoint = 0.7
	w.config.Apps[0].Windows = []ask.Window{
		{Name: "slots", Type: metrics.App, Range: window, MaxAge: window, Resolution: time.Minute},
		{Name: "requests", Type: metrics.App, Range: window, MaxAge: window},
		{Name: "cpus_allocated", Type: metrics.System, Range: window, MaxAge: window},
		{Name: "instances_expected", Type: metrics.InstanceCounts, Range: window, MaxAge: window, App: "web"},
	}
	w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 7}, time.Minute)
	w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 8}, 0)
	w.write(metrics.Sample{Type: metrics.App, Name: "web,slots", Value: 2}, 2*time.Minute)
	w.write(metrics.Sample{Type: metrics.App, Name: "web,slots", Value: 4}, 2*time.Minute-time.Second)
	w.write(metrics.Sample{Type: metrics.App, Name: "web,slots", Value: 9}, -time.Minute) // in the slot that begins with the tick
	w.write(metrics.Sample{Type: metrics.App, Name: "other,requests", Value: 1}, 0)
	for _, d := range []metrics.Dimensions{
		{"cluster": "here", "pool": "default", "app": "web"}, {"cluster": "here", "pool": "default", "app": "other"},
		{"cluster": "here", "pool": "another", "app": "web"}, {"cluster": "here", "pool": "default"},
	} {
		w.write(metrics.Sample{Type: metrics.InstanceCounts, Name: "instances_expected", Dimensions: d, Value: 3}, 0)
	}
	w.nodes.tasks["a-2"] = 3
	before := w.now
	w.tick()
	want := signals.Input{
		Now: w.now, Cluster: "here", Pool: "default", App: "web", Parameters: signals.Parameters{"headroom": 1.5}, Setpoint: 0.7,
		Metrics: map[string]signals.Series{
			"slots":                      {Times: []int64{before.Unix() - 120}, Values: []float64{3}, Counts: []float64{2}},
			"slots#count":                {Times: []int64{before.Unix() - 120}, Values: []float64{2}},
			"requests":                   {Times: []int64{before.Unix() - 60, before.Unix()}, Values: []float64{7, 8}},
			"cpus_allocated":             {Times: []int64{w.now.Unix()}, Values: []float64{3}},
			"instances_expected|app=web": {Times: []int64{before.Unix()}, Values: []float64{3}},
		},
	}
	if diff := cmp.Diff(want, web.lastInput(t)); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}
}

func TestSharedWindowIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web", "batch", "mail")
	usage := ask.Window{Name: "cpus_allocated", Type: metrics.System, Range: window, MaxAge: window}
	w.config.Default.Windows = []ask.Window{usage}
	w.asks(sigproto.DefaultApp, 4)
	for i := range w.config.Apps {
		w.config.Apps[i].Windows = []ask.Window{usage}
		w.asks(w.config.Apps[i].App, 2)
	}
	w.config.Apps[2].Windows[0].Range = 2 * window
	r := w.tick()
	for _, app := range r.Case.Input.Apps {
		wantOpinion(t, app.Opinion, api.VerdictValue)
	}
	if n := w.store.count("cpus_allocated"); n != 2 {
		t.Errorf("cpus_allocated was read %d times, want once for each of 2 ranges", n)
	}
}

func TestPeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	def := w.asks(sigproto.DefaultApp, 4)
	web := w.asks("web", 8)
	w.config.Apps[0].Period = 5 * time.Minute
	first := w.tick()
	given, _ := appOf(t, first, "web")
	web.set(cpus(12), nil)
	for range 4 {
		app, _ := appOf(t, w.tick(), "web")
		if diff := cmp.Diff(given.Opinion, app.Opinion, cmpopts.EquateComparable(resource.Request{})); diff != "" {
			t.Errorf("between two periods (-first +now):\n%s", diff)
		}
	}
	if web.count() != 1 || def.count() != 5 {
		t.Errorf("web was asked %d times, the default signal %d: want 1 and 5", web.count(), def.count())
	}

	web.set(resource.Request{}, errors.New("cannot say"))
	app, _ := appOf(t, w.tick(), "web")
	wantOpinion(t, app.Opinion, api.VerdictFailed, "data ack")
	app, _ = appOf(t, w.tick(), "web")
	wantOpinion(t, app.Opinion, api.VerdictFailed, "data ack")
	web.set(cpus(16), nil)
	app, _ = appOf(t, w.tick(), "web")
	wantOpinion(t, app.Opinion, api.VerdictValue)
	if web.count() != 4 {
		t.Errorf("web was asked %d times, want 4: again at each tick until it answers", web.count())
	}
	w.tick()
	if web.count() != 4 {
		t.Errorf("web was asked %d times, want 4: its answer stands", web.count())
	}
}

func TestAppWithoutASignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{5}, "web")
	w.config.Apps[0].Name = ""
	w.asks(sigproto.DefaultApp, 8)
	r := w.tick()
	app, resolved := appOf(t, r, "web")
	if app.Configured || app.Opinion.Verdict != api.VerdictNotRequested || resolved.Fallback || resolved.Source != api.FromDefault {
		t.Errorf("%+v %+v: want the default signal to speak for it, and not as a stand-in", app, resolved)
	}
	if r.Result.Target != 2 {
		t.Errorf("target %v, want 2", r.Result.Target)
	}
}

// All signals get their requests concurrently: each responds only when all have got one.
func TestSignalsGetRequestsConcurrently(t *testing.T) {
	t.Parallel()
	names := []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"}
	silent := []string{"x1", "x2", "x3"}
	w := newWorld(t, []int{4}, append(names, silent...)...)
	w.config.Tick = 4 * time.Second
	w.asks(sigproto.DefaultApp, 4)

	var asked atomic.Int64
	all := make(chan struct{})
	arrive := func() {
		if asked.Add(1) == int64(len(names)+len(silent)) {
			close(all)
		}
	}
	var once sync.Map // a repeated request by mistake counts once
	for _, name := range names {
		w.serve(name, valueFunc(func(ctx context.Context, _ signals.Input) (resource.Request, error) {
			if _, again := once.LoadOrStore(name, true); !again {
				arrive()
			}
			select {
			case <-all:
				return cpus(1), nil
			case <-ctx.Done():
				return resource.Request{}, ctx.Err()
			}
		}))
	}
	for _, name := range silent {
		w.misbehave(name, func(p peer) {
			p.body()
			arrive()
			p.hangUp()
		})
	}
	r := w.tick()
	for _, name := range names {
		app, _ := appOf(t, r, name)
		wantOpinion(t, app.Opinion, api.VerdictValue)
	}
	for _, name := range silent {
		app, _ := appOf(t, r, name)
		wantOpinion(t, app.Opinion, api.VerdictFailed, "data ack: context deadline exceeded")
	}
	wantOps(t, r)
}

// A pattern without a match means unknown need: the pool does not shrink.
func TestPatternThatFindsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{5}, "web")
	w.asks(sigproto.DefaultApp, 4)
	w.asks("web", 4)
	w.config.Apps[0].Windows = []ask.Window{{Name: "^web,req", Type: metrics.App, Regex: true, Range: window, MaxAge: window}}
	r := w.tick()
	app, _ := appOf(t, r, "web")
	wantOpinion(t, app.Opinion, api.VerdictStale, "^web,req has no point")
	wantOps(t, r)
	w.wantTarget(5)
}
