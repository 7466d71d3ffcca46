package apps

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	// requestAgain is the time between two requests about a copy that a placer did not answer.
	requestAgain = 5 * time.Second
	// exitTimeout is how long the exit of a copy waits for the placer.
	exitTimeout = time.Minute
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
	requests map[string]*placementRequest // by instance
	exits    map[message.Node]int
	// first has the requests that were not sent yet, and again the others by the time of their repetition. Both may have requests
	// that were removed or replaced.
	first, again []*placementRequest
}

// placementRequest is one copy to confirm.
type placementRequest struct {
	api.PlacedCopy
	pool  string
	due   instant // of the next repetition
	since instant
	exit  *Exit // it ended; nil: a heartbeat lists it
}

func (a *placementRequest) node() message.Node { return message.Node{Pool: a.pool, Name: a.Node} }

// addCopy adds a copy that a heartbeat lists.
func (p *placements) addCopy(c known.Copy, app string) {
	n, id := c.Node(), c.ID()
	if a := p.requests[id]; a != nil {
		if a.exit == nil { // the end of a copy counts for the node that reported it
			a.PlacedCopy.Node, a.pool = n.Name, n.Pool
		}
		return
	}
	p.add(&placementRequest{PlacedCopy: api.PlacedCopy{Instance: id, Node: n.Name, App: app, Version: c.Version(), Index: c.Index()}, pool: n.Pool})
}

func (p *placements) add(a *placementRequest) {
	a.since = p.clock.now
	p.requests[a.Instance] = a
	p.first = append(p.first, a)
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
	p.add(&placementRequest{PlacedCopy: api.PlacedCopy{Instance: ev.Instance, Node: ev.Node.Name, App: ev.App, Version: ev.Version, Index: ev.Index},
		pool: ev.Node.Pool, exit: &ev})
	return true
}

// lost removes a copy that no heartbeat lists any more. Its exit still waits.
func (p *placements) lost(id string) {
	if a := p.requests[id]; a != nil && a.exit == nil {
		delete(p.requests, id)
	}
}

// answered removes and returns the request that a pool's placer answers; nil if it has no such request.
func (p *placements) answered(pool, id string) *placementRequest {
	a := p.requests[id]
	if a == nil || a.pool != pool {
		return nil
	}
	p.remove(a)
	return a
}

func (p *placements) remove(a *placementRequest) {
	delete(p.requests, a.Instance)
	if a.exit == nil {
		return
	}
	if p.exits[a.node()]--; p.exits[a.node()] <= 0 {
		delete(p.exits, a.node())
	}
}

// take returns the copies of the next request to each pool.
func (p *placements) take() map[string][]api.PlacedCopy {
	due, left := map[string][]api.PlacedCopy{}, maxTaken
	take := func(from []*placementRequest) []*placementRequest {
		for ; left > 0 && len(from) > 0 && from[0].due <= p.clock.now; left-- {
			r := from[0]
			from = from[1:]
			switch {
			case p.requests[r.Instance] != r:
			case r.exit != nil && r.since.add(exitTimeout) < p.clock.now:
				p.remove(r)
			default:
				r.due = p.clock.in(requestAgain)
				p.again = append(p.again, r)
				due[r.pool] = append(due[r.pool], r.PlacedCopy)
			}
		}
		return from
	}
	p.first = take(p.first)
	if repeated := p.again; left > 0 {
		p.again = nil
		rest := take(repeated)
		p.again = append(rest, p.again...)
	}
	if len(due) == 0 {
		return nil
	}
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
