package apps

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	// askAgain is the time between two requests about a copy that a placer did not answer.
	askAgain = 5 * time.Second
	// exitWaits is how long the exit of a copy waits for the placer.
	exitWaits = time.Minute
	// maxExits bounds the exits of one node that wait.
	maxExits = 1000
	// maxTaken bounds the copies of one call of take.
	maxTaken = 10_000
)

// placements has the copies whose placer has not confirmed yet that it put them on their node, and the exits of copies that no
// heartbeat listed. A placer answers within milliseconds. While it does not, the copy counts as running, so its index is not
// started twice, and it proves nothing, so no other copy is stopped for it.
type placements struct {
	clock    *clock
	requests map[string]*ask // by instance
	order    []string        // of requests, by the time of their next request; may have removed ones
	exits    map[message.Node]int
}

// ask is one copy to confirm.
type ask struct {
	api.PlacedCopy
	pool  string
	due   instant // the next request
	since instant
	exit  *Exit // it ended; nil: a heartbeat lists it
}

func (a *ask) node() message.Node { return message.Node{Pool: a.pool, Name: a.Node} }

// addCopy adds a copy that a heartbeat lists.
func (p *placements) addCopy(c known.Copy, app string) {
	n, id := c.Node(), c.ID()
	if a := p.requests[id]; a != nil {
		a.PlacedCopy.Node, a.pool = n.Name, n.Pool
		return
	}
	p.add(&ask{PlacedCopy: api.PlacedCopy{Instance: id, Node: n.Name, App: app, Version: c.Version(), Index: c.Index()}, pool: n.Pool})
}

func (p *placements) add(a *ask) {
	a.due, a.since = p.clock.now, p.clock.now
	p.requests[a.Instance] = a
	p.order = append(p.order, a.Instance)
}

// addExit adds the end of a copy, and reports whether the node may have another one that waits.
func (p *placements) addExit(ev Exit) bool {
	a := p.requests[ev.Instance]
	if a != nil && (a.exit != nil || a.node() != ev.Node) {
		return a.exit != nil && a.node() == ev.Node // a repetition
	}
	if p.exits[ev.Node] >= maxExits {
		return false
	}
	p.exits[ev.Node]++
	p.add(&ask{PlacedCopy: api.PlacedCopy{Instance: ev.Instance, Node: ev.Node.Name, App: ev.App, Version: ev.Version, Index: ev.Index},
		pool: ev.Node.Pool, exit: &ev})
	return true
}

// lost removes a copy that no heartbeat lists any more. Its exit still waits.
func (p *placements) lost(id string) {
	if a := p.requests[id]; a != nil && a.exit == nil {
		delete(p.requests, id)
	}
}

// answered removes and returns the question that a pool's placer answers; nil if it has no such question.
func (p *placements) answered(pool, id string) *ask {
	a := p.requests[id]
	if a == nil || a.pool != pool {
		return nil
	}
	p.remove(a)
	return a
}

func (p *placements) remove(a *ask) {
	delete(p.requests, a.Instance)
	if a.exit == nil {
		return
	}
	if p.exits[a.node()]--; p.exits[a.node()] <= 0 {
		delete(p.exits, a.node())
	}
}

// take returns the copies of the next question to each pool.
func (p *placements) take() map[string][]api.PlacedCopy {
	var due map[string][]api.PlacedCopy
	done := 0
	for _, id := range p.order[:len(p.order)] {
		a := p.requests[id]
		if a != nil && a.due > p.clock.now || done == maxTaken {
			break
		}
		done++
		switch {
		case a == nil:
		case a.exit != nil && a.since.add(exitWaits) < p.clock.now:
			p.remove(a)
		default:
			a.due = p.clock.in(askAgain)
			p.order = append(p.order, id)
			if due == nil {
				due = map[string][]api.PlacedCopy{}
			}
			due[a.pool] = append(due[a.pool], a.PlacedCopy)
		}
	}
	p.order = p.order[done:]
	return due
}

// TakeUnplaced returns the copies that the placers of their pools are to confirm, by pool.
func (m *Machine) TakeUnplaced() map[string][]api.PlacedCopy { return m.placements.take() }

// placed processes the answer of a pool's placer.
func (m *Machine) placed(ev Placed) {
	for _, id := range ev.Placed {
		a := m.placements.answered(ev.Pool, id)
		if a == nil {
			continue
		}
		if c, ok := m.known.Find(id); ok && c.Node() == a.node() && c.Place() {
			m.enterCopy(m.apps.ensure(c.App(), m.known.Name(c.App())), c)
			m.backlog.mark(at(c.App(), c.Index()))
		}
		if a.exit != nil {
			m.endedThere(*a.exit)
		}
	}
	for _, id := range ev.NotPlaced {
		a := m.placements.answered(ev.Pool, id)
		if a == nil {
			continue
		}
		c, ok := m.known.Find(id)
		if ok && c.Node() == a.node() && !c.Placed() {
			c.Refuse(m.clock.wall)
			m.collect("")
		}
		if a.exit != nil {
			m.senders.note(a.node(), api.WhyExitOfOther, 1, fmt.Sprintf("exit of %.80s of app %.80s", id, a.App))
		} else {
			m.senders.note(a.node(), api.WhyNotPlaced, 1, fmt.Sprintf("lists %.80s of app %.80s, index %d", id, a.App, a.Index))
		}
	}
}

// mustBePlaced reports whether copies and exits of the node count only after its placer has confirmed them.
func (c Config) mustBePlaced(n message.Node) bool { return c.Places && n.Pool != "" }
