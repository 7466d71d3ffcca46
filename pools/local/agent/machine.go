package agent

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
	"github.com/weirkeeper/weirkeeper/resource"
)

// keptEnded is how many ended copies keep their output: at most 16 MiB, at
// tailBytes each.
const keptEnded = 256

// machine is the books of one node: what runs on it, and what room is left. It
// does no I/O and belongs to one goroutine.
type machine struct {
	cfg      Config
	boot     string
	cordoned bool
	fenced   bool               // by the owner
	alone    bool               // without contact with the bus, and so fenced by ourselves
	copies   map[string]*copyOf // by instance
	ended    []*copyOf          // the last ones, oldest first
}

// closed reports whether the node takes nothing new.
func (m *machine) closed() bool { return m.cordoned || m.fenced || m.alone }

// copyOf is one copy of an app.
//
//	starting ──► running ──► (ended)
//	    └───────────────────────▲
type copyOf struct {
	StartRequest
	state  message.State // Starting or Running; Evacuating is told, not kept
	since  time.Time     // of the state
	asked  bool          // we were asked to stop it
	ousted bool          // it is stopped as the node is fenced
	output tail
}

func newMachine(cfg Config, boot string) *machine {
	return &machine{cfg: cfg, boot: boot, fenced: cfg.Fenced, copies: map[string]*copyOf{}}
}

// allocated returns the sum of the footprints.
func (m *machine) allocated() resource.Vector {
	var sum resource.Vector
	for _, id := range slices.Sorted(maps.Keys(m.copies)) { // in one order: the same sum each time
		sum = sum.Add(m.copies[id].Footprint)
	}
	return sum
}

// priority is Clusterman's: the largest of any copy of 2 x cpus + mem / 1000 MB.
func (m *machine) priority() float64 {
	most := 0.0
	for _, c := range m.copies {
		most = max(most, 2*c.Footprint[resource.CPUs]+c.Footprint[resource.Mem]/1000)
	}
	return most
}

// admit books a new copy. It returns nil without an error if the copy is
// booked already.
func (m *machine) admit(now time.Time, r StartRequest) (*copyOf, error) {
	if err := r.Validate(); err != nil {
		return nil, call.Invalid("%v", err)
	}
	if m.copies[r.Instance] != nil {
		return nil, nil
	}
	for _, e := range m.ended {
		if e.Instance == r.Instance { // a repeated request must not run it twice
			return nil, nil
		}
	}
	if m.fenced || m.alone {
		return nil, &call.Error{Code: codeFenced, Message: "node " + m.cfg.ID + " is fenced"}
	}
	if m.cordoned {
		return nil, &call.Error{Code: codeCordoned, Message: "node " + m.cfg.ID + " is cordoned"}
	}
	room := m.cfg.Resources.Sub(m.allocated())
	if !r.Footprint.Fits(room) {
		return nil, &call.Error{Code: codeNoRoom, Message: "node " + m.cfg.ID + " has " +
			resource.Of(room).String() + " left, wanted is " + resource.Of(r.Footprint).String()}
	}
	c := &copyOf{StartRequest: r, state: message.Starting, since: now}
	m.copies[r.Instance] = c
	return c, nil
}

// running books that a copy has come up.
func (m *machine) running(now time.Time, instance string) {
	if c := m.copies[instance]; c != nil && c.state == message.Starting {
		c.state, c.since = message.Running, now
	}
}

// exited takes a copy off the books and returns what to tell of it, or false
// if it was not on them. leaving: the node itself goes.
func (m *machine) exited(now time.Time, instance string, end outcome, leaving bool) (message.Exited, bool) {
	c := m.copies[instance]
	if c == nil {
		return message.Exited{}, false
	}
	delete(m.copies, instance)
	c.output.add("[ended: " + end.text + "]")
	m.keep(c)
	e := message.Exited{
		Partition: message.Partition, App: c.App, Version: c.Version, Instance: c.Instance, Index: c.Index,
		Status: end.status, Description: end.text, Reason: m.reason(c, leaving),
	}
	if e.Reason == message.ReasonCrashed {
		e.CrashedAt = now.Unix()
	}
	return e, true
}

// keep keeps the output of a copy that ended. Where that is one too many, the
// oldest goes that was not the last of its index: why an index was given up must
// not be lost to others that crash on.
func (m *machine) keep(c *copyOf) {
	m.ended = append(m.ended, c)
	if len(m.ended) <= keptEnded {
		return
	}
	type index struct {
		app string
		n   int
	}
	last := map[index]*copyOf{}
	for _, e := range m.ended {
		last[index{e.App, e.Index}] = e
	}
	oldest := slices.IndexFunc(m.ended, func(e *copyOf) bool { return last[index{e.App, e.Index}] != e })
	oldest = max(oldest, 0) // each is the last of its index
	m.ended = slices.Delete(m.ended, oldest, oldest+1)
}

func (m *machine) reason(c *copyOf, leaving bool) message.Reason {
	switch {
	case c.asked:
		return message.ReasonStopped
	case c.ousted, leaving && m.cordoned:
		return message.ReasonEvacuation
	case leaving:
		return message.ReasonShutdown
	}
	return message.ReasonCrashed
}

// heartbeat returns all that runs here, in order of instance.
func (m *machine) heartbeat() message.Heartbeat {
	h := message.Heartbeat{Node: m.cfg.ID, Beats: []message.Beat{}}
	for _, id := range slices.Sorted(maps.Keys(m.copies)) {
		c := m.copies[id]
		state := c.state
		if m.closed() {
			state = message.Evacuating
		}
		h.Beats = append(h.Beats, message.Beat{
			Partition: message.Partition, App: c.App, Version: c.Version, Instance: id,
			Index: c.Index, State: state, Since: float64(c.since.UnixMilli()) / 1000,
		})
	}
	return h
}

// facts returns what the node says of itself. Every copy may be run elsewhere,
// so the node is safe to evict.
func (m *machine) facts(now time.Time, conditions []pools.Condition) pools.NodeFacts {
	return pools.NodeFacts{
		ID: m.cfg.ID, Pool: m.cfg.Pool, Group: m.cfg.Group, BootID: m.boot,
		Resources: m.cfg.Resources, Allocated: m.allocated(), Tasks: len(m.copies),
		Draining: m.closed(), SafeToEvict: true, Priority: m.priority(),
		Conditions: m.conditions(conditions), Heartbeat: m.cfg.Heartbeat, At: now,
	}
}

// conditions adds to what was found of the machine that its owner has fenced it.
func (m *machine) conditions(found []pools.Condition) []pools.Condition {
	if !m.fenced {
		return found
	}
	fence := pools.Condition{Type: conditionFenced, Failed: true, Why: "its owner has fenced it, and not lifted that"}
	return append([]pools.Condition{fence}, found...)
}

// logs returns the output of the copies that r names, the newest last. The
// newest ones are served first when not all of it fits into a message.
func (m *machine) logs(r LogsRequest) (LogsReply, error) {
	if r.App == "" || r.Lines < 0 || r.Lines > maxLogLines {
		return LogsReply{}, call.Invalid("want an app, and 0 to %d lines", maxLogLines)
	}
	live := slices.SortedFunc(maps.Values(m.copies), func(a, b *copyOf) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.Index, b.Index))
	})
	reply := LogsReply{Copies: []CopyLog{}}
	limit := replyLogs
	for _, c := range slices.Backward(slices.Concat(m.ended, live)) {
		if c.App != r.App || r.Index != nil && *r.Index != c.Index {
			continue
		}
		lines := c.output.last(r.Lines, limit)
		for _, l := range lines {
			limit -= len(l) + 1
		}
		_, isLive := m.copies[c.Instance]
		reply.Copies = append(reply.Copies, CopyLog{c.Instance, c.Version, c.Index, !isLive, lines})
	}
	slices.Reverse(reply.Copies)
	return reply, nil
}
