package placer

import (
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// booking is a copy that we gave to a node, until a heartbeat lists it.
type booking struct {
	slot
	instance  string
	node      *node
	footprint resource.Vector
	until     time.Time // when we stop waiting to see it
	stop      bool      // asked to stop before it was seen
}

// bookings holds every booking. The bookings of a node reserve room on it.
type bookings struct {
	byInstance map[string]*booking
	bySlot     map[slot]map[string]*booking // the same, by instance
}

func (all *bookings) add(b *booking) {
	all.byInstance[b.instance] = b
	if all.bySlot[b.slot] == nil {
		all.bySlot[b.slot] = map[string]*booking{}
	}
	all.bySlot[b.slot][b.instance] = b
	b.node.booked[b.instance] = b
	b.node.reserved = b.node.reserved.Add(b.footprint)
}

func (all *bookings) remove(b *booking) {
	delete(all.byInstance, b.instance)
	if delete(all.bySlot[b.slot], b.instance); len(all.bySlot[b.slot]) == 0 {
		delete(all.bySlot, b.slot)
	}
	delete(b.node.booked, b.instance)
	b.node.reserved = b.node.reserved.Sub(b.footprint)
	if len(b.node.booked) == 0 {
		b.node.reserved = resource.Vector{} // no rounding is left behind
	}
}
