package apps

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
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
	nudged   func(at time.Time, app string, index int) // called for each index of a start
}

type startingCopy struct {
	at   time.Time
	beat api.Beat
}

func newCrowd(cfg Config) *crowd {
	w := &crowd{m: NewMachine(cfg), now: start(), nodes: map[string][]api.Beat{}, homeless: map[string]bool{}, silent: map[string]bool{}}
	w.nudged = func(time.Time, string, int) {}
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
			w.nudged(w.now, n.Start.App, index)
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
	}
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
			w.homeless["lost"], w.silent["lost-0"], w.silent["lost-1"] = true, true, true
			w.pass(80 * time.Second)
			if got := w.m.View().DisruptionLimit().State; got != tt.limit {
				t.Fatalf("the limit is %q, want %q", got, tt.limit)
			}
			var answered time.Time
			w.nudged = func(at time.Time, app string, _ int) {
				if app == "small" {
					answered = at
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
