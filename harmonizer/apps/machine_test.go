package apps

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// world is what a test told the machine, kept the naive way.
type world struct {
	m        *Machine
	now      time.Time
	rows     map[string]message.App
	next     map[string]message.App // rows told since the source was lost
	complete bool
	up       bool
	upSince  time.Time
	started  map[string]time.Time // "app/index" -> the newest start that nothing answered
}

func newWorld() *world {
	return &world{
		m: NewMachine(Config{}.WithDefaults()), now: start(),
		rows: map[string]message.App{}, next: map[string]message.App{}, started: map[string]time.Time{},
	}
}

func key(app string, index int) string { return fmt.Sprintf("%s/%d", app, index) }

// tell keeps the event, has the machine step, and checks what must always hold.
func (w *world) tell(t *rapid.T, ev Event) {
	w.keep(ev)
	nudges, _ := w.m.Step(w.now, ev)
	for _, n := range nudges {
		if !w.complete || !w.up || w.now.Sub(w.upSince) < w.m.cfg.HeartbeatPeriod {
			t.Fatalf("%T: nudged %+v while a state is incomplete", ev, n)
		}
		if n.Start != nil {
			w.checkStart(t, *n.Start)
		} else {
			w.checkStop(t, *n.Stop)
		}
	}
	w.checkCounts(t)
}

func (w *world) keep(ev Event) {
	switch ev := ev.(type) {
	case ExpectedApp:
		old, ok := w.rows[ev.Name]
		for i := range 10 {
			if !ok || old.Version != ev.Version || i >= ev.Instances {
				delete(w.started, key(ev.Name, i))
			}
		}
		w.rows[ev.Name], w.next[ev.Name] = ev.App, ev.App
	case ExpectedGone:
		w.gone(ev.Name)
		delete(w.next, ev.Name)
	case ExpectedLost:
		w.complete, w.next = false, map[string]message.App{}
	case ExpectedComplete:
		for name := range w.rows {
			if _, ok := w.next[name]; !ok {
				w.gone(name)
			}
		}
		w.complete = true
	case BusUp:
		w.up, w.upSince = true, w.now
	case BusDown:
		w.up = false
	case Heartbeat:
		for _, b := range ev.Beats {
			delete(w.started, key(b.App, b.Index))
		}
	case Exit:
		delete(w.started, key(ev.App, ev.Index))
	}
}

func (w *world) gone(name string) {
	delete(w.rows, name)
	for i := range 10 {
		delete(w.started, key(name, i))
	}
}

func (w *world) checkStart(t *rapid.T, s message.Start) {
	row, ok := w.rows[s.App]
	e, _ := w.m.Explain(s.App)
	for _, i := range s.Indices {
		k := key(s.App, i)
		if !ok || i >= row.Instances || s.Version != row.Version {
			t.Fatalf("started %s of %s, want %+v", k, s.Version, row)
		}
		if last, ok := w.started[k]; ok && w.now.Sub(last) < w.m.cfg.NudgeKeepAlive {
			t.Fatalf("started %s again after %v", k, w.now.Sub(last))
		}
		w.started[k] = w.now
		for _, st := range e.Indices {
			for _, in := range st.Instances {
				if st.Index == i && in.Version == s.Version && in.State != message.Crashed {
					t.Fatalf("started %s beside %+v", k, in)
				}
			}
		}
	}
}

func (w *world) checkStop(t *rapid.T, s message.Stop) {
	row, ok := w.rows[s.App]
	for id, version := range s.Instances {
		in := w.m.instances[id]
		if in == nil || in.version != version {
			t.Fatalf("stopped %s of %s, which is not there", id, version)
		}
		if ok && in.slot.index < row.Instances && (version == row.Version || !in.slot.serves()) {
			t.Fatalf("stopped %s, which serves %s", id, key(s.App, in.slot.index))
		}
	}
}

// checkCounts compares the counts, kept as things change, with a count of all.
func (w *world) checkCounts(t *rapid.T) {
	for _, a := range w.m.apps {
		var tally [categories]int
		extra := 0
		for _, s := range a.slots {
			v := s.verdict(w.m.cfg)
			tally[v.category]++
			extra += len(v.extras)
		}
		tally[undesired] = a.tally[undesired] // not kept
		if a.tally != tally || a.extra != extra {
			t.Fatalf("%s counts %v and %d extra, want %v and %d", a.name, a.tally, a.extra, tally, extra)
		}
		c := a.counts()
		if c.Running+c.Missing+c.Crashed+c.Flapping != c.Expected {
			t.Fatalf("%s counts %+v: the parts are not the whole", a.name, c)
		}
		if len(a.slots) == 0 && a.row != rowPresent && a.row != rowUnreadable {
			t.Fatalf("%s is kept for nothing", a.name)
		}
	}
}

func (w *world) draw(t *rapid.T) Event {
	app := rapid.SampledFrom([]string{"a", "b"})
	index := rapid.IntRange(0, 4)
	version := rapid.SampledFrom([]string{"v1", "v2"})
	instance := rapid.SampledFrom([]string{"i", "j", "k", "l", "m"})
	switch rapid.IntRange(0, 20).Draw(t, "event") {
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
	case 8, 9:
		return ExpectedApp{message.App{Name: app.Draw(t, "app"), Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"),
			Version: version.Draw(t, "version"), Instances: rapid.IntRange(0, 4).Draw(t, "instances")}}
	case 10, 11:
		return Exit{message.Exited{App: app.Draw(t, "app"), Index: index.Draw(t, "index"), Version: version.Draw(t, "version"),
			Instance: instance.Draw(t, "instance"), Reason: rapid.SampledFrom([]message.Reason{message.ReasonCrashed, message.ReasonStopped}).Draw(t, "reason")}}
	case 12, 13, 14, 15:
		hb := message.Heartbeat{Node: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")}
		for range rapid.IntRange(0, 3).Draw(t, "beats") {
			hb.Beats = append(hb.Beats, message.Beat{App: app.Draw(t, "app"), Index: index.Draw(t, "index"), Version: version.Draw(t, "version"),
				Instance: instance.Draw(t, "instance"),
				State:    rapid.SampledFrom([]message.State{message.Running, message.Running, message.Starting, message.Crashed, message.Evacuating, "ODD"}).Draw(t, "state")})
		}
		return Heartbeat{hb}
	}
	return Tick{}
}

func TestWhatAlwaysHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.tell(t, BusUp{})
		w.tell(t, ExpectedComplete{})
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 12000).Draw(t, "ms")) * time.Millisecond)
			w.tell(t, w.draw(t))
		}
		w.end(t)
	})
}

// end has everything go, and checks that nothing is kept.
func (w *world) end(t *rapid.T) {
	w.tell(t, BusUp{})
	w.tell(t, ExpectedLost{"end"})
	w.tell(t, ExpectedComplete{})
	for range 3 {
		w.now = w.now.Add(time.Hour)
		w.tell(t, Tick{})
	}
	if m := w.m; len(m.apps)+len(m.nodes)+len(m.instances)+len(m.deadlines) > 0 {
		t.Fatalf("left: %d apps, %d nodes, %d instances, %d deadlines", len(m.apps), len(m.nodes), len(m.instances), len(m.deadlines))
	}
}

func TestNudgesAreBounded(t *testing.T) {
	m := NewMachine(Config{}.WithDefaults())
	now := start()
	m.Step(now, BusUp{})
	m.Step(now, ExpectedApp{message.App{Name: "web", Pool: "p", Version: "v1", Instances: 2500}})
	m.Step(now, ExpectedComplete{})
	nudges, _ := m.Step(now.Add(time.Minute), Tick{})
	var sizes []int
	for _, n := range nudges {
		sizes = append(sizes, len(n.Start.Indices))
	}
	if fmt.Sprint(sizes) != "[1000 1000 500]" {
		t.Errorf("nudges of %v indices, want 1000, 1000, 500", sizes)
	}
}

func TestRestartDelay(t *testing.T) {
	c := Config{}.WithDefaults()
	for over, want := range map[int]time.Duration{1: 60, 2: 120, 3: 240, 4: 480, 5: 480, 1000: 480} {
		if got := c.restartDelay(over); got != want*time.Second {
			t.Errorf("restartDelay(%d) = %v, want %ds", over, got, want)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	if err := (Config{}).WithDefaults().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for name, c := range map[string]Config{
		"negative":               {NudgeKeepAlive: -1},
		"lost before the period": {DropletLost: 5 * time.Second},
		"delays crossed":         {MinRestartDelay: time.Hour},
		"negative death":         {FlappingDeath: -1},
	} {
		if c.WithDefaults().Validate() == nil {
			t.Errorf("%s: Validate took %+v", name, c)
		}
	}
}

func TestExplain(t *testing.T) {
	m := NewMachine(Config{}.WithDefaults())
	now := start()
	m.Step(now, BusUp{})
	m.Step(now, ExpectedApp{message.App{Name: "web", Pool: "p", Version: "v1", Instances: 2}})
	m.Step(now, ExpectedComplete{})
	m.Step(now, Heartbeat{message.Heartbeat{Node: "n1", Beats: []message.Beat{
		{App: "web", Version: "v1", Instance: "i", State: message.Running, Since: 5}}}})
	now = now.Add(12 * time.Second)
	m.Step(now, Tick{})
	e, ok := m.Explain("web")
	if !ok || len(e.Indices) != 2 || e.Count.Running != 1 {
		t.Fatalf("Explain = %+v, %v", e, ok)
	}
	if in := e.Indices[0].Instances; len(in) != 1 || in[0].Node != "n1" || in[0].State != message.Running {
		t.Errorf("index 0 = %+v", e.Indices[0])
	}
	if i := e.Indices[1]; i.Last == nil || i.Last.Kind != KindStart || i.Last.Why != WhyNew ||
		!i.Missing.Equal(now) || !i.NotBefore.Equal(now.Add(30*time.Second)) {
		t.Errorf("index 1 = %+v", i)
	}
	if _, ok := m.Explain("api"); ok {
		t.Error("Explain knows an app that nobody told")
	}
	if apps := m.Apps(); len(apps) != 1 || apps[0].Name != "web" {
		t.Errorf("Apps = %+v", apps)
	}
}

// full returns a machine with n running instances, 100 a node, one an app.
func full(tb testing.TB, n int) (*Machine, []Heartbeat, time.Time) {
	tb.Helper()
	m, now := NewMachine(Config{}.WithDefaults()), start()
	m.Step(now, BusUp{})
	var beats []Heartbeat
	for i := range n {
		name := fmt.Sprintf("app%d", i)
		m.Step(now, ExpectedApp{message.App{Name: name, Pool: "p", Version: "v1", Instances: 1}})
		if i%100 == 0 {
			beats = append(beats, Heartbeat{message.Heartbeat{Node: fmt.Sprintf("node%d", i/100)}})
		}
		hb := &beats[len(beats)-1]
		hb.Beats = append(hb.Beats, message.Beat{App: name, Version: "v1", Instance: "i" + name, State: message.Running})
	}
	m.Step(now, ExpectedComplete{})
	for _, hb := range beats {
		m.Step(now, hb)
	}
	now = now.Add(12 * time.Second)
	m.Step(now, Tick{})
	return m, beats, now
}

func BenchmarkHeartbeat100(b *testing.B) {
	m, beats, now := full(b, 100_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		m.Step(now, beats[i%len(beats)])
		i++
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "instances/s")
}

func BenchmarkTickNothingDue(b *testing.B) {
	m, _, now := full(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		m.Step(now, Tick{})
	}
}
