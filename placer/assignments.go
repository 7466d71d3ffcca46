package placer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Assignments is the durable state of one app in a pool. Times are on the placer's wall clock.
type Assignments struct {
	App      string         `json:"app"`
	Ran      map[int]string `json:"ran,omitempty"`      // index -> node that last ran it
	Bookings []Booking      `json:"bookings,omitempty"` // in order of instance
	Wants    []Want         `json:"wants,omitempty"`    // in order of index and version
	Stops    []Stop         `json:"stops,omitempty"`    // in order of instance
	Placed   []Placed       `json:"placed,omitempty"`   // in order of instance, without Bookings
}

// Booking is a copy that a node is to run, or runs without a heartbeat that lists it.
type Booking struct {
	Version   string          `json:"version"`
	Index     int             `json:"index"`
	Instance  string          `json:"instance"`
	Node      string          `json:"node"`
	Footprint resource.Vector `json:"footprint"`
	Stop      bool            `json:"stop,omitempty"` // its stop was requested meanwhile
}

// Want is a copy that is to be started and has no node yet.
type Want struct {
	Version string    `json:"version"`
	Index   int       `json:"index"`
	Since   time.Time `json:"since"` // of the first nudge
}

// Stop is a running copy whose stop was sent.
type Stop struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
}

// Empty reports whether there is nothing to save.
func (a Assignments) Empty() bool {
	return len(a.Ran)+len(a.Bookings)+len(a.Wants)+len(a.Stops)+len(a.Placed) == 0
}

// Validate returns an error that names the first invalid field.
func (a Assignments) Validate() error {
	if a.App == "" || len(a.App) > message.MaxID {
		return fmt.Errorf("app %.80q: want a name of 1 to %d bytes", a.App, message.MaxID)
	}
	index := func(i int) error {
		if i < 0 || i >= message.MaxInstances {
			return fmt.Errorf("app %.80q: index %d: want 0 to %d", a.App, i, message.MaxInstances-1)
		}
		return nil
	}
	version := func(v string) error {
		if len(v) > message.MaxID {
			return fmt.Errorf("app %.80q: version %.80q: want at most %d bytes", a.App, v, message.MaxID)
		}
		return nil
	}
	for i, node := range a.Ran {
		if err := errors.Join(index(i), names.CheckToken("node", node)); err != nil {
			return err
		}
	}
	for _, b := range a.Bookings {
		err := errors.Join(index(b.Index), version(b.Version), names.CheckToken("node", b.Node),
			names.CheckToken("instance", b.Instance), b.Footprint.Validate())
		if err != nil {
			return fmt.Errorf("app %.80q: %w", a.App, err)
		}
	}
	for _, p := range a.Placed {
		if p.Instance == "" || len(p.Instance) > message.MaxID {
			return fmt.Errorf("app %.80q: placed instance %.80q: want 1 to %d bytes", a.App, p.Instance, message.MaxID)
		}
		if err := errors.Join(index(p.Index), version(p.Version), names.CheckToken("node", p.Node), p.Footprint.Validate()); err != nil {
			return err
		}
	}
	for _, w := range a.Wants {
		if err := errors.Join(index(w.Index), version(w.Version)); err != nil {
			return err
		}
	}
	for _, s := range a.Stops {
		if s.Instance == "" || len(s.Instance) > message.MaxID {
			return fmt.Errorf("app %.80q: stop of instance %.80q: want 1 to %d bytes", a.App, s.Instance, message.MaxID)
		}
	}
	return nil
}

// durable is the part of a core that the next placer of the pool takes over.
type durable struct{ *core }

// takeChanged returns the assignments of each app that changed since the last call, in order of name.
func (c durable) takeChanged() []Assignments {
	if len(c.changed) == 0 {
		return nil
	}
	all := make([]Assignments, 0, len(c.changed))
	for _, app := range slices.Sorted(maps.Keys(c.changed)) {
		all = append(all, c.assignments(app))
	}
	clear(c.changed)
	return all
}

// markAgain marks the apps of assignments that were not saved.
func (c durable) markAgain(unsaved []Assignments) {
	for _, a := range unsaved {
		c.changed[a.App] = true
	}
}

func (c durable) assignments(app string) Assignments {
	a := Assignments{App: app, Ran: maps.Clone(c.rows.ran[app]), Placed: c.placedOf(app)}
	for _, b := range c.bookings.byApp[app] {
		a.Bookings = append(a.Bookings, Booking{b.version, b.index, b.instance, b.node.facts.ID, b.footprint, b.stop})
	}
	for _, w := range c.wantsOf[app] {
		a.Wants = append(a.Wants, Want{w.version, w.index, w.since.Round(0).UTC()})
	}
	for instance, at := range c.asked[app] {
		a.Stops = append(a.Stops, Stop{instance, at.Round(0).UTC()})
	}
	slices.SortFunc(a.Bookings, func(x, y Booking) int { return cmp.Compare(x.Instance, y.Instance) })
	slices.SortFunc(a.Wants, func(x, y Want) int {
		return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.Version, y.Version))
	})
	slices.SortFunc(a.Stops, func(x, y Stop) int { return cmp.Compare(x.Instance, y.Instance) })
	return a
}

// restore adds the assignments of the previous placer of the pool. It is called before the first event. The nodes of
// bookings are unknown until their facts come. The start of each booking is then sent again, with the same instance:
// an agent that received it changes nothing.
func (c durable) restore(now time.Time, all []Assignments) {
	for _, a := range all {
		c.restorePlaces(now, a)
		if len(a.Ran) > 0 {
			c.rows.ran[a.App] = maps.Clone(a.Ran)
		}
		for _, b := range a.Bookings {
			n := c.nodes[b.Node]
			if n == nil && len(c.nodes) < maxNodes {
				n = newNode(b.Node, now)
				n.restored = true
				c.nodes[b.Node] = n
			}
			if n == nil || c.bookings.byInstance[b.Instance] != nil {
				continue
			}
			c.bookings.add(&booking{
				slot: slot{a.App, b.Version, b.Index}, instance: b.Instance, node: n, footprint: b.Footprint,
				until: c.bookedUntil(now), stop: b.Stop, resend: true,
			})
		}
		for _, w := range a.Wants {
			c.addWant(&want{slot: slot{a.App, w.Version, w.Index}, receivedAt: now, since: earlier(w.Since, now)})
		}
		for _, s := range a.Stops {
			c.noteAsked(a.App, s.Instance, earlier(s.At, now))
		}
	}
	clear(c.changed)
}

// earlier returns t, but at most now: the previous placer may have another clock.
func earlier(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// prune drops the saved data of apps that are gone. It is called when all rows have arrived.
func (c durable) prune() {
	for app := range c.rows.ran {
		if c.rows.gone[app] {
			c.rows.remove(app)
			c.changed[app] = true
		}
	}
}

// resume sends the restored bookings of nodes whose facts have arrived. A copy that is known to be unwanted is stopped; one of an
// unknown app waits for its row.
func (c durable) resume(now time.Time) {
	if !c.restoredNodes {
		return
	}
	c.restoredNodes = false
	for _, instance := range slices.Sorted(maps.Keys(c.bookings.byInstance)) {
		b := c.bookings.byInstance[instance]
		_, expect := c.rows.current(b.slot)
		if !b.resend || b.node.restored || expect == unknown && !b.stop {
			c.restoredNodes = c.restoredNodes || b.resend
			continue
		}
		b.resend = false
		b.until = c.bookedUntil(now)
		switch {
		case b.stop || expect == unwanted:
			b.toStop()
			c.changed[b.app] = true
			c.out = append(c.out, action{stop: true, node: b.node.facts.ID, instance: instance, slot: b.slot})
		case c.rows.startable(b.slot):
			c.out = append(c.out, c.startOf(b))
		}
	}
}

// noteAsked stores when the stop of a copy was sent.
func (c durable) noteAsked(app, instance string, at time.Time) {
	if c.asked[app] == nil {
		c.asked[app] = map[string]time.Time{}
	}
	c.asked[app][instance] = at
	c.changed[app] = true
}

// expireAsked removes old stops of copies that no heartbeat lists: they ended while the pool had no placer.
func (c durable) expireAsked(now time.Time) {
	for app, stops := range c.asked {
		for instance, at := range stops {
			if c.copies[instance] == nil && now.Sub(at) > 10*c.cfg.Heartbeat {
				c.forgetAsked(app, instance)
			}
		}
	}
}

// forgetAsked removes the stop of a copy that has ended.
func (c durable) forgetAsked(app, instance string) {
	if _, ok := c.asked[app][instance]; !ok {
		return
	}
	if delete(c.asked[app], instance); len(c.asked[app]) == 0 {
		delete(c.asked, app)
	}
	c.changed[app] = true
}
