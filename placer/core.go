package placer

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Bounds of the state that comes from messages.
const (
	maxNodes = 10_000
	maxWants = 1_000_000
)

// slot identifies a copy: at most one belongs in each slot.
type slot struct {
	app, version string
	index        int
}

// want is a copy that is to be started.
type want struct {
	slot
	receivedAt time.Time // of the last nudge, or of the last try in which no node had room
	since      time.Time // of the first one
	after      time.Time // the earliest time of the next try
	noRoom     bool      // it was tried, and no node has room
	rejected   string    // why a node rejected the last start; empty: none did
}

// core decides which copies to start and stop on which nodes. It is a pure state machine: the
// methods named for an event change its state, and act returns the requests. One goroutine uses it.
type core struct {
	cfg      Config
	seed     string // makes instance ids differ from those of another run
	serial   int
	complete bool // every row of the bucket was received; act does nothing before

	rows     rows
	nodes    map[string]*node
	unread   map[string]time.Time // nodes with a latest heartbeat that is not readable in part -> its receipt
	bookings bookings
	places   places

	copies  map[string]*copyOf          // by instance, of all nodes
	bySlot  map[slot]map[string]*copyOf // the same copies by slot
	wants   map[slot]*want
	wantsOf map[string]map[slot]*want       // the same, by app
	asked   map[string]map[string]time.Time // sent stops of copies that run: app -> instance -> time
	changed map[string]bool                 // apps whose assignments changed since takeChanged
	refused map[int]map[string]time.Time    // fixed port -> nodes that refused it -> until when that counts
	held    map[string]time.Time            // rejected stops: instance -> until when a row may confirm the stop
	untried []*want                         // wants that were not tried yet
	retry   bool                            // the other wants may have room now
	swept   time.Time
	// restoredNodes: bookings of restored nodes may be sent again.
	restoredNodes bool
	revision      uint64           // of wants, and of the set of nodes; see packer.total
	kinds         []api.PlacesKind // of the latest question
	last          answered
	out           []action
	foreign       []foreignCopy // listed, in the latest heartbeat, and not placed there
}

func newCore(cfg Config, seed string) *core {
	return &core{
		cfg: cfg, seed: seed,
		rows:  newRows(cfg.Pool),
		nodes: map[string]*node{}, unread: map[string]time.Time{}, bookings: newBookings(), places: newPlaces(),
		copies: map[string]*copyOf{}, bySlot: map[slot]map[string]*copyOf{},
		wants: map[slot]*want{}, wantsOf: map[string]map[slot]*want{}, held: map[string]time.Time{}, refused: map[int]map[string]time.Time{},
		asked: map[string]map[string]time.Time{}, changed: map[string]bool{}, restoredNodes: true,
	}
}

// action is one request to an agent: a start or a stop.
type action struct {
	stop     bool
	node     string
	instance string
	slot
	command   string          // of a start
	release   string          // of a start; empty: none
	footprint resource.Vector // of a start
	ready     *api.Readiness  // of a start
	env       map[string]string
	ports     []api.Port
	oneShot   bool
}

func (c *core) loaded() {
	c.complete, c.retry = true, true
	durable{c}.prune()
}

func (c *core) app(row api.App) {
	if c.rows.setRow(row) {
		c.changed[row.Name] = true
	}
	c.retry = true
}

// appUnreadable processes a row that cannot be read. Nothing of the app starts or stops by it.
func (c *core) appUnreadable(name, why string) {
	c.rows.unreadable(name, why)
	c.retry = true
}

func (c *core) appGone(name string) {
	if c.rows.remove(name) {
		c.changed[name] = true
	}
	c.retry = true
}

// start processes a nudge. An index that cannot be confirmed yet is held for a while: its row may
// still arrive, or the loss of its node may not be certain.
func (c *core) start(now time.Time, m api.Start) {
	for _, index := range m.Indices {
		c.want(now, slot{m.App, m.Version, index})
	}
}

func (c *core) want(now time.Time, s slot) {
	if _, certain := c.live(now, s); certain {
		return
	}
	if w := c.wants[s]; w != nil {
		w.receivedAt = now
		return
	}
	if len(c.wants) >= maxWants {
		return
	}
	c.addWant(&want{slot: s, receivedAt: now, since: now})
}

func (c *core) addWant(w *want) {
	c.wants[w.slot] = w
	c.revision++
	if c.wantsOf[w.app] == nil {
		c.wantsOf[w.app] = map[slot]*want{}
	}
	c.wantsOf[w.app][w.slot] = w
	c.untried = append(c.untried, w)
	c.changed[w.app] = true
}

func (c *core) removeWant(s slot) {
	delete(c.wants, s)
	c.revision++
	if delete(c.wantsOf[s.app], s); len(c.wantsOf[s.app]) == 0 {
		delete(c.wantsOf, s.app)
	}
	c.changed[s.app] = true
}

// unbook removes a booking.
func (c *core) unbook(b *booking) {
	c.bookings.remove(b)
	c.changed[b.app] = true
}

// bookedUntil returns the end of the wait for a heartbeat that lists a copy that starts now.
func (c *core) bookedUntil(now time.Time) time.Time {
	return now.Add(c.cfg.StartTimeout + 2*c.cfg.Heartbeat)
}

// live reports whether a copy runs in the slot or is about to, on a node that does not drain. sure
// is false if all such copies are on nodes that missed a heartbeat, because the harmonizer may
// already know that they are lost. A copy that was put on a node may run while the node's heartbeat is not readable.
func (c *core) live(now time.Time, s slot) (live, certain bool) {
	if len(c.bookings.bySlot[s]) > 0 || len(c.unread) > 0 && (durable{c}).mayBeListed(s) {
		return true, true
	}
	for _, cp := range c.bySlot[s] {
		if !cp.node.facts.Draining {
			live, certain = true, certain || cp.node.fresh(now, c.cfg.Heartbeat)
		}
	}
	return live, certain
}

// foreignCopy is a copy that a node lists, and that was not put there.
type foreignCopy struct{ node, app, instance string }

// notSent takes back a start that was not sent.
func (c durable) notSent(now time.Time, instance string) {
	if b := c.bookings.byInstance[instance]; b != nil {
		c.notStarted(instance)
		c.unbook(b)
		if !b.stop {
			c.want(now, b.slot)
		}
	}
}

// started processes the response to a start. why explains any result but Accepted.
func (c *core) started(now time.Time, instance string, r Result, why string) {
	b := c.bookings.byInstance[instance]
	if b == nil {
		return // listed in a heartbeat, ended, or lost with its node
	}
	if r == Accepted {
		if b.stop {
			c.out = append(c.out, action{stop: true, node: b.node.facts.ID, instance: instance, slot: b.slot})
		}
		return
	}
	c.unbook(b)
	if r != Unknown {
		durable{c}.notStarted(instance)
	}
	if r == Unknown { // a stop after the start ends a copy that may have started
		c.out = append(c.out, action{stop: true, node: b.node.facts.ID, instance: instance, slot: b.slot})
	}
	switch r {
	case PortInUse:
		limiter{c}.noteTaken(now, b.node, b.slot)
	case Rejected:
	default:
		b.node.blocked = true
		b.node.touch()
	}
	if b.stop {
		return
	}
	c.want(now, b.slot)
	if w := c.wants[b.slot]; w != nil && r == Rejected {
		w.after, w.rejected = now.Add(c.cfg.Heartbeat), why
	}
}

func (c *core) newInstance() string {
	c.serial++
	sum := sha256.Sum256([]byte(c.seed + "/" + strconv.Itoa(c.serial)))
	return hex.EncodeToString(sum[:16])
}
