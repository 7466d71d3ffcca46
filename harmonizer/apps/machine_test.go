package apps

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// world is the state according to the test's events, stored in a simple way.
type world struct {
	m        *Machine
	now      time.Time
	rows     map[string]api.App
	next     map[string]api.App // rows reported in this pass
	complete bool
	whole    bool            // was complete once
	ran      map[string]bool // "app/index" that a node listed, or that ended
	up       bool
	upSince  time.Time
	leading  bool
	started  map[string]time.Time // "app/index" -> the newest start without an answer
	stopped  map[string]time.Time // instance -> the newest stop
	sent     []Nudge              // by the latest steps
}

func newWorld(cfg Config) *world {
	return &world{
		m: NewMachine(cfg), now: start(),
		rows: map[string]api.App{}, next: map[string]api.App{},
		ran: map[string]bool{}, started: map[string]time.Time{}, stopped: map[string]time.Time{},
	}
}

func key(app string, index int) string { return fmt.Sprintf("%s/%d", app, index) }

// apply records the event, steps the machine, and checks the invariants.
func (w *world) apply(t *rapid.T, ev Event) {
	w.keep(ev)
	nudges, _ := w.m.Step(w.now, ev)
	for _, n := range nudges {
		incomplete := !w.complete && (n.Stop != nil || !w.whole)
		for i := 0; n.Start != nil && i < len(n.Start.Indices); i++ {
			incomplete = incomplete || !w.complete && !w.ran[key(n.Start.App, n.Start.Indices[i])]
		}
		if incomplete || !w.up || !w.leading || w.now.Sub(w.upSince) < w.m.cfg.HeartbeatPeriod {
			t.Fatalf("%T: nudged %+v while a state is incomplete, or following", ev, n)
		}
		if n.Start != nil {
			w.checkStart(t, *n.Start)
		} else {
			w.checkStop(t, *n.Stop)
		}
	}
	w.sent = append(w.sent, nudges...)
	w.checkCounts(t)
}

func (w *world) keep(ev Event) {
	switch ev := ev.(type) {
	case ExpectedRows:
		for _, row := range ev.Rows {
			w.keepRow(row)
		}
	case ExpectedGone:
		w.gone(ev.Name)
		delete(w.next, ev.Name)
	case ExpectedBegin:
		w.next = map[string]api.App{}
	case ExpectedLost:
		w.complete, w.next = false, map[string]api.App{}
	case ExpectedComplete:
		for name := range w.rows {
			if _, ok := w.next[name]; !ok {
				w.gone(name)
			}
		}
		w.complete, w.whole = true, true
	case BusUp:
		w.up, w.upSince = true, w.now
	case BusDown:
		w.up = false
	case Lead:
		w.leading = true
	case Follow:
		w.leading = false
	case heartbeat:
		for _, b := range ev.Beats {
			delete(w.started, key(b.App, b.Index))
			w.ran[key(b.App, b.Index)] = true
		}
	case Exit:
		w.ran[key(ev.App, ev.Index)] = true
		delete(w.started, key(ev.App, ev.Index))
	case NotSent:
		for _, n := range ev.Nudges {
			if n.Start != nil {
				for _, i := range n.Start.Indices {
					delete(w.started, key(n.Start.App, i))
				}
			}
		}
	}
}

func (w *world) keepRow(row api.App) {
	old, ok := w.rows[row.Name]
	for i := range 10 {
		if !ok || old.Version != row.Version || old.State != row.State || i >= row.Instances {
			delete(w.started, key(row.Name, i))
		}
	}
	w.rows[row.Name], w.next[row.Name] = row, row
}

func (w *world) gone(name string) {
	delete(w.rows, name)
	for i := range 10 {
		delete(w.started, key(name, i))
	}
}

func (w *world) checkStart(t *rapid.T, s api.Start) {
	row, ok := w.rows[s.App]
	e, _ := w.m.View().Explain(w.now, s.App)
	for _, i := range s.Indices {
		k := key(s.App, i)
		if !ok || i >= row.Instances || s.Version != row.Version || row.State == api.AppStopped || row.Package == api.PackagePending {
			t.Fatalf("started %s of %s, want %+v", k, s.Version, row)
		}
		if last, ok := w.started[k]; ok && w.now.Sub(last) < w.m.cfg.NudgeKeepAlive {
			t.Fatalf("started %s again after %v", k, w.now.Sub(last))
		}
		w.started[k] = w.now
		for _, st := range e.Indices {
			for _, in := range st.Instances {
				if st.Index == i && in.Version == s.Version && in.State != api.CopyCrashed && in.State != api.CopyEvacuating {
					t.Fatalf("started %s beside %+v", k, in)
				}
			}
		}
	}
}

func (w *world) checkStop(t *rapid.T, s api.Stop) {
	row, ok := w.rows[s.App]
	if a := w.m.apps.lookup(s.App); a != nil && a.rowless() {
		if _, held := w.m.rowLoss.holds(); held {
			t.Fatalf("stopped %v of an app without a row, and that is held", s.Instances)
		}
	}
	for id, version := range s.Instances {
		in, there := w.m.known.Find(id)
		if !there || in.Version() != version {
			t.Fatalf("stopped %s of %s, which is not there", id, version)
		}
		if last, ok := w.stopped[id]; ok && w.now.Sub(last) < w.m.cfg.NudgeKeepAlive {
			t.Logf("stopped %s again after %v", id, w.now.Sub(last))
		}
		w.stopped[id] = w.now
		if ok && in.Index() < row.Instances && row.State != api.AppStopped && w.survivors(s, in.App(), in.Index(), row.Version) == 0 {
			t.Fatalf("stopped %s, the last one on %s", id, key(s.App, in.Index()))
		}
	}
}

// survivors counts the RUNNING or STARTING copies of the live version on an index that this
// stop does not list.
func (w *world) survivors(s api.Stop, app known.AppID, index int, live string) (n int) {
	for c := range w.m.known.Copies(app, index) {
		if s.Instances[c.ID()] == "" && c.Version() == live && (c.State() == api.CopyRunning || c.State() == api.CopyStarting) {
			n++
		}
	}
	return n
}

// checkCounts compares the incremental counts with a full count.
func (w *world) checkCounts(t *rapid.T) {
	var total api.PoolTotals
	for _, a := range w.m.apps.list {
		if a == nil {
			continue
		}
		c := a.counts()
		if c.Running+c.Missing+c.Crashed+c.Flapping != c.Expected || min(c.Running, c.Missing, c.Crashed, c.Flapping, c.Extra) < 0 {
			t.Fatalf("%s counts %+v: the parts are not the whole", a.name(), c)
		}
		addTotals(&total, a.totals(), 1)
		if !w.m.Busy() {
			w.recount(t, a, c)
		}
	}
	if total != w.m.apps.total {
		t.Fatalf("the sums are %+v, want %+v", w.m.apps.total, total)
	}
}

func (w *world) recount(t *rapid.T, a *app, c api.AppCount) {
	var tally [categories]int
	extra := 0
	indices := map[int]bool{}
	for i := range a.expected() {
		indices[i] = true
	}
	for i := range w.m.known.Indices(a.id) {
		indices[i] = true
	}
	for i := range indices {
		s := w.m.apps.slots[at(a.id, i)]
		v := w.m.rules.judge(a, i, s)
		if s == nil && v.troubled() {
			t.Fatalf("%s has no slot, and its verdict is %+v", key(a.name(), i), v)
		}
		tally[v.category]++
		extra += v.redundant
	}
	if c.Running != tally[running] || c.Missing != tally[missing] || c.Crashed != tally[crashed] || c.Flapping != tally[flapping] || c.Extra != extra {
		t.Fatalf("%s counts %+v, want %v and %d extra", a.name(), c, tally, extra)
	}
	if a.slots == nil && !a.has() && !w.m.rowLoss.rowGone(a) && len(indices) == 0 {
		t.Fatalf("%s is kept for nothing", a.name())
	}
}

// heartbeat is an event of the world. The machine receives its bytes.
type heartbeat struct {
	Node  string
	Beats []api.Beat
}

func (heartbeat) event() {}

func (w *world) draw(t *rapid.T) Event {
	app := rapid.SampledFrom([]string{"a", "b"})
	index := rapid.IntRange(0, 4)
	version := rapid.SampledFrom([]string{"v1", "v2"})
	instance := rapid.SampledFrom([]string{"i", "j", "k", "l", "m"})
	switch rapid.IntRange(0, 30).Draw(t, "event") {
	case 0:
		return BusDown{}
	case 1, 2:
		return BusUp{}
	case 3:
		return ExpectedLost{"test"}
	case 4, 5, 6:
		return ExpectedComplete{}
	case 7:
		return ExpectedGone{app.Draw(t, "app")}
	case 8, 9, 10:
		return ExpectedRows{[]api.App{{Name: app.Draw(t, "app"), Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"),
			Version: version.Draw(t, "version"), Instances: rapid.IntRange(0, 4).Draw(t, "instances"), Mem: 8,
			State:   rapid.SampledFrom([]api.AppState{"STARTED", "STARTED", "STARTED", "STOPPED"}).Draw(t, "state"),
			Package: rapid.SampledFrom([]api.PackageState{"STAGED", "STAGED", "STAGED", "PENDING"}).Draw(t, "package")}}}
	case 11, 12:
		return Exit{Exited: api.Exited{App: app.Draw(t, "app"), Index: index.Draw(t, "index"), Version: version.Draw(t, "version"),
			Instance: instance.Draw(t, "instance"), Reason: rapid.SampledFrom([]api.ExitReason{api.ExitCrashed, api.ExitStopped, api.ExitShutdown}).Draw(t, "reason")}}
	case 13, 14, 15, 16, 17:
		hb := heartbeat{Node: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")}
		for range rapid.IntRange(0, 3).Draw(t, "beats") {
			hb.Beats = append(hb.Beats, api.Beat{App: app.Draw(t, "app"), Index: index.Draw(t, "index"), Version: version.Draw(t, "version"),
				Instance: instance.Draw(t, "instance"),
				State:    rapid.SampledFrom([]api.CopyState{api.CopyRunning, api.CopyRunning, api.CopyStarting, api.CopyCrashed, api.CopyEvacuating, "ODD"}).Draw(t, "state")})
		}
		return hb
	case 18:
		return Nudged{Nudge{Start: &api.Start{App: app.Draw(t, "app"), Version: version.Draw(t, "version"), Indices: []int{index.Draw(t, "index")}}}}
	case 19:
		return Nudged{Nudge{Stop: &api.Stop{App: app.Draw(t, "app"), Instances: map[string]string{instance.Draw(t, "instance"): "v1"}}}}
	case 20:
		return w.drawOrder(t, app.Draw(t, "app"), index.Draw(t, "index"))
	case 22:
		return Confirmed{Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"), Waiting: []api.WaitingStart{
			{App: app.Draw(t, "app"), Version: version.Draw(t, "version"), Indices: []int{index.Draw(t, "index")}}}}
	case 21:
		return ExpectedUnreadable{rapid.SampledFrom([]string{"c", "d"}).Draw(t, "unreadable")}
	}
	return Tick{}
}

func (w *world) drawOrder(t *rapid.T, app string, index int) Event {
	switch rapid.IntRange(0, 7).Draw(t, "order") {
	case 0:
		return Follow{}
	case 1, 2:
		return Lead{Memories: w.m.Memories(), Nodes: map[message.Node]int{{Name: "n1"}: 2}}
	case 3:
		return NotSent{Nudges: slices.Clone(w.sent[max(len(w.sent)-2, 0):])}
	case 4:
		return Release{}
	case 5:
		return Retry{app, index}
	case 6:
		return Updated{app}
	}
	return LoopbackProbe{}
}

func TestInvariants(t *testing.T) {
	for _, starter := range []Starter{StarterSelf, StarterController} {
		t.Run(string(starter), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				cfg := steady()
				cfg.Starter, cfg.DisruptionFloor = starter, new(rapid.SampledFrom([]int{1, 10}).Draw(t, "floor"))
				w := newWorld(cfg)
				w.m.limits = rapid.SampledFrom([]limits{{1, 1}, {2, 1}, {perStep, perSweep}}).Draw(t, "limits")
				w.apply(t, BusUp{})
				w.apply(t, Lead{})
				w.apply(t, ExpectedComplete{})
				for range rapid.IntRange(1, 80).Draw(t, "steps") {
					w.now = w.now.Add(time.Duration(rapid.IntRange(0, 12000).Draw(t, "ms")) * time.Millisecond)
					w.applyDrawn(t)
				}
				w.end(t)
			})
		})
	}
}

// applyDrawn applies a drawn event. The world stores a heartbeat as a struct; the machine gets
// its bytes.
func (w *world) applyDrawn(t *rapid.T) {
	ev := w.draw(t)
	if hb, ok := ev.(heartbeat); ok {
		w.keep(hb)
		ev = beat(hb.Node, hb.Beats...)
	}
	w.apply(t, ev)
}

// end removes everything, and checks that no state is left.
func (w *world) end(t *rapid.T) {
	w.apply(t, BusUp{})
	w.apply(t, ExpectedLost{"end"})
	w.apply(t, ExpectedComplete{})
	w.apply(t, Release{})
	for range 6 {
		w.now = w.now.Add(time.Hour)
		w.apply(t, Tick{})
		for w.m.Busy() {
			w.apply(t, Tick{})
		}
	}
	w.m.Memories()
	m := w.m
	left := slices.DeleteFunc(slices.Clone(m.apps.list), func(a *app) bool { return a == nil })
	if n := len(left) + len(m.apps.slots) + m.known.Len() + m.wakes.wheel.Len() + len(m.memory.rowlessMemory) + len(m.memory.saved) + m.dispatch.starts.Len() + m.dispatch.stops.Len(); n > 0 || m.Busy() || m.apps.first != nil {
		t.Fatalf("left: %d apps, %d slots, %d copies, %d deadlines, %v remembered, kept %v, queued %d and %d, busy %v",
			len(left), len(m.apps.slots), m.known.Len(), m.wakes.wheel.Len(), m.memory.rowlessMemory, m.memory.saved, m.dispatch.starts.Len(), m.dispatch.stops.Len(), m.Busy())
	}
}

// TestMachineIsDeterministic: two machines with the same events return the same results.
func TestMachineIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, other := newWorld(Config{}.WithDefaults()), NewMachine(Config{}.WithDefaults())
		step := func(ev Event) {
			if hb, ok := ev.(heartbeat); ok {
				ev = beat(hb.Node, hb.Beats...)
			}
			n1, f1 := w.m.Step(w.now, ev)
			n2, f2 := other.Step(w.now, ev)
			if d := cmp.Diff([]any{n1, f1, w.m.View().Apps(), w.m.View().DisruptionLimit()}, []any{n2, f2, other.View().Apps(), other.View().DisruptionLimit()}); d != "" {
				t.Fatalf("%T: %s", ev, d)
			}
			w.sent = append(w.sent, n1...)
		}
		for _, ev := range []Event{BusUp{}, Lead{}, ExpectedComplete{}} {
			step(ev)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 12000).Draw(t, "ms")) * time.Millisecond)
			ev := w.draw(t)
			if _, ok := ev.(Lead); ok {
				other.Memories() // the draw took those of the first machine
				ev = Lead{}
			}
			step(ev)
		}
		if d := cmp.Diff(w.m.Memories(), other.Memories()); d != "" {
			t.Fatal(d)
		}
	})
}

// TestTakeoverRepeatsNothing: a new leader with the old leader's memory, rows and heartbeats
// repeats no start within its keep-alive.
func TestTakeoverRepeatsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start()
		n := rapid.IntRange(1, 30).Draw(t, "instances")
		row := api.App{Name: "web", Pool: "p", Version: "v1", Instances: n}
		boot := func(m *Machine) {
			m.Step(now, BusUp{})
			m.Step(now, ExpectedRows{[]api.App{row}})
			m.Step(now, ExpectedComplete{})
		}
		first, second := NewMachine(steady()), NewMachine(steady())
		boot(first)
		first.Step(now, Lead{})
		started := map[int]time.Time{}
		for range rapid.IntRange(12, 40).Draw(t, "seconds") {
			now = now.Add(time.Second)
			first.Step(now, beat("n1"))
			maps.Copy(started, startsOf(first, now, Tick{}))
			if rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
				first.Step(now, Exit{Exited: api.Exited{App: "web", Version: "v1", Instance: now.String(), Index: 0, Reason: api.ExitCrashed}})
			}
		}
		boot(second)
		second.Step(now, Lead{Memories: first.Memories()})
		for range 40 {
			now = now.Add(time.Second)
			second.Step(now, beat("n1"))
			for index := range startsOf(second, now, Tick{}) {
				if last, ok := started[index]; ok && now.Sub(last) < 30*time.Second {
					t.Fatalf("started %d again after %v", index, now.Sub(last))
				}
			}
		}
	})
}

func startsOf(m *Machine, now time.Time, ev Event) map[int]time.Time {
	out := map[int]time.Time{}
	nudges, _ := m.Step(now, ev)
	for _, n := range nudges {
		for _, i := range n.Start.Indices {
			out[i] = now
		}
	}
	return out
}

func TestNudgesAreBounded(t *testing.T) {
	cfg := steady()
	cfg.QueueBatchSize = 2500
	m := NewMachine(cfg)
	now := start()
	m.Step(now, BusUp{})
	m.Step(now, Lead{})
	m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 2500}}})
	m.Step(now, ExpectedComplete{})
	now = now.Add(time.Minute)
	seen := map[int]bool{}
	for step := 0; len(seen) < 2500; step++ {
		nudges, _ := m.Step(now, Tick{})
		for _, n := range nudges {
			if len(n.Start.Indices) > perNudge {
				t.Fatalf("a nudge of %d indices", len(n.Start.Indices))
			}
			for _, i := range n.Start.Indices {
				seen[i] = true
			}
		}
		if step > 10 {
			t.Fatalf("%d of 2500 indices in %d steps", len(seen), step)
		}
	}
}

func TestNotSent(t *testing.T) {
	m, now := NewMachine(steady()), start()
	m.Step(now, BusUp{})
	m.Step(now, Lead{})
	m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 2}}})
	m.Step(now, ExpectedComplete{})
	now = now.Add(12 * time.Second)
	nudges, _ := m.Step(now, Tick{})
	if len(nudges) != 1 {
		t.Fatalf("nudged %v", nudges)
	}
	again, _ := m.Step(now, NotSent{Nudges: nudges})
	if !cmp.Equal(again, nudges) {
		t.Errorf("after NotSent nudged %+v, want %+v", again, nudges)
	}
	if mem := m.Memories(); len(mem) != 1 || len(mem[0].Indices) != 2 || !mem[0].Indices[0].Pending.Equal(now.Add(30*time.Second)) {
		t.Errorf("Memories = %+v", mem)
	}
	if mem := m.Memories(); mem != nil {
		t.Errorf("Memories returned twice: %+v", mem)
	}
	m.Step(now, ExpectedGone{"web"})
	if mem := m.Memories(); len(mem) != 1 || mem[0].App != "web" || len(mem[0].Indices) != 0 {
		t.Errorf("Memories of an app that is gone = %+v", mem)
	}
}

// TestConfirm: the keep-alive of a nudge counts from when it is sent. A waiting nudge that is
// decided again is not sent.
func TestConfirm(t *testing.T) {
	for _, tt := range []struct {
		name      string
		instances int // of one copy that runs, or should run
	}{{"start", 1}, {"stop", 0}} {
		t.Run(tt.name, func(t *testing.T) {
			m, now := NewMachine(steady()), start()
			m.Step(now, BusUp{})
			m.Step(now, Lead{})
			m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: tt.instances}}})
			m.Step(now, ExpectedComplete{})
			after := func(d time.Duration) []Nudge {
				now = now.Add(d)
				if tt.instances == 0 {
					m.Step(now, beat("n1", api.Beat{App: "web", Version: "v1", Instance: "i0", State: api.CopyRunning}))
				}
				nudges, _ := m.Step(now, Tick{})
				return nudges
			}
			first, second := after(12*time.Second), after(31*time.Second)
			if len(first) != 1 || len(second) != 1 {
				t.Fatalf("nudged %v, then %v, want one each", first, second)
			}
			if !m.Confirm(now, first[0]) || m.Confirm(now, second[0]) {
				t.Error("want the first one confirmed, and no repeat of it")
			}
			if early, _ := m.Step(now, NotSent{Nudges: second}); len(early) > 0 {
				t.Errorf("nudged again at once: %v", early)
			}
			if early, due := after(29*time.Second), after(2*time.Second); len(early) != 0 || len(due) != 1 {
				t.Errorf("nudged %v within the keep-alive, %v after it", early, due)
			} else if !m.Confirm(now, due[0]) {
				t.Error("not confirmed after the keep-alive")
			} else if again, _ := m.Step(now, NotSent{Nudges: due, Confirmed: true}); len(again) != 1 {
				t.Errorf("confirmed and not sent, then nudged %v, want it again", again)
			}
		})
	}
}

// TestNotSentKeepsItsPlace: a nudge that could not be sent goes before the other queued nudges
// of its app.
func TestNotSentKeepsItsPlace(t *testing.T) {
	for _, tt := range []struct {
		name      string
		instances int // of 6 copies that run, or should run
		running   bool
		want      []string
	}{
		{"starts", 6, false, []string{"START web [0 1]", "START web [0 1]", "START web [2 3]"}},
		{"stops", 0, true, []string{"STOP web [i0 i1]", "STOP web [i0 i1]", "STOP web [i2 i3]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := steady()
			cfg.QueueBatchSize = 2
			m, now := NewMachine(cfg), start()
			m.Step(now, BusUp{})
			m.Step(now, Lead{})
			m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: tt.instances}}})
			m.Step(now, ExpectedComplete{})
			now = now.Add(12 * time.Second)
			if tt.running {
				var beats []api.Beat
				for i := range 6 {
					beats = append(beats, api.Beat{App: "web", Version: "v1", Instance: fmt.Sprint("i", i), Index: i, State: api.CopyRunning})
				}
				m.Step(now, beat("n1", beats...))
			}
			var got []string
			nudges, _ := m.Step(now, Tick{})
			for i := range 3 {
				for _, n := range nudges {
					got = append(got, inShort(n))
				}
				if i == 0 {
					m.Step(now, NotSent{Nudges: nudges})
				}
				now = now.Add(time.Second)
				nudges, _ = m.Step(now, Tick{})
			}
			if !cmp.Equal(got, tt.want) {
				t.Errorf("nudged %q, want %q", got, tt.want)
			}
		})
	}
}

func inShort(n Nudge) string {
	if n.Start != nil {
		return fmt.Sprint("START ", n.Start.App, " ", n.Start.Indices)
	}
	return fmt.Sprint("STOP ", n.Stop.App, " ", slices.Sorted(maps.Keys(n.Stop.Instances)))
}

// TestStopMemory: remembered stops are bounded, and removed with their copies.
func TestStopMemory(t *testing.T) {
	const n = MaxStops + 500
	cfg := steady()
	cfg.QueueBatchSize = 2 * n
	m, now := NewMachine(cfg), start()
	m.Step(now, BusUp{})
	m.Step(now, Lead{})
	m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1"}}})
	m.Step(now, ExpectedComplete{})
	var beats []api.Beat
	for i := range n {
		beats = append(beats, api.Beat{App: "web", Version: "v1", Instance: fmt.Sprint("i", i), Index: i, State: api.CopyRunning})
	}
	now = now.Add(12 * time.Second)
	m.Step(now, beat("n1", beats...))
	settle := func() {
		for m.Step(now, Tick{}); m.Busy(); m.Step(now, Tick{}) {
		}
		for range 2 * n / perStep {
			m.Step(now, Tick{})
		}
	}
	settle()
	mem := m.Memories()
	if len(mem) != 1 || len(mem[0].Stops) != MaxStops || mem[0].Empty() {
		t.Fatalf("%d memories, the first with %d stops, want one with %d", len(mem), len(mem[0].Stops), MaxStops)
	}
	if s := mem[0].Stops[0]; s.Instance != "i0" || s.Index != 0 || !s.Pending.Equal(now.Add(30*time.Second)) {
		t.Errorf("the first stop is %+v", s)
	}
	m.Step(now, beat("n1"))
	now = now.Add(31 * time.Second) // they are lost
	m.Step(now, beat("n1"))
	settle()
	if mem := m.Memories(); len(mem) != 1 || !mem[0].Empty() {
		t.Errorf("when they are gone, Memories = %+v", mem)
	}
}

func TestRestartDelay(t *testing.T) {
	c := Config{}.WithDefaults()
	for over, want := range map[int]time.Duration{1: 60, 2: 120, 3: 240, 4: 480, 5: 480, 1000: 480} {
		if got := c.restartDelay(over); got != want*time.Second {
			t.Errorf("restartDelay(%d) = %v, want %ds", over, got, want)
		}
	}
	least, most := time.Duration(0), time.Duration(0)
	for i := range 1000 {
		n := noise(5*time.Second, "web", i, 2)
		least, most = min(least, n), max(most, n)
	}
	if least < -5*time.Second || most > 5*time.Second || least > -4*time.Second || most < 4*time.Second {
		t.Errorf("noise from %v to %v, want -5 s to 5 s", least, most)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := (Config{}).WithDefaults().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for name, c := range map[string]Config{
		"negative":                   {NudgeKeepAlive: -1},
		"lost before the period":     {DropletLost: 5 * time.Second},
		"delays crossed":             {MinRestartDelay: time.Hour},
		"negative death":             {FlappingDeath: new(-1)},
		"negative grace":             {ResetGrace: new(-time.Second)},
		"noise above the delay":      {DelayTimeNoise: new(time.Hour)},
		"no batch":                   {QueueBatchSize: -1},
		"no rate":                    {RequestQueue: -1},
		"disruption limit above all": {DisruptionLimit: 1.5},
		"floor":                      {DisruptionFloor: new(-1)},
		"starter":                    {Starter: "nobody"},
	} {
		if c.WithDefaults().Validate() == nil {
			t.Errorf("%s: Validate took %+v", name, c)
		}
	}
}

func TestTotals(t *testing.T) {
	m, now := NewMachine(steady()), start()
	m.Step(now, ExpectedRows{[]api.App{
		{Name: "a", Pool: "p", Version: "v1", Instances: 2, Mem: 10, Labels: map[string]string{"runtime": "go"}},
		{Name: "b", Pool: "q", Version: "v1", Instances: 3, Mem: 10, State: api.AppStopped},
	}})
	m.Step(now, beat("n1", api.Beat{App: "a", Version: "v1", Instance: "i", State: api.CopyRunning}))
	want := api.PoolTotals{Apps: 1, StartedApps: 1, Instances: 2, StartedInstances: 2, Running: 1, Missing: 1, Memory: 20, StartedMemory: 20}
	pools, all := m.View().Totals()
	if pools["p"] != want || m.View().Sums("runtime")["go"] != want {
		t.Errorf("p is %+v, go %+v, want %+v", pools["p"], m.View().Sums("runtime")["go"], want)
	}
	if want := (api.PoolTotals{Apps: 2, StartedApps: 1, Instances: 5, StartedInstances: 2, Running: 1, Missing: 1, Memory: 50, StartedMemory: 20}); all != want {
		t.Errorf("all is %+v, want %+v", all, want)
	}
	if got := slices.Collect(maps.Keys(m.View().Nodes())); len(got) != 1 || got[0] != (message.Node{Name: "n1"}) {
		t.Errorf("Nodes = %v", got)
	}
}

func TestRevisions(t *testing.T) {
	m, now := NewMachine(steady()), start()
	row := api.App{Name: "a", Pool: "p", Version: "v1", Instances: 1}
	m.Step(now, ExpectedRows{[]api.App{row, {Name: "b", Pool: "q", Version: "v1"}}})
	if got := m.View().Pools(); !slices.Equal(got, []string{"p", "q"}) {
		t.Errorf("Pools = %v", got)
	}
	p, q := m.View().Revision("p"), m.View().Revision("q")
	hb := beat("n1", api.Beat{App: "a", Version: "v1", Instance: "i", State: api.CopyRunning})
	m.Step(now, hb)
	if m.View().Revision("p") == p || m.View().Revision("q") != q {
		t.Errorf("a change of p: revisions %d, %d became %d, %d", p, q, m.View().Revision("p"), m.View().Revision("q"))
	}
	p = m.View().Revision("p")
	m.Step(now, hb)
	m.Step(now, ExpectedRows{[]api.App{row}})
	if m.View().Revision("p") != p {
		t.Error("what changes nothing changed the revision")
	}
	row.Mem = 5
	m.Step(now, ExpectedRows{[]api.App{row}})
	if m.View().Revision("p") == p {
		t.Error("another footprint did not change the revision")
	}
}

// A halted update counts in the sums until the row has another version.
func TestHaltedUpdatesAreCounted(t *testing.T) {
	m, now := NewMachine(steady()), start()
	row := api.App{Name: "a", Pool: "p", Version: "v2", Instances: 2, Command: "run"}
	m.Step(now, ExpectedRows{[]api.App{row}})
	m.apps.setHalted(m.apps.lookup("a"), &api.HaltedUpdate{Version: "v2", Serves: "v1"})
	for _, halted := range []int{1, 0} {
		pools, all := m.View().Totals()
		if pools["p"].Halted != halted || all.Halted != halted {
			t.Errorf("%d halted updates in the pool, %d in all; want %d", pools["p"].Halted, all.Halted, halted)
		}
		row.Version = "v3"
		m.Step(now, ExpectedRows{[]api.App{row}})
	}
}
