package placer

import (
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// booking is a copy that was assigned to a node and is in no heartbeat yet.
type booking struct {
	slot
	instance  string
	node      *node
	footprint resource.Vector
	until     time.Time // end of the wait for a heartbeat that lists it
	stop      bool      // a stop was requested before a heartbeat listed it
	resend    bool      // it is of the previous placer, and its start or stop is to be sent again
}

// bookings has all bookings. The bookings of a node reserve room on it.
type bookings struct {
	byInstance map[string]*booking
	bySlot     map[slot]map[string]*booking   // the same, by instance
	byApp      map[string]map[string]*booking // the same, by instance
}

func newBookings() bookings {
	return bookings{
		byInstance: map[string]*booking{}, bySlot: map[slot]map[string]*booking{}, byApp: map[string]map[string]*booking{},
	}
}

func (all *bookings) add(b *booking) {
	all.byInstance[b.instance] = b
	if all.bySlot[b.slot] == nil {
		all.bySlot[b.slot] = map[string]*booking{}
	}
	all.bySlot[b.slot][b.instance] = b
	if all.byApp[b.app] == nil {
		all.byApp[b.app] = map[string]*booking{}
	}
	all.byApp[b.app][b.instance] = b
	b.node.booked[b.instance] = b
	b.node.reserved = b.node.reserved.Add(b.footprint)
	b.node.count(b.app, 1)
	b.node.touch()
}

// toStop marks a booking whose copy is to be stopped when it is listed.
func (b *booking) toStop() {
	b.stop = true
	b.node.touch()
}

func (all *bookings) remove(b *booking) {
	delete(all.byInstance, b.instance)
	if delete(all.bySlot[b.slot], b.instance); len(all.bySlot[b.slot]) == 0 {
		delete(all.bySlot, b.slot)
	}
	if delete(all.byApp[b.app], b.instance); len(all.byApp[b.app]) == 0 {
		delete(all.byApp, b.app)
	}
	delete(b.node.booked, b.instance)
	b.node.reserved = b.node.reserved.Sub(b.footprint)
	b.node.count(b.app, -1)
	b.node.touch()
	if len(b.node.booked) == 0 {
		b.node.reserved = resource.Vector{} // removes rounding errors
	}
}
