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

// Bounds of what is remembered of strangers' messages.
const (
	maxNodes = 10_000
	maxWants = 1_000_000
)

// slot is where at most one copy belongs.
type slot struct {
	app, version string
	index        int
}

// want is a copy that should be started and is not yet.
type want struct {
	slot
	heard  time.Time // of the last nudge
	since  time.Time // of the first
	after  time.Time // not tried before
	noRoom bool      // it was tried, and fits nowhere
}

// core decides what is started and stopped where. It is a pure state machine:
// the methods named for an event change what it knows, act returns what is to
// be done. It belongs to one goroutine.
type core struct {
	cfg      Config
	seed     string // makes instance ids unlike those of another run
	serial   int
	complete bool // every row of the bucket was seen; nothing is done before

	rows     rows
	nodes    map[string]*node
	bookings bookings

	copies  map[string]*copyOf          // by instance, on all nodes
	bySlot  map[slot]map[string]*copyOf // the same
	wants   map[slot]*want
	held    map[string]time.Time // refused stops: instance -> until when a row may bear them out
	untried []*want              // wants that nobody has tried yet
	retry   bool                 // something may have made room for the others
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

// action is one request to an agent: a start, or a stop.
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

// start is a nudge. What cannot be verified yet is held for a while: the row
// may be on its way, or the loss of a node not yet certain.
func (c *core) start(now time.Time, m message.Start) {
	for _, index := range m.Indices {
		c.want(now, slot{m.App, m.Version, index})
	}
}

func (c *core) want(now time.Time, s slot) {
	if _, sure := c.live(now, s); sure {
		return
	}
	if w := c.wants[s]; w != nil {
		w.heard = now
		return
	}
	if len(c.wants) >= maxWants {
		return
	}
	w := &want{slot: s, heard: now, since: now}
	c.wants[s] = w
	c.untried = append(c.untried, w)
}

// live reports whether a copy is in the slot to stay, or on its way there. It is sure
// unless all of them are on nodes that missed a heartbeat: whoever nudges may know
// already that they are lost.
func (c *core) live(now time.Time, s slot) (live, sure bool) {
	if len(c.bookings.bySlot[s]) > 0 {
		return true, true
	}
	for _, cp := range c.bySlot[s] {
		if !cp.node.facts.Draining {
			live, sure = true, sure || c.fresh(now, cp.node)
		}
	}
	return live, sure
}

func (c *core) fresh(now time.Time, n *node) bool { return now.Sub(n.heard) <= c.cfg.Heartbeat*3/2 }

// result is how a node answered a start.
type result int

const (
	unknown  result = iota // no answer: the copy may run
	accepted               // it runs
	full                   // the node cannot take it, another may
	rejected               // the copy itself is at fault: no node will do better
)

// started is the answer to a start.
func (c *core) started(now time.Time, instance string, r result) {
	b := c.bookings.byInstance[instance]
	if b == nil {
		return // seen in a heartbeat, ended, or lost with its node
	}
	if r == accepted {
		if b.stop {
			c.out = append(c.out, action{stop: true, node: b.node.facts.ID, instance: instance, slot: b.slot})
		}
		return
	}
	c.bookings.remove(b)
	if r == unknown { // sent after the start, so it ends what the start may have begun
		c.out = append(c.out, action{stop: true, node: b.node.facts.ID, instance: instance, slot: b.slot})
	}
	if r != rejected {
		b.node.barred = true
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
