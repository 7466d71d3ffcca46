package apps

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/queue"
)

// crowd is a world of many apps: nodes send heartbeats every 10 s, and copies start 2 s after their nudge. Copies of homeless
// apps never start.
type crowd struct {
	m        *Machine
	now      time.Time
	nodes    map[string][]api.Beat
	homeless map[string]bool
	silent   map[string]bool
	starting []startingCopy
	ids      int
	nudged   func(app string, index int) // called for each index of a start
	ticked   func()                      // called after each tick
}

type startingCopy struct {
	at   time.Time
	beat api.Beat
}

func newCrowd(cfg Config) *crowd {
	w := &crowd{m: NewMachine(cfg), now: start(), nodes: map[string][]api.Beat{}, homeless: map[string]bool{}, silent: map[string]bool{}}
	w.nudged, w.ticked = func(string, int) {}, func() {}
	w.step(BusUp{})
	w.step(Lead{})
	return w
}

// add adds an app. Its copies run, 100 on a node, unless it is homeless.
func (w *crowd) add(app string, instances int) {
	w.step(ExpectedRows{[]api.App{{Name: app, Pool: "p", Version: "v1", Instances: instances}}})
	for i := range instances {
		if !w.homeless[app] {
			w.run(api.Beat{App: app, Index: i}, fmt.Sprintf("%s-%d", app, i/100))
		}
	}
}

func (w *crowd) run(b api.Beat, node string) {
	w.ids++
	b.Version, b.Instance, b.State = "v1", fmt.Sprintf("i%d", w.ids), api.CopyRunning
	w.nodes[node] = append(w.nodes[node], b)
}

// end ends a copy of an index that runs, and reports whether there is one.
func (w *crowd) end(app string, index int, reason api.ExitReason) bool {
	for node, copies := range w.nodes {
		at := slices.IndexFunc(copies, func(b api.Beat) bool { return b.App == app && b.Index == index })
		if at < 0 || w.silent[node] {
			continue
		}
		id := copies[at].Instance
		w.nodes[node] = slices.Delete(copies, at, at+1)
		w.step(Exit{Exited: api.Exited{App: app, Index: index, Version: "v1", Instance: id, Reason: reason}})
		return true
	}
	return false
}

func (w *crowd) step(ev Event) {
	nudges, _ := w.m.Step(w.now, ev)
	for _, n := range nudges {
		if n.Start == nil {
			continue
		}
		for _, index := range n.Start.Indices {
			w.nudged(n.Start.App, index)
			if !w.homeless[n.Start.App] {
				w.starting = append(w.starting, startingCopy{w.now.Add(2 * time.Second), api.Beat{App: n.Start.App, Index: index}})
			}
		}
	}
}

// pass advances the world, a loop period of the harmonizer at a time.
func (w *crowd) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(200 * time.Millisecond)
		for len(w.starting) > 0 && !w.starting[0].at.After(w.now) {
			w.run(w.starting[0].beat, w.starting[0].beat.App+"-again")
			w.starting = w.starting[1:]
		}
		if w.now.Sub(start())%(10*time.Second) == 0 {
			w.step(LoopbackProbe{})
			for _, node := range slices.Sorted(maps.Keys(w.nodes)) {
				if !w.silent[node] {
					w.step(beat(node, w.nodes[node]...))
				}
			}
		}
		w.step(Tick{})
		w.ticked()
	}
}

// throttle loses the nodes of an app, so that the disruption limit throttles starts. The app is homeless afterwards.
func (w *crowd) throttle(app string) {
	w.homeless[app] = true
	for node := range w.nodes {
		w.silent[node] = w.silent[node] || strings.HasPrefix(node, app+"-")
	}
	w.pass(80 * time.Second)
}

// A crash is answered however many instances of another app are missing.
func TestCrashIsAnsweredBesideManyMissing(t *testing.T) {
	for _, tt := range []struct {
		name          string
		missing, lost int
		limit         api.LimitState
	}{
		{"of an app without room", 1300, 0, api.LimitOff},
		{"while the disruption limit throttles", 0, 130, api.LimitThrottled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newCrowd(steady())
			w.homeless["big"] = true
			w.add("big", tt.missing)
			w.add("small", 2)
			w.add("lost", tt.lost)
			w.step(ExpectedComplete{})
			w.pass(60 * time.Second)
			w.throttle("lost")
			if got := w.m.View().DisruptionLimit().State; got != tt.limit {
				t.Fatalf("the limit is %q, want %q", got, tt.limit)
			}
			var answered time.Time
			w.nudged = func(app string, _ int) {
				if app == "small" {
					answered = w.now
				}
			}
			crashed := w.now
			if !w.end("small", 0, api.ExitCrashed) {
				t.Fatal("small does not run")
			}
			w.pass(2 * time.Second)
			if answered.IsZero() {
				t.Errorf("%d starts are queued, and the crash is not answered within 2 s", w.m.dispatch.starts.Len())
			} else {
				t.Logf("answered after %v", answered.Sub(crashed))
			}
		})
	}
}

// wait is an app with queued starts, of which none is sent since then.
type wait struct {
	since  time.Time
	apps   int  // the most apps that waited meanwhile
	shared bool // several levels waited
}

// firstCrash is the first crash of an index. No other crash of its app waits.
type firstCrash struct {
	at   time.Time
	apps int // the most apps of its level that waited meanwhile
}

// waits checks how long apps, and first crashes, wait.
type waits struct {
	*crowd
	t       *rapid.T
	rate    float64 // of starts, per second
	apps    map[string]wait
	crashes map[string]firstCrash // by app/index
}

func (w *waits) crash(app string, index int) {
	k := key(app, index)
	for s := w.m.apps.lookup(app).slots; s != nil; s = s.next {
		if w.m.dispatch.starts.Has(s.indexKey()) {
			w.end(app, index, api.ExitCrashed)
			return
		}
	}
	w.crashes[k] = firstCrash{at: w.now}
	crashed := w.end(app, index, api.ExitCrashed)
	s := w.m.apps.slots[at(w.m.known.App(app), index)]
	if !crashed || s == nil || s.start != api.AppRuleExitCrashed || !w.m.dispatch.starts.Has(s.indexKey()) {
		delete(w.crashes, k)
	}
}

func (w *waits) after(n int) time.Duration {
	return time.Duration(float64(n) / w.rate * float64(time.Second))
}

func (w *waits) check() {
	levels := map[queue.Priority]map[string]bool{}
	waiting := map[string]bool{}
	for _, s := range w.m.apps.slots {
		if !w.m.dispatch.starts.Has(s.indexKey()) {
			continue
		}
		p := priority(s.start)
		if levels[p] == nil {
			levels[p] = map[string]bool{}
		}
		levels[p][s.app.name()], waiting[s.app.name()] = true, true
	}
	for app := range w.apps {
		if !waiting[app] {
			delete(w.apps, app)
		}
	}
	for app := range waiting {
		x, waited := w.apps[app]
		if !waited {
			x.since = w.now
		}
		x.apps, x.shared = max(x.apps, len(waiting)), x.shared || len(levels) > 1
		w.apps[app] = x
		most := x.apps
		if x.shared {
			most *= 5
		}
		if waited := w.now.Sub(x.since); waited > w.after(most)+time.Second {
			w.t.Fatalf("%s waited for %v, with at most %d apps, shared %v, at %v starts a second", app, waited, x.apps, x.shared, w.rate)
		}
	}
	for k, c := range w.crashes {
		c.apps = max(c.apps, len(levels[queue.Low]))
		w.crashes[k] = c
		if waited := w.now.Sub(c.at); waited > w.after(5*(c.apps-1))+2*time.Second {
			w.t.Fatalf("the first crash of %s waited for %v, with at most %d apps of its level, at %v starts a second", k, waited, c.apps, w.rate)
		}
	}
}

// TestNoAppStarvesAnother: under any load, an app waits for at most one start of each other app. If other levels wait too, its
// level has a fifth of the rate. A first crash is answered within 2 s of its turn.
func TestNoAppStarvesAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttled := rapid.Bool().Draw(t, "throttled")
		cfg, share := steady(), 1.0
		cfg.QueueBatchSize, cfg.DisruptionLimit = rapid.IntRange(4, 40).Draw(t, "rate"), 1
		if throttled {
			cfg.QueueBatchSize, cfg.DisruptionLimit, share = 40, 0.01, throttledShare
		}
		w := &waits{crowd: newCrowd(cfg), t: t, rate: float64(cfg.QueueBatchSize) * share, apps: map[string]wait{}, crashes: map[string]firstCrash{}}
		var names []string
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 10, 50, 300}), 2, 25).Draw(t, "sizes")
		for i, n := range sizes {
			names = append(names, fmt.Sprintf("app%d", i))
			w.homeless[names[i]] = rapid.IntRange(0, 2).Draw(t, "homeless") == 0
			w.add(names[i], n)
		}
		w.add("lost", 40)
		w.add("other", 1) // its node proves that the bus works
		w.step(ExpectedComplete{})
		w.pass(40 * time.Second)
		if throttled {
			w.throttle("lost")
		}
		w.nudged = func(app string, index int) {
			delete(w.apps, app)
			delete(w.crashes, key(app, index))
		}
		w.ticked = w.check
		for range rapid.IntRange(1, 40).Draw(t, "seconds") {
			if rapid.IntRange(0, 3).Draw(t, "quiet") == 0 {
				app := rapid.IntRange(0, len(sizes)-1).Draw(t, "app")
				first := rapid.IntRange(0, sizes[app]-1).Draw(t, "first")
				reason := rapid.SampledFrom([]api.ExitReason{api.ExitCrashed, api.ExitCrashed, api.ExitShutdown, api.ExitStopped}).Draw(t, "reason")
				for index := first; index < min(first+rapid.SampledFrom([]int{1, 1, 2, 50, 300}).Draw(t, "copies"), sizes[app]); index++ {
					if reason == api.ExitCrashed {
						w.crash(names[app], index)
					} else {
						w.end(names[app], index, reason)
					}
				}
			}
			w.pass(time.Second)
		}
		if got := w.m.View().DisruptionLimit().State == api.LimitThrottled; got != throttled {
			t.Fatalf("throttled: %v, want %v", got, throttled)
		}
	})
}

// BenchmarkCrashBesideMissing measures in virtual time how long the first crashes of 199 apps wait for their start: one each
// 0.5 s, and all at once. 2000 instances of another app are missing; in the third case its scheduler reports that their starts
// wait. A crash without a start counts until the end, 5 minutes after the last one.
func BenchmarkCrashBesideMissing(b *testing.B) {
	for _, tt := range []struct {
		name    string
		every   time.Duration
		reports bool
	}{{"one by one", 500 * time.Millisecond, false}, {"at once", 0, false}, {"at once, with reports", 0, true}} {
		b.Run(tt.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				took = crashBesideMissing(b, tt.every, tt.reports)
			}
			slices.Sort(took)
			for name, i := range map[string]int{"median-s": len(took) / 2, "p99-s": len(took) * 99 / 100, "longest-s": len(took) - 1} {
				b.ReportMetric(took[i].Seconds(), name)
			}
		})
	}
}

func crashBesideMissing(tb testing.TB, every time.Duration, reports bool) (took []time.Duration) {
	w := newCrowd(steady())
	crashed, waiting := map[string]time.Time{}, map[int]bool{}
	w.nudged = func(app string, index int) {
		if at, is := crashed[app]; is {
			took = append(took, w.now.Sub(at))
			delete(crashed, app)
		} else if app == "big" {
			waiting[index] = true
		}
	}
	w.ticked = func() {
		if reports && w.now.Sub(start())%(10*time.Second) == 0 {
			big := api.WaitingStart{App: "big", Version: "v1", Indices: slices.Sorted(maps.Keys(waiting))}
			w.step(Confirmed{Pool: "p", Waiting: []api.WaitingStart{big}})
		}
	}
	w.homeless["big"] = true
	w.add("big", 2000)
	for i := range 199 {
		w.add(fmt.Sprint("app", i), 5)
	}
	w.step(ExpectedComplete{})
	w.pass(2 * time.Minute)
	for i := range 199 {
		app := fmt.Sprint("app", i)
		crashed[app] = w.now
		if !w.end(app, 0, api.ExitCrashed) {
			tb.Fatalf("%s does not run", app)
		}
		w.pass(every)
	}
	w.pass(5 * time.Minute)
	for _, at := range crashed {
		took = append(took, w.now.Sub(at))
	}
	return took
}
