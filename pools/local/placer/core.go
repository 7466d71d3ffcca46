package placer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
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
	receivedAt time.Time // of the last nudge
	since      time.Time // of the first one
	after      time.Time // the earliest time of the next try
	noRoom     bool      // it was tried, and no node has room
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
	bookings bookings

	copies  map[string]*copyOf          // by instance, of all nodes
	bySlot  map[slot]map[string]*copyOf // the same copies by slot
	wants   map[slot]*want
	held    map[string]time.Time // rejected stops: instance -> until when a row may confirm the stop
	untried []*want              // wants that were not tried yet
	retry   bool                 // the other wants may have room now
	swept   time.Time
	out     []action
}

func newCore(cfg Config, seed string) *core {
	return &core{
		cfg: cfg, seed: seed,
		rows:  rows{pool: cfg.Pool, apps: map[string]message.App{}, ran: map[string]map[int]string{}},
		nodes: map[string]*node{}, bookings: bookings{byInstance: map[string]*booking{}, bySlot: map[slot]map[string]*booking{}},
		copies: map[string]*copyOf{}, bySlot: map[slot]map[string]*copyOf{},
		wants: map[slot]*want{}, held: map[string]time.Time{},
	}
}

// action is one request to an agent: a start or a stop.
type action struct {
	stop     bool
	node     string
	instance string
	slot
	command   string          // of a start
	footprint resource.Vector // of a start
}

func (c *core) loaded() { c.complete, c.retry = true, true }

func (c *core) app(row message.App) {
	c.rows.set(row)
	c.retry = true
}

func (c *core) appGone(name string) {
	c.rows.remove(name)
	c.retry = true
}

// start processes a nudge. An index that cannot be confirmed yet is held for a while: its row may
// still arrive, or the loss of its node may not be certain.
func (c *core) start(now time.Time, m message.Start) {
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
	w := &want{slot: s, receivedAt: now, since: now}
	c.wants[s] = w
	c.untried = append(c.untried, w)
}

// live reports whether a copy runs in the slot or is about to, on a node that does not drain. sure
// is false if all such copies are on nodes that missed a heartbeat, because the harmonizer may
// already know that they are lost.
func (c *core) live(now time.Time, s slot) (live, certain bool) {
	if len(c.bookings.bySlot[s]) > 0 {
		return true, true
	}
	for _, cp := range c.bySlot[s] {
		if !cp.node.facts.Draining {
			live, certain = true, certain || c.fresh(now, cp.node)
		}
	}
	return live, certain
}

func (c *core) fresh(now time.Time, n *node) bool {
	return now.Sub(n.receivedAt) <= c.cfg.Heartbeat*3/2
}

// result is the response of a node to a start.
type result int

const (
	unknown  result = iota // no response: the copy may run
	accepted               // it runs
	full                   // the node has no room, another node may have some
	rejected               // the copy itself is invalid: no other node helps
)

// started processes the response to a start.
func (c *core) started(now time.Time, instance string, r result) {
	b := c.bookings.byInstance[instance]
	if b == nil {
		return // listed in a heartbeat, ended, or lost with its node
	}
	if r == accepted {
		if b.stop {
			c.out = append(c.out, action{stop: true, node: b.node.facts.ID, instance: instance, slot: b.slot})
		}
		return
	}
	c.bookings.remove(b)
	if r == unknown { // a stop after the start ends a copy that may have started
		c.out = append(c.out, action{stop: true, node: b.node.facts.ID, instance: instance, slot: b.slot})
	}
	if r != rejected {
		b.node.blocked = true
	}
	if b.stop {
		return
	}
	c.want(now, b.slot)
	if w := c.wants[b.slot]; w != nil && r == rejected {
		w.after = now.Add(c.cfg.Heartbeat)
	}
}

func (c *core) newInstance() string {
	c.serial++
	sum := sha256.Sum256([]byte(c.seed + "/" + strconv.Itoa(c.serial)))
	return hex.EncodeToString(sum[:16])
}

func (c *core) pending() Pending {
	p := Pending{Copies: []PendingCopy{}}
	for _, w := range c.wants {
		row, ok := c.rows.apps[w.app]
		if !w.noRoom || !ok {
			continue
		}
		p.Total++
		p.Resources = p.Resources.Add(row.Footprint())
		p.Copies = append(p.Copies, PendingCopy{w.app, w.version, w.index, row.Footprint(), w.since})
	}
	slices.SortFunc(p.Copies, func(a, b PendingCopy) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.App, b.App), cmp.Compare(a.Index, b.Index))
	})
	p.Copies = p.Copies[:min(len(p.Copies), maxListed)]
	return p
}
