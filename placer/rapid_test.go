package placer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// simNode is the real state of a machine, in contrast to the core's.
type simNode struct {
	draining bool
	copies   map[string]*simCopy
	foreign  bool // another process has port 8080
}

type simCopy struct {
	action
	running bool
	ghost   bool // its start got no response
}

// conflict reports whether the node has a fixed port of these already.
func (n *simNode) conflict(ports []api.Port) bool {
	for _, p := range (api.AppVersion{Ports: ports}).FixedPorts() {
		if n.foreign && p == 8080 {
			return true
		}
		for _, c := range n.copies {
			if slices.Contains((api.AppVersion{Ports: c.ports}).FixedPorts(), p) {
				return true
			}
		}
	}
	return false
}

// portsOf returns the ports of a version in the simulated pool.
func portsOf(app, version string) []api.Port {
	switch app + version {
	case "webv1":
		return []api.Port{{Name: "http", Port: 8080}}
	case "webv2":
		return []api.Port{{Name: "admin", Port: api.AutoPort}, {Name: "http", Port: 8080}}
	case "dbv2":
		return []api.Port{{Name: "sql", Port: 5432}, {Name: "http", Port: 8080}}
	}
	return nil
}

func (n *simNode) used() resource.Vector {
	var sum resource.Vector
	for _, c := range n.copies {
		sum = sum.Add(c.footprint)
	}
	return sum
}

// sim is a pool with random events in order.
type sim struct {
	t     *rapid.T
	c     *core
	now   time.Time
	rows  map[string]api.App
	gone  map[string]bool   // apps with a marker of their deletion
	bad   map[string]string // apps whose row cannot be read by now
	nodes map[string]*simNode
	queue []action
	saved map[string]Assignments // durable
	late  []action               // starts of dead placers, still on their way
	began map[string]bool        // instances of all starts
	// stopped are the instances of all stops, and those whose start got no response.
	stopped map[string]bool
	// reported are the starts that the latest act reported as waiting.
	reported []slot
	born     int
}

func startable(row api.App) bool {
	return row.State != api.AppStopped && (row.Package == "" || row.Package == api.PackageStaged)
}

func offer() resource.Vector { return resource.Vector{4, 400, 40, 0} }

// act calls the core's act, and checks the actions.
func (s *sim) act() {
	s.noteStops()
	actions := s.c.act(s.now)
	s.noteStops()
	s.checkReported()
	for _, a := range (durable{s.c}).takeChanged() {
		if s.saved[a.App] = a; a.Empty() {
			delete(s.saved, a.App)
		}
	}
	for _, a := range actions {
		s.queue = append(s.queue, a)
		if a.stop {
			if s.unknown(a.app) && !s.stopped[a.instance] {
				s.t.Fatalf("stop of %v, whose row is unknown", a.slot)
			}
			s.stopped[a.instance] = true
			continue
		}
		again := s.began[a.instance] // it shows whether the start of a dead placer arrived
		s.began[a.instance] = true
		if n := s.nodes[a.node]; n != nil && n.draining && !again {
			s.t.Fatalf("start %v on draining node %s", a.slot, a.node)
		}
		row, ok := s.rows[a.app]
		if !ok || row.Version != a.version || a.index >= row.Instances || !startable(row) {
			s.t.Fatalf("start of %v, the row is %+v", a.slot, row)
		}
		if !again {
			s.checkPorts(a)
			s.checkSpread(a)
		}
		for id, n := range s.nodes {
			if s.c.nodes[id] == nil || n.draining {
				continue
			}
			for _, c := range n.copies {
				if c.slot == a.slot && !c.ghost && !again {
					s.t.Fatalf("start of %v, which runs on node %s", a.slot, id)
				}
			}
		}
		if len(s.c.bookings.bySlot[a.slot]) != 1 {
			s.t.Fatalf("%d bookings of %v", len(s.c.bookings.bySlot[a.slot]), a.slot)
		}
	}
}

// checkPorts checks that no other copy which the placer has on the node of a start has one of its fixed ports.
func (s *sim) checkPorts(a action) {
	on := map[string]slot{}
	for instance, cp := range s.c.nodes[a.node].copies {
		on[instance] = cp.slot
	}
	for instance, b := range s.c.nodes[a.node].booked {
		on[instance] = b.slot
	}
	fixed := (api.AppVersion{Ports: a.ports}).FixedPorts()
	for instance, other := range on {
		if row := s.rows[other.app]; instance == a.instance || row.Version != other.version {
			continue
		}
		for _, p := range (api.AppVersion{Ports: portsOf(other.app, other.version)}).FixedPorts() {
			if slices.Contains(fixed, p) {
				s.t.Fatalf("start of %v on node %s, where %v has port %d", a.slot, a.node, other, p)
			}
		}
	}
}

// checkSpread checks that the placer has no more copies of an app on the node of a start than its row allows.
func (s *sim) checkSpread(a action) {
	most := s.rows[a.app].MostPerNode()
	if n := s.c.nodes[a.node].apps[a.app]; most > 0 && n > most {
		s.t.Fatalf("start of %v on node %s, which has %d copies: at most %d are allowed", a.slot, a.node, n, most)
	}
}

// of returns how many copies of an app the node has.
func (n *simNode) of(app string) (count int) {
	for _, c := range n.copies {
		if c.app == app {
			count++
		}
	}
	return count
}

// checkReported checks that each start that was reported as waiting still waits, is carried out, or is no longer desired.
func (s *sim) checkReported() {
	for _, sl := range s.reported {
		live, _ := s.c.live(s.now, sl)
		if s.c.wants[sl] == nil && s.c.rows.startable(sl) && !live {
			s.t.Fatalf("start of %v was reported as waiting, and is dropped", sl)
		}
	}
	s.reported = nil
	for _, w := range waitingStarts(s.c) {
		for _, index := range w.Indices {
			s.reported = append(s.reported, slot{w.App, w.Version, index})
		}
	}
}

// noteStops notes the copies whose stop is decided, and not sent yet.
func (s *sim) noteStops() {
	for _, a := range s.c.out {
		s.stopped[a.instance] = s.stopped[a.instance] || a.stop && !s.unknown(a.app)
	}
	for instance, b := range s.c.bookings.byInstance {
		s.stopped[instance] = s.stopped[instance] || b.stop && !s.unknown(b.app)
	}
}

// deliver carries out the oldest action. silent: without a response.
func (s *sim) deliver(silent bool) {
	a := s.queue[0]
	s.queue = s.queue[1:]
	n := s.nodes[a.node]
	if a.stop || n == nil || n.draining { // a start that comes after a stop or a refusal is an extra copy
		s.late = slices.DeleteFunc(s.late, func(l action) bool { return l.instance == a.instance })
	}
	switch {
	case a.stop:
		if n != nil && n.copies[a.instance] != nil {
			delete(n.copies, a.instance)
			s.c.exited(s.now, api.Exited{Instance: a.instance})
		}
	case n == nil:
		s.c.started(s.now, a.instance, Full, "")
	case n.copies[a.instance] != nil:
		s.c.started(s.now, a.instance, Accepted, "")
	case n.draining:
		s.c.started(s.now, a.instance, Full, "")
	case n.conflict(a.ports):
		s.c.started(s.now, a.instance, PortInUse, "")
	case !a.footprint.Fits(offer().Sub(n.used())):
		for _, c := range n.copies {
			if c.ghost {
				s.c.started(s.now, a.instance, Full, "")
				return
			}
		}
		s.t.Fatalf("start of %v on node %s: no room, %v of %v are used", a.slot, a.node, n.used(), offer())
	default:
		n.copies[a.instance] = &simCopy{action: a, ghost: silent}
		r := Accepted
		if silent {
			r, s.stopped[a.instance] = Unknown, true
		}
		s.c.started(s.now, a.instance, r, "")
	}
}

// deliverLate carries out the starts of dead placers. None of them is a second copy of a slot.
func (s *sim) deliverLate() {
	for _, a := range s.late {
		n := s.nodes[a.node]
		if n == nil || n.draining || n.copies[a.instance] != nil || n.conflict(a.ports) || !a.footprint.Fits(offer().Sub(n.used())) {
			continue
		}
		for id, other := range s.nodes {
			for _, c := range other.copies {
				if c.slot == a.slot && !c.ghost {
					s.t.Fatalf("%v runs on node %s, and the start of a dead placer reaches node %s", a.slot, id, a.node)
				}
			}
		}
		n.copies[a.instance] = &simCopy{action: a, ghost: true}
	}
	s.late = nil
}

func (s *sim) deliverAll() {
	s.deliverLate()
	for len(s.queue) > 0 {
		s.deliver(false)
	}
}

func (s *sim) publish(id string) {
	n := s.nodes[id]
	s.c.nodeFacts(s.now, api.NodeFacts{
		ID: id, Pool: "p", BootID: "b", Resources: offer(), Allocated: n.used(), Tasks: len(n.copies), Draining: n.draining,
	})
	h := api.Heartbeat{Node: id}
	for instance, c := range n.copies {
		state := api.CopyStarting
		if c.running {
			state = api.CopyRunning
		}
		if n.draining {
			state = api.CopyEvacuating
		}
		h.Beats = append(h.Beats, api.Beat{App: c.app, Version: c.version, Index: c.index, Instance: instance, State: state})
	}
	s.c.heartbeat(s.now, Heartbeat{Heartbeat: h})
}

func (s *sim) publishAll() {
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		s.publish(id)
	}
}

// onNode calls do with a random node, if there is one.
func (s *sim) onNode(do func(id string, n *simNode)) func(*rapid.T) {
	return func(t *rapid.T) {
		if ids := slices.Sorted(maps.Keys(s.nodes)); len(ids) > 0 {
			id := rapid.SampledFrom(ids).Draw(t, "node")
			do(id, s.nodes[id])
		}
	}
}

// onCopy calls do with a random copy of a random node, if there is one.
func (s *sim) onCopy(do func(n *simNode, c *simCopy)) func(*rapid.T) {
	return func(t *rapid.T) {
		s.onNode(func(_ string, n *simNode) {
			if ids := slices.Sorted(maps.Keys(n.copies)); len(ids) > 0 {
				do(n, n.copies[rapid.SampledFrom(ids).Draw(t, "copy")])
			}
		})(t)
	}
}

func anyApp(t *rapid.T) string { return rapid.SampledFrom([]string{"web", "db"}).Draw(t, "app") }

func (s *sim) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":    func(*rapid.T) { s.checkViews() },
		"act": func(*rapid.T) { s.act() },
		"set app": func(t *rapid.T) {
			version := rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version")
			app := anyApp(t)
			row := api.App{
				Name: app, Pool: "p", Version: version, Command: "run", Ports: portsOf(app, version), Spread: &api.Spread{AtMostPerNode: rapid.IntRange(0, 3).Draw(t, "at most")},
				Instances: rapid.IntRange(0, 6).Draw(t, "instances"),
				CPUs:      map[string]float64{"v1": 1, "v2": 1.5}[version], Mem: 100,
				State:   rapid.SampledFrom([]api.AppState{"", api.AppStarted, api.AppStopped}).Draw(t, "state"),
				Package: rapid.SampledFrom([]api.PackageState{"", api.PackageStaged, api.PackageFailed}).Draw(t, "package"),
			}
			s.rows[row.Name] = row
			delete(s.gone, row.Name)
			delete(s.bad, row.Name)
			s.c.app(row)
		},
		"delete app": func(t *rapid.T) {
			name := anyApp(t)
			delete(s.rows, name)
			delete(s.bad, name)
			s.gone[name] = true
			s.c.appGone(name)
		},
		"damage row": func(t *rapid.T) {
			s.noteStops()
			name := anyApp(t)
			s.bad[name] = "it is damaged"
			delete(s.gone, name)
			s.c.appUnreadable(name, s.bad[name])
		},
		"wipe store": func(*rapid.T) {
			s.noteStops()
			clear(s.gone)
			for name := range s.rows {
				s.bad[name] = "it is damaged"
			}
			s.takeOver()
		},
		"nudge": func(t *rapid.T) {
			s.c.start(s.now, api.Start{
				App: anyApp(t), Version: rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version"),
				Indices: rapid.SliceOfN(rapid.IntRange(0, 6), 1, 6).Draw(t, "indices"),
			})
		},
		"stop": s.onCopy(func(_ *simNode, c *simCopy) {
			s.stop(c)
		}),
		"deliver": func(t *rapid.T) {
			if len(s.queue) > 0 {
				s.deliver(rapid.IntRange(0, 9).Draw(t, "luck") == 0)
			}
		},
		"publish": s.onNode(func(id string, _ *simNode) { s.publish(id) }),
		"up":      s.onCopy(func(_ *simNode, c *simCopy) { c.running = true }),
		"crash": s.onCopy(func(n *simNode, c *simCopy) {
			delete(n.copies, c.instance)
			s.c.exited(s.now, api.Exited{Instance: c.instance})
		}),
		"cordon": s.onNode(func(id string, n *simNode) {
			n.draining = !n.draining
			s.publish(id)
		}),
		"join": func(*rapid.T) {
			s.born++
			id := "n" + strconv.Itoa(s.born)
			s.nodes[id] = &simNode{copies: map[string]*simCopy{}}
			s.publish(id)
		},
		"placer dies": func(t *rapid.T) {
			for range rapid.IntRange(0, len(s.queue)).Draw(t, "sent") {
				s.deliver(false)
			}
			s.takeOver()
			if rapid.Bool().Draw(t, "harmonizer") { // it repeats its nudges
				for name, row := range s.rows {
					for index := range row.Instances {
						s.c.start(s.now, api.Start{App: name, Version: row.Version, Indices: []int{index}})
					}
				}
				s.publishAll()
				s.act()
				s.deliverAll()
			}
		},
		"foreign": s.onNode(func(_ string, n *simNode) { n.foreign = !n.foreign }),
		"die":     s.onNode(func(id string, _ *simNode) { delete(s.nodes, id) }),
		"wait": func(t *rapid.T) {
			s.deliverAll() // every request gets a response within its deadline
			s.now = s.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
		},
	}
}

// takeOver replaces the placer: requests that were not sent are lost, and the saved assignments remain. Rows and facts
// come again, as when it begins to listen.
func (s *sim) takeOver() {
	for _, a := range s.queue {
		if !a.stop && !s.runs(a.slot) { // otherwise it is the replacement of a copy on a draining node
			s.late = append(s.late, a)
		}
	}
	s.queue = nil
	s.born++
	s.c = newCore(s.c.cfg, "seed"+strconv.Itoa(s.born))
	durable{s.c}.restore(s.now, slices.Collect(maps.Values(s.saved)))
	for name := range s.bad {
		delete(s.rows, name) // the new placer has received none
		s.c.appUnreadable(name, s.bad[name])
	}
	for _, row := range s.rows {
		s.c.app(row)
	}
	for name := range s.gone {
		s.c.appGone(name)
	}
	s.c.loaded()
}

// unknown reports whether the placer has neither a row nor a marker of an app.
func (s *sim) unknown(app string) bool {
	_, known := s.rows[app]
	return !known && !s.gone[app]
}

// runs reports whether a node has a copy in the slot.
func (s *sim) runs(sl slot) bool {
	for _, n := range s.nodes {
		for _, c := range n.copies {
			if c.slot == sl {
				return true
			}
		}
	}
	return false
}

// stop sends a nudge. It checks that no desired index loses all copies that the core has.
func (s *sim) stop(c *simCopy) {
	served := false // by a copy that stays: a stop that was sent before is not the nudge's
	for _, cp := range s.c.bySlot[c.slot] {
		served = served || cp.asked.IsZero()
	}
	if cp := s.c.copies[c.instance]; cp != nil && s.unknown(c.app) {
		if before := cp.asked; len(s.c.stop(s.now, api.Stop{App: c.app, Instances: map[string]string{c.instance: c.version}})) == 0 && !cp.asked.Equal(before) {
			s.t.Fatalf("stop of %v, whose row is unknown", c.slot)
		}
		return
	}
	s.c.stop(s.now, api.Stop{App: c.app, Instances: map[string]string{c.instance: c.version}})
	if row := s.rows[c.app]; !served || row.State == api.AppStopped || row.Version != c.version || c.index >= row.Instances {
		return
	}
	for _, cp := range s.c.bySlot[c.slot] {
		if cp.asked.IsZero() {
			return
		}
	}
	s.t.Fatalf("no copy of %v is left, the row is %+v", c.slot, s.rows[c.app])
}

// settle lets the pool come to rest, with a harmonizer that sends nudges for missing copies.
func (s *sim) settle() {
	for range 30 {
		s.now = s.now.Add(9 * time.Second)
		for name, row := range s.rows {
			for index := range row.Instances {
				s.c.start(s.now, api.Start{App: name, Version: row.Version, Indices: []int{index}})
			}
		}
		s.publishAll()
		s.act()
		s.deliverAll()
		for _, n := range s.nodes {
			for _, c := range n.copies {
				c.running = true
			}
		}
		s.publishAll()
	}
}

// TestProperties checks what holds after any events. No node gets more than it has room for, or two copies with one fixed port. No
// copy is started twice on purpose, also after the placer died at any moment. No copy starts on a draining node. No nudge stops the last copy
// of a desired index, and none of an app whose row is unknown is stopped. No start that was reported as waiting is dropped while it is desired. At rest, each desired copy runs, or waits because no node has room. Draining
// nodes have only copies that wait.
func TestProperties(t *testing.T) {
	for round := range 8 { // a hundred runs each by default
		t.Run(strconv.Itoa(round), rapid.MakeCheck(checkPool))
	}
}

func checkPool(t *rapid.T) {
	s := &sim{
		t: t, c: newCore(Config{Cluster: "c", Pool: "p"}.WithDefaults(), "seed"), now: time.Unix(1_000_000, 0),
		rows: map[string]api.App{}, nodes: map[string]*simNode{}, saved: map[string]Assignments{}, began: map[string]bool{},
		gone: map[string]bool{}, bad: map[string]string{}, stopped: map[string]bool{},
	}
	s.c.loaded()
	t.Repeat(s.actions())
	s.settle()

	waits := map[slot]bool{}
	pending := s.c.pending()
	for _, p := range slices.Concat(pending.Copies, pending.Rejected) {
		waits[slot{p.App, p.Version, p.Index}] = true
		most := s.rows[p.App].MostPerNode()
		for id, n := range s.nodes {
			if !n.draining && p.Footprint.Fits(offer().Sub(n.used())) && !n.conflict(portsOf(p.App, p.Version)) && (most == 0 || n.of(p.App) < most) {
				t.Fatalf("%+v is pending, node %s has room", p, id)
			}
		}
	}
	runs := map[slot]bool{}
	for id, n := range s.nodes {
		for _, c := range n.copies {
			runs[c.slot] = true
			row := s.rows[c.app]
			unable := s.unknown(c.app) || row.State != api.AppStopped && !startable(row) && c.index < row.Instances
			if n.draining && !unable && !waits[slot{c.app, row.Version, c.index}] {
				t.Fatalf("%v is left on draining node %s", c.slot, id)
			}
		}
	}
	for name, row := range s.rows {
		for index := range row.Instances {
			if !startable(row) {
				continue
			}
			if sl := (slot{name, row.Version, index}); !runs[sl] && !waits[sl] {
				t.Fatalf("%v neither runs nor waits", sl)
			}
		}
	}
	if len(s.c.bookings.byInstance) != 0 {
		t.Fatalf("bookings are left: %v", s.c.bookings.byInstance)
	}
}

// TestEvacuationProperties checks an evacuation while a harmonizer sends nudges for the same
// copies. Each copy is replaced once and stopped once, and runs until its replacement is up.
func TestEvacuationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEvacuation(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { e.check() },
			"act":     func(*rapid.T) { e.act() },
			"deliver": func(*rapid.T) { e.deliverAll() },
			"publish": e.onNode(func(id string, _ *simNode) { e.publish(id) }),
			"up":      e.onCopy(func(_ *simNode, c *simCopy) { c.running = true }),
			"nudge":   func(*rapid.T) { e.nudge() },
			"wait": func(t *rapid.T) {
				e.deliverAll()
				e.publishAll() // no heartbeat is missed
				e.now = e.now.Add(time.Duration(rapid.IntRange(1, 9).Draw(t, "seconds")) * time.Second)
			},
		})
		for range 5 {
			e.nudge()
			e.act()
			e.deliverAll()
			for _, n := range e.nodes {
				for _, c := range n.copies {
					c.running = true
				}
			}
			e.publishAll()
			e.now = e.now.Add(5 * time.Second)
		}
		e.check()
		if len(e.nodes["old"].copies) != 0 || len(e.began) != e.wanted || len(e.ended) != e.wanted {
			t.Fatalf("left %v, began %v, ended %v, want %d each", e.nodes["old"].copies, e.began, e.ended, e.wanted)
		}
	})
}

// evacuation is a pool with one draining node, and room for all copies elsewhere.
type evacuation struct {
	*sim
	wanted       int
	began, ended map[int]int // index -> starts, stops
}

func newEvacuation(t *rapid.T) *evacuation {
	e := &evacuation{
		sim: &sim{
			t: t, c: newCore(Config{Cluster: "c", Pool: "p"}.WithDefaults(), "seed"), now: time.Unix(1_000_000, 0),
			rows: map[string]api.App{}, nodes: map[string]*simNode{}, saved: map[string]Assignments{}, began: map[string]bool{},
			gone: map[string]bool{}, bad: map[string]string{}, stopped: map[string]bool{},
		},
		wanted: rapid.IntRange(1, 4).Draw(t, "wanted"), began: map[int]int{}, ended: map[int]int{},
	}
	row := api.App{Name: "web", Pool: "p", Version: "v1", Command: "run", Instances: e.wanted, CPUs: 1, Mem: 100}
	e.rows["web"] = row
	e.c.app(row)
	e.c.loaded()
	e.nodes["old"] = &simNode{copies: map[string]*simCopy{}}
	for index := range e.wanted {
		id := "x" + strconv.Itoa(index)
		e.nodes["old"].copies[id] = &simCopy{running: true, action: action{
			node: "old", instance: id, slot: slot{"web", "v1", index}, footprint: row.Footprint(),
		}}
	}
	e.publish("old")
	e.nodes["old"].draining = true
	for _, id := range []string{"new1", "new2"} {
		e.nodes[id] = &simNode{copies: map[string]*simCopy{}}
	}
	e.publishAll()
	return e
}

func (e *evacuation) act() {
	before := len(e.queue)
	e.sim.act()
	for _, a := range e.queue[before:] {
		if a.stop {
			e.ended[a.index]++
		} else {
			e.began[a.index]++
		}
	}
}

// nudge sends the nudges of a harmonizer with the core's data: a start for an index whose copies
// all evacuate, and a stop of those copies if another one runs.
func (e *evacuation) nudge() {
	for index := range e.wanted {
		s := slot{"web", "v1", index}
		stay, up := 0, false
		stops := map[string]string{}
		for instance, cp := range e.c.bySlot[s] {
			if cp.node.facts.ID == "old" {
				stops[instance] = "v1"
			} else {
				stay, up = stay+1, up || cp.running
			}
		}
		if stay == 0 {
			e.c.start(e.now, api.Start{App: "web", Version: "v1", Indices: []int{index}})
		}
		if up {
			e.c.stop(e.now, api.Stop{App: "web", Instances: stops})
		}
	}
	e.act() // soon after, as in Run
}

func (e *evacuation) check() {
	for index := range e.wanted {
		serves := false
		for _, n := range e.nodes {
			for _, c := range n.copies {
				serves = serves || c.index == index && c.running
			}
		}
		if !serves || e.began[index] > 1 || e.ended[index] > 1 {
			e.t.Fatalf("index %d: serves %t, began %d times, ended %d times", index, serves, e.began[index], e.ended[index])
		}
	}
}

// BenchmarkPlace places 1000 copies on 300 nodes, drains a tenth of them, and then calls act
// without events.
func BenchmarkPlace(b *testing.B) {
	for b.Loop() {
		now := time.Unix(1_000_000, 0)
		c := newCore(Config{Cluster: "c", Pool: "p"}.WithDefaults(), "seed")
		c.loaded()
		for i := range 300 {
			c.nodeFacts(now, api.NodeFacts{ID: fmt.Sprint("n", i), Pool: "p", BootID: "b", Resources: offer()})
		}
		c.app(api.App{Name: "web", Pool: "p", Instances: 1000, Version: "v1", Command: "run", CPUs: 1})
		var all []int
		for i := range 1000 {
			all = append(all, i)
		}
		c.start(now, api.Start{App: "web", Version: "v1", Indices: all})
		if n := len(c.act(now)); n != 1000 {
			b.Fatalf("%d placed", n)
		}
	}
}
