package placer

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Event is one thing that the bus reports to the placer: Facts, Heartbeat, Exit, Nudge, Row, RowGone, RowUnread, RowsLoaded,
// Query, PlacedQuery, PlacesQuery or Unusable.
type Event interface {
	// apply changes the placer, and reports whether its state may have changed.
	apply(p *Placer, now time.Time) bool
}

// Facts are the facts of a node, from its own subject.
type Facts struct{ api.NodeFacts }

// Heartbeat is a heartbeat of a node, from its own subject.
type Heartbeat struct {
	api.Heartbeat
	Unread error // why a part is not readable, or all but the node: copies that it omits stay as they are
}

// Exit is the end of a copy, from the subject of Node.
type Exit struct {
	Node string
	api.Exited
}

// Nudge is a request of the harmonizer. Exactly one of Start and Stop is set.
type Nudge struct {
	ID    string // to confirm it; empty: the sender expects no confirmation
	Start *api.Start
	Stop  *api.Stop
}

// Row is the changed row of an app.
type Row struct{ api.App }

// RowGone is the deletion of an app's row.
type RowGone struct{ App string }

// RowUnread is the row of an app that cannot be read. Without an earlier row it is unknown what should run: nothing is stopped.
type RowUnread struct{ App, Why string }

// RowsLoaded follows all rows that existed when Listen began.
type RowsLoaded struct{}

// Query requests the copies that wait for room.
type Query struct{ Answer func(api.Pending) }

// PlacedQuery requests which copies were put on the nodes that list them.
type PlacedQuery struct {
	Copies []api.PlacedCopy
	Answer func(api.PlacedAnswer)
}

// ErrNotReady: the placer may not have received all rows and heartbeats yet.
var ErrNotReady = errors.New("the placer has begun, and has not received all rows and heartbeats yet")

// PlacesQuery requests where the copies fit. Text is the question as it was received: an equal one has the same text.
type PlacesQuery struct {
	Question api.PlacesQuestion
	Text     string
	Answer   func(api.Places, error)
}

// Unusable is a message, or a part of one, that cannot be read.
type Unusable struct {
	Subject string
	Err     error
}

func (e Facts) apply(p *Placer, now time.Time) bool {
	p.core.nodeFacts(now, e.NodeFacts)
	return true
}

func (e Heartbeat) apply(p *Placer, now time.Time) bool {
	if e.Unread != nil {
		Unusable{message.HeartbeatSubject(p.cfg.Cluster, message.Node{Pool: p.cfg.Pool, Name: e.Node}), e.Unread}.apply(p, now)
	}
	p.core.heartbeat(now, e)
	for _, f := range p.core.foreign {
		p.foreign++
		p.foreignLog.Do(func() {
			p.log.Warn("node lists an app instance that was not placed there", "node", f.node, "app", f.app, "instance", f.instance, "so_far", p.foreign)
		})
	}
	p.core.foreign = nil
	return true
}

// apply removes an ended copy. A node reports only the ends of its own copies.
func (e Exit) apply(p *Placer, now time.Time) bool {
	if e.Repeated && p.core.nodeOf(e.Instance) != e.Node {
		return false // it was received
	}
	if !p.core.places.adopting && !p.core.places.on(e.Instance, e.Node, slot{e.App, e.Version, e.Index}) {
		err := fmt.Errorf("subject of node %.130q: app instance %.130q was not placed there", e.Node, e.Instance)
		return Unusable{message.ExitedSubject(p.cfg.Cluster, message.Node{Pool: p.cfg.Pool, Name: e.Node}), err}.apply(p, now)
	}
	if other := p.core.nodeOf(e.Instance); other != "" && other != e.Node {
		err := fmt.Errorf("subject of node %.130q: app instance %.130q runs on node %.130q", e.Node, e.Instance, other)
		return Unusable{message.ExitedSubject(p.cfg.Cluster, message.Node{Pool: p.cfg.Pool, Name: e.Node}), err}.apply(p, now)
	}
	p.core.exited(now, e.Exited)
	return true
}

func (e Nudge) apply(p *Placer, now time.Time) bool {
	p.confirmations.addNudge(now.Add(p.cfg.NudgeTTL), e, p.core)
	switch {
	case e.Start != nil:
		p.core.start(now, *e.Start)
	case e.Stop != nil:
		p.refuse(p.core.stop(now, *e.Stop))
	}
	return true
}

func (e Row) apply(p *Placer, _ time.Time) bool {
	p.core.app(e.App)
	return true
}

func (e RowGone) apply(p *Placer, _ time.Time) bool {
	p.core.appGone(e.App)
	return true
}

func (e RowUnread) apply(p *Placer, _ time.Time) bool {
	p.core.appUnreadable(e.App, e.Why)
	p.unreadLog.Do(func() { p.log.Warn("row of an app cannot be read", "app", e.App, "err", e.Why) })
	return true
}

func (RowsLoaded) apply(p *Placer, _ time.Time) bool {
	p.core.loaded()
	return true
}

func (e Query) apply(p *Placer, _ time.Time) bool {
	e.Answer(p.core.pending())
	return false
}

func (e PlacedQuery) apply(p *Placer, _ time.Time) bool {
	e.Answer(p.core.places.answer(e.Copies))
	return false
}

// apply answers, but not in the first heartbeat period: copies of nodes that have not reported yet would seem to have no place.
func (e PlacesQuery) apply(p *Placer, now time.Time) bool {
	if !p.core.complete || now.Sub(p.began) < p.cfg.Heartbeat {
		e.Answer(api.Places{}, ErrNotReady)
		return false
	}
	e.Answer(packer{p.core}.places(now, e.Question, e.Text), nil)
	return false
}

// apply counts an unusable message, and logs at most one a minute.
func (e Unusable) apply(p *Placer, _ time.Time) bool {
	p.dropped++
	p.dropLog.Do(func() { p.log.Warn("message dropped", "subject", e.Subject, "dropped", p.dropped, "err", e.Err) })
	return false
}
