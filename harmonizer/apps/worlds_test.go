package apps

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// FuzzWorlds runs random worlds. Nodes crash, fall silent, drain and omit copies. Apps are
// scaled, changed, stopped and deleted. There are duplicates, failures of bus and source, lost
// and failed nudges, and takeovers. stopModel checks each stop against the latest messages,
// without code of the Machine. In every fourth world a stop must not list as many copies as
// its app has instances, because the controller would stop the whole app. In every second world
// one app is work that ends: nothing is started where an exit with 0 was received.
func FuzzWorlds(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { newFleet(t, seed).run(300) })
}

// TestWorldsStopCopies checks that the worlds of FuzzWorlds have stops to check, stops of
// copies that rule last_copy protects, and stops after its patience.
func TestWorldsStopCopies(t *testing.T) {
	stops, protected, patient, ended := 0, 0, 0, 0
	for seed := range uint64(40) {
		w := newFleet(t, 1000+seed)
		w.run(1500)
		stops, protected, patient = stops+w.model.stops, protected+w.model.protected, patient+w.model.patient
		ended += w.model.ended
	}
	t.Logf("%d stops, %d of protected copies, %d of these after their patience; %d works that ended", stops, protected, patient, ended)
	if ended < 100 || stops < 500 || protected < 200 || patient < 1 {
		t.Errorf("%d stops, %d of protected copies, %d after their patience, %d works: too few to prove anything", stops, protected, patient, ended)
	}
}

// listing is a copy in the latest heartbeat of its node.
type listing struct {
	api.Beat
	node string
	at   time.Time // of the heartbeat
}

// stopModel decides when a copy may be stopped, from messages alone.
type stopModel struct {
	rows        map[string]api.App
	listed      map[string]listing // by copy
	last        map[string]listing // each copy that is not lost yet, as last listed
	absent      map[string]time.Time
	beats       map[string]time.Time
	connectedAt time.Time
	until       map[string]time.Time // a stop of the copy is under way until then
	sent        map[string]time.Time // the same for a confirmed stop

	waits   map[string]time.Time    // since then an index is without a copy, and the copy should not run
	crashes map[crashSite]time.Time // until then a copy there may not keep running

	done map[crashSite]bool // work that ended with exit code 0

	stops, protected, patient, ended int
}

// crashSite is the place and version of a crash.
type crashSite struct {
	app, version string
	index        int
}

// found records a crash that the harmonizer counted.
func (o *stopModel) found(now time.Time, f api.AppFinding) {
	switch at := (crashSite{f.App, f.Version, f.Index}); f.Kind {
	case api.AppFindingCrashed:
		o.crashes[at] = now.Add(30 * time.Second)
	case api.AppFindingFlapping, api.AppFindingGaveUp:
		o.crashes[at] = now.Add(500 * time.Second)
	}
}

func (o *stopModel) heartbeat(now time.Time, hb api.Heartbeat) {
	o.beats[hb.Node] = now
	maps.DeleteFunc(o.listed, func(_ string, l listing) bool { return l.node == hb.Node })
	for _, b := range hb.Beats {
		l := listing{b, hb.Node, now}
		o.listed[b.Instance], o.last[b.Instance] = l, l
		delete(o.absent, b.Instance)
	}
	for id, l := range o.last {
		if _, is := o.absent[id]; l.node == hb.Node && l.at.Before(now) && !is {
			o.absent[id] = now
		}
	}
}

// exit removes a copy.
func (o *stopModel) exit(id string) {
	delete(o.listed, id)
	delete(o.last, id)
	delete(o.absent, id)
}

// tick removes the copies of nodes that are silent for too long.
func (o *stopModel) tick(now time.Time) {
	over := func(at time.Time) bool {
		if at.Before(o.connectedAt) {
			at = o.connectedAt
		}
		return now.Sub(at) > 30*time.Second
	}
	for id, at := range o.absent {
		if over(at) {
			o.exit(id)
		}
	}
	for node, at := range o.beats {
		if !over(at) {
			continue
		}
		delete(o.beats, node)
		for id, l := range o.last {
			if l.node == node {
				o.exit(id)
			}
		}
	}
}

// wants returns how many instances of an app should run.
func (o *stopModel) wants(app string) int {
	if row := o.rows[app]; row.State != api.AppStopped {
		return row.Instances
	}
	return 0
}

// without returns how many desired indices of an app have no listed copy.
func (o *stopModel) without(app string) int {
	with := map[int]bool{}
	for _, l := range o.listed {
		if l.App == app && l.Index < o.wants(app) && l.State != api.CopyCrashed {
			with[l.Index] = true
		}
	}
	return o.wants(app) - len(with)
}

// sure reports whether a copy is RUNNING, recently listed, without a stop under way, and on an
// index without a recent crash of the live version.
func (o *stopModel) sure(now time.Time, l listing) bool {
	if now.Before(o.crashes[crashSite{l.App, o.rows[l.App].Version, l.Index}]) {
		return false
	}
	return l.State == api.CopyRunning && !l.at.Before(o.connectedAt) && now.Sub(l.at) <= 15*time.Second && !o.until[l.Instance].After(now)
}

// watch records since when each extra copy waits for another index.
func (o *stopModel) watch(now time.Time) {
	for id := range o.waits {
		if _, ok := o.last[id]; !ok {
			delete(o.waits, id)
		}
	}
	for id, l := range o.last {
		if o.without(l.App) == 0 || l.Index < o.wants(l.App) && l.Version == o.rows[l.App].Version && l.State == api.CopyRunning && o.alone(l) {
			delete(o.waits, id)
		} else if _, ok := o.waits[id]; !ok {
			o.waits[id] = now
		}
	}
}

// alone reports whether a copy is the only one of its version on its index.
func (o *stopModel) alone(l listing) bool {
	for id, other := range o.listed {
		if id != l.Instance && other.App == l.App && other.Index == l.Index && other.Version == l.Version {
			return false
		}
	}
	return true
}

// rejects returns why a copy may not be stopped, "" if it may.
func (o *stopModel) rejects(now time.Time, id string) string {
	c, known := o.last[id]
	want := o.wants(c.App)
	if !known || want == 0 || o.rows[c.App].OneShot || c.State != api.CopyRunning && c.State != api.CopyEvacuating {
		return ""
	}
	o.protected++
	keepers, beyond := 0, 0
	for other, l := range o.listed {
		if other == id || l.App != c.App || !o.sure(now, l) {
			continue
		}
		switch {
		case c.Index >= want && l.Index < want, l.Index == c.Index && c.Index < want && l.Version == o.rows[c.App].Version:
			keepers++
		case l.Index >= want:
			beyond++
		}
	}
	without := o.without(c.App)
	switch since, waited := o.waits[id]; {
	case keepers == 0:
		return "no other copy is sure to run"
	case without == 0:
		return ""
	case !waited || now.Sub(since) < 300*time.Second:
		return fmt.Sprintf("%d indices are without a copy, since %v", without, since)
	case c.Index >= want && beyond < without:
		return fmt.Sprintf("%d indices are without a copy, and %d other copies stand in", without, beyond)
	}
	o.patient++
	return ""
}

// fleet is one random world.
type fleet struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	now   time.Time
	m     *Machine
	cfg   Config
	model *stopModel

	hosts    []*host
	memories map[string]Memory
	outbox   []outgoing
	later    []later
	ids      int
	full     map[string]time.Time // no node has room for the index until then
	calm     time.Time            // few accidents until then
	up       bool                 // the bus
	upAt     time.Time
	whole    bool // the source
}

type host struct {
	name   string
	copies map[string]*api.Beat
	mute   map[string]int // copies -> number of next heartbeats that omit them
	next   time.Time
	silent time.Time // until then
}

type outgoing struct {
	Nudge
	at time.Time
}

type later struct {
	at time.Time
	do func()
}

func newFleet(t *testing.T, seed uint64) *fleet {
	w := &fleet{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), now: start(),
		cfg: Config{DisruptionLimit: 1, StopsWholeApps: seed%4 == 3}.WithDefaults(), memories: map[string]Memory{}, full: map[string]time.Time{},
		model: &stopModel{
			rows: map[string]api.App{}, listed: map[string]listing{}, last: map[string]listing{},
			absent: map[string]time.Time{}, beats: map[string]time.Time{},
			until: map[string]time.Time{}, sent: map[string]time.Time{}, waits: map[string]time.Time{}, crashes: map[crashSite]time.Time{}, done: map[crashSite]bool{},
		},
	}
	for i := range 4 {
		w.hosts = append(w.hosts, &host{name: fmt.Sprintf("n%d", i), copies: map[string]*api.Beat{}, mute: map[string]int{}})
	}
	w.m = NewMachine(w.cfg)
	w.step(Lead{})
	w.bus(true)
	w.row(api.App{Name: "web", Version: "v1", Instances: 2 + w.rng.IntN(3)})
	w.row(api.App{Name: "api", Version: "v1", Instances: 1 + w.rng.IntN(2)})
	if seed%2 == 1 {
		w.row(api.App{Name: "job", Version: "v1", Instances: 1 + w.rng.IntN(4), OneShot: true})
	}
	w.source(true)
	return w
}

func (w *fleet) chance(p float64) bool { return w.rng.Float64() < p }

// run advances the world by that many seconds.
func (w *fleet) run(seconds int) {
	for range seconds {
		w.now = w.now.Add(time.Second)
		w.model.watch(w.now)
		w.accident()
		due := w.later
		w.later = nil
		for _, l := range due {
			if l.at.After(w.now) {
				w.later = append(w.later, l)
			} else {
				l.do()
			}
		}
		for _, h := range w.hosts {
			if !h.next.After(w.now) {
				w.beat(h)
			}
		}
		w.publish()
		if w.up {
			w.model.tick(w.now)
		}
		w.step(Tick{})
	}
}

func (w *fleet) after(most int, do func()) {
	w.later = append(w.later, later{w.now.Add(time.Duration(w.rng.IntN(most+1)) * time.Second), do})
}

// step passes an event to the machine, and checks each nudge.
func (w *fleet) step(ev Event) {
	nudges, findings := w.m.Step(w.now, ev)
	for _, f := range findings {
		w.model.found(w.now, f)
	}
	w.model.watch(w.now)
	for _, mem := range w.m.Memories() {
		w.memories[mem.App] = mem
	}
	for _, n := range nudges {
		if !w.up || w.now.Sub(w.upAt) < w.cfg.HeartbeatPeriod {
			w.t.Fatalf("seed %d, %v: nudged %+v while the known state is incomplete", w.seed, w.now.Sub(start()), n)
		}
		if n.Start != nil {
			for _, index := range n.Start.Indices {
				if w.model.done[crashSite{n.Start.App, n.Start.Version, index}] {
					w.t.Fatalf("seed %d, %v: start of %s/%d, which is done", w.seed, w.now.Sub(start()), n.Start.App, index)
				}
			}
		}
		if n.Stop != nil {
			w.check(n.Stop, "sends")
			for id := range n.Stop.Instances {
				w.model.until[id] = w.now.Add(w.cfg.NudgeKeepAlive)
			}
		}
		wait := 0
		if w.chance(0.2) {
			wait = w.rng.IntN(20)
		}
		w.outbox = append(w.outbox, outgoing{n, w.now.Add(time.Duration(wait) * time.Second)})
	}
}

func (w *fleet) check(stop *api.Stop, does string) {
	if !w.whole {
		w.t.Fatalf("seed %d, %v: %s the stop of %v without a complete source", w.seed, w.now.Sub(start()), does, stop.Instances)
	}
	if want := w.model.wants(stop.App); w.cfg.StopsWholeApps && want > 0 && len(stop.Instances) >= want {
		w.t.Fatalf("seed %d, %v: %s a stop of %v, of an app of %d", w.seed, w.now.Sub(start()), does, stop.Instances, want)
	}
	for _, id := range slices.Sorted(maps.Keys(stop.Instances)) {
		w.model.stops++
		if why := w.model.rejects(w.now, id); why != "" {
			w.t.Fatalf("seed %d, %v: %s the stop of %s (%+v): %s", w.seed, w.now.Sub(start()), does, id, w.model.last[id].Beat, why)
		}
	}
}

// publish sends what waits: the machine confirms it, and it may be lost.
func (w *fleet) publish() {
	waiting := w.outbox
	w.outbox = nil
	for _, o := range waiting {
		switch {
		case o.at.After(w.now):
			w.outbox = append(w.outbox, o)
		case !w.m.Confirm(w.now, o.Nudge):
			w.unsent(o.Nudge, false)
		default:
			w.confirmed(o.Nudge)
		}
	}
}

func (w *fleet) confirmed(n Nudge) {
	if n.Stop != nil {
		w.check(n.Stop, "confirms")
		for id := range n.Stop.Instances {
			w.model.sent[id] = w.now.Add(w.cfg.NudgeKeepAlive)
			w.model.until[id] = w.model.sent[id]
		}
	}
	switch {
	case w.chance(0.05):
		if n.Stop != nil {
			for id := range n.Stop.Instances {
				delete(w.model.sent, id)
			}
		}
		w.unsent(n, true)
	case w.chance(0.1): // lost on its way
	case n.Start != nil:
		for _, index := range n.Start.Indices {
			if w.full[key(n.Start.App, index)].Before(w.now) {
				w.after(3, func() { w.spawn(n.Start.App, index, n.Start.Version) })
			}
		}
	default:
		for _, id := range slices.Sorted(maps.Keys(n.Stop.Instances)) {
			w.after(2, func() { w.end(id, api.ExitStopped) })
		}
	}
}

func (w *fleet) unsent(n Nudge, confirmed bool) {
	if n.Stop != nil {
		for id := range n.Stop.Instances {
			w.model.until[id] = w.model.sent[id]
		}
	}
	w.step(NotSent{Nudges: []Nudge{n}, Confirmed: confirmed})
}

// spawn starts a copy on a node.
func (w *fleet) spawn(app string, index int, version string) {
	w.ids++
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	b := &api.Beat{App: app, Index: index, Version: version, Instance: fmt.Sprintf("i%d", w.ids), State: api.CopyStarting, Since: float64(w.ids)}
	h.copies[b.Instance] = b
	w.after(8, func() { b.State = api.CopyRunning })
	if w.model.rows[app].OneShot && w.chance(0.7) {
		w.after(60, func() { w.finish(b) })
	}
	if w.chance(0.15) {
		w.after(60, func() { w.crash(h, b) })
	}
}

func (w *fleet) crash(h *host, b *api.Beat) {
	if w.chance(0.5) {
		b.State = api.CopyCrashed
		w.after(40, func() { delete(h.copies, b.Instance) })
		return
	}
	w.end(b.Instance, api.ExitCrashed)
}

// finish ends a copy with exit code 0. Its node repeats the message.
func (w *fleet) finish(b *api.Beat) {
	row := w.model.rows[b.App]
	e := api.Exited{App: b.App, Index: b.Index, Version: b.Version, Instance: b.Instance, Reason: api.ExitCrashed, Status: new(0), CrashedAt: w.now.Unix()}
	for _, h := range w.hosts {
		if h.copies[b.Instance] == nil {
			continue
		}
		delete(h.copies, b.Instance)
		for range 2 {
			if w.up && !h.silent.After(w.now) && w.chance(0.8) {
				if w.model.exit(b.Instance); row.OneShot && row.Version == b.Version && b.Index < w.model.wants(b.App) {
					w.model.done[crashSite{b.App, b.Version, b.Index}] = true
					w.model.ended++
				}
				w.step(Exit{Exited: e})
			}
			e.Repeated = true
		}
	}
}

// end ends a copy. Its node may be unable to report it.
func (w *fleet) end(id string, reason api.ExitReason) {
	for _, h := range w.hosts {
		b := h.copies[id]
		if b == nil {
			continue
		}
		delete(h.copies, id)
		if w.up && !h.silent.After(w.now) && w.chance(0.9) {
			w.model.exit(id)
			w.step(Exit{Exited: api.Exited{App: b.App, Index: b.Index, Version: b.Version, Instance: id, Reason: reason}})
		}
	}
}

func (w *fleet) beat(h *host) {
	h.next = w.now.Add(w.cfg.HeartbeatPeriod)
	if !w.up || h.silent.After(w.now) {
		return
	}
	hb := api.Heartbeat{Node: h.name}
	for _, id := range slices.Sorted(maps.Keys(h.copies)) {
		if h.mute[id]--; h.mute[id] < 0 {
			delete(h.mute, id)
			hb.Beats = append(hb.Beats, *h.copies[id])
		}
	}
	w.model.heartbeat(w.now, hb)
	w.step(beat(h.name, hb.Beats...))
}

// row changes the row of an app.
func (w *fleet) row(row api.App) {
	before := w.model.rows[row.Name].Version
	w.model.rows[row.Name] = row
	maps.DeleteFunc(w.model.done, func(at crashSite, _ bool) bool {
		return at.app == row.Name && (before != row.Version || at.index >= row.Instances)
	})
	maps.DeleteFunc(w.model.crashes, func(at crashSite, _ time.Time) bool { // crashes count while the version is wanted on the index
		return at.app == row.Name && (before != row.Version || at.index >= w.model.wants(row.Name))
	})
	w.step(ExpectedRows{[]api.App{row}})
}

func (w *fleet) bus(up bool) {
	if w.up = up; !up {
		w.step(BusDown{})
		return
	}
	w.upAt, w.model.connectedAt = w.now, w.now
	w.step(BusUp{})
}

func (w *fleet) source(whole bool) {
	w.whole = whole
	if !whole {
		w.step(ExpectedLost{"away"})
		return
	}
	for _, name := range slices.Sorted(maps.Keys(w.model.rows)) {
		w.step(ExpectedRows{[]api.App{w.model.rows[name]}})
	}
	w.step(ExpectedComplete{})
}

// takeover makes a new machine lead, with the memory of the old one.
func (w *fleet) takeover() {
	lead := Lead{Nodes: w.m.View().Nodes()}
	for _, name := range slices.Sorted(maps.Keys(w.memories)) {
		lead.Memories = append(lead.Memories, w.memories[name])
	}
	w.m, w.outbox = NewMachine(w.cfg), nil
	clear(w.model.listed)
	clear(w.model.last)
	clear(w.model.absent)
	clear(w.model.beats)
	clear(w.model.waits)
	w.bus(true)
	w.source(true)
	w.step(lead)
}

// accident changes the world at random.
func (w *fleet) accident() {
	if w.calm.After(w.now) && !w.chance(0.05) {
		return
	}
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	name := []string{"web", "web", "api"}[w.rng.IntN(3)]
	if w.seed%2 == 1 && w.chance(0.2) {
		name = "job"
	}
	row, there := w.model.rows[name]
	switch n := w.rng.IntN(400); {
	case n < 8:
		row.Instances = w.rng.IntN(1 + w.rng.IntN(6))
	case n < 14:
		if old := row; w.chance(0.6) { // and back, while the stops of the old one are under way
			w.after(40, func() { w.row(old) })
		}
		row.Version = fmt.Sprintf("v%d", 1+w.rng.IntN(3))
	case n < 16:
		row.State = api.AppStopped
	case n < 20:
		row.State = api.AppStarted
	case n < 22:
		row.Package = api.PackagePending
	case n < 26:
		row.Package = api.PackageStaged
	case n == 26 && there:
		delete(w.model.rows, name)
		maps.DeleteFunc(w.model.crashes, func(at crashSite, _ time.Time) bool { return at.app == name })
		maps.DeleteFunc(w.model.done, func(at crashSite, _ bool) bool { return at.app == name })
		w.step(ExpectedGone{name})
		return
	case n < 38: // a duplicate, or a copy that should not run
		w.spawn(name, w.rng.IntN(6), fmt.Sprintf("v%d", 1+w.rng.IntN(3)))
		return
	case n < 44:
		h.silent = w.now.Add(time.Duration(w.rng.IntN(60)) * time.Second)
		return
	case n < 47: // the machine disappears, and comes back empty
		clear(h.copies)
		h.silent = w.now.Add(time.Duration(w.rng.IntN(60)) * time.Second)
		return
	case n < 51:
		w.drain(h)
		return
	case n < 60:
		for _, id := range slices.Sorted(maps.Keys(h.copies)) {
			if w.chance(0.4) {
				h.mute[id] = 1 + w.rng.IntN(4)
			}
		}
		return
	case n < 68:
		for _, id := range slices.Sorted(maps.Keys(h.copies)) {
			w.crash(h, h.copies[id])
			return
		}
		return
	case n == 68:
		w.bus(false)
		w.after(30, func() { w.bus(true) })
		return
	case n == 69:
		w.source(false)
		w.after(60, func() { w.source(true) })
		return
	case n == 70:
		w.takeover()
		return
	case n < 80:
		w.stopByOther(h)
		return
	case n == 80:
		w.fill(name, w.rng.IntN(3))
		return
	default:
		return
	}
	if !there {
		row = api.App{Name: name, Version: "v1", Instances: 2, OneShot: name == "job"}
	}
	w.row(row)
}

// fill ends what runs on an index, and leaves no room for it for a long time.
func (w *fleet) fill(app string, index int) {
	w.full[key(app, index)] = w.now.Add(600 * time.Second)
	w.calm = w.now.Add(500 * time.Second)
	for _, h := range w.hosts {
		for _, id := range slices.Sorted(maps.Keys(h.copies)) {
			if b := h.copies[id]; b.App == app && b.Index == index {
				w.end(id, api.ExitCrashed)
			}
		}
	}
}

// drain makes the copies on a node end soon.
func (w *fleet) drain(h *host) {
	for _, b := range h.copies {
		b.State = api.CopyEvacuating
	}
	w.after(90, func() {
		for _, id := range slices.Sorted(maps.Keys(h.copies)) {
			if h.copies[id].State == api.CopyEvacuating {
				w.end(id, api.ExitEvacuation)
			}
		}
	})
}

// stopByOther makes another harmonizer stop a copy.
func (w *fleet) stopByOther(h *host) {
	for _, id := range slices.Sorted(maps.Keys(h.copies)) {
		if _, known := w.model.listed[id]; !known || !w.up {
			continue
		}
		b := h.copies[id]
		w.model.until[id] = w.now.Add(w.cfg.NudgeKeepAlive)
		w.step(Nudged{Nudge{Stop: &api.Stop{App: b.App, Instances: map[string]string{id: b.Version}}}})
		w.after(20, func() { w.end(id, api.ExitStopped) })
		return
	}
}
