package state

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
)

// others are the parties beside the autoscalers that change the groups of a pair: a human who sets targets, and a
// provider that does not list a group, reports it as stale, or fails to read it.
type others struct {
	r      *rand.Rand
	act    bool // on this day
	hidden map[string]bool
	stale  map[string]bool
	unread map[string]bool
	// lowered is the weight by which others lowered targets so far, and that of stale and hidden groups: the pool may
	// want so much less.
	lowered float64
	// cuts are the targets that a human lowered, in order.
	cuts []cut
	// added is the weight by which others raised targets, and that of hidden groups, so far.
	added float64
	// from has the target of a group before others raised it. Drift correction may lower it to that again.
	from map[string]int
}

// cut is a lowering of a target by a human.
type cut struct {
	at     time.Time
	weight float64
}

// cutSince returns by how much a human has lowered targets since then.
func (o *others) cutSince(then time.Time) (sum float64) {
	for _, c := range o.cuts {
		if !c.at.Before(then) {
			sum += c.weight
		}
	}
	return sum
}

func newOthers(seed uint64) others {
	r := rand.New(rand.NewPCG(seed, 2)) // of its own, so that the other events of a day stay the same
	return others{r: r, act: r.IntN(3) == 0, hidden: map[string]bool{}, stale: map[string]bool{}, unread: map[string]bool{}, from: map[string]int{}}
}

// byOthers lets another party change a group. The caller holds the lock.
func (w *pair) byOthers(g *cloud.Group) {
	id, before, o := g.ID(), w.real(g), &w.others
	w.lowest = min(w.lowest, w.targets())
	switch o.r.IntN(5) {
	case 0, 1:
		target := before.Min + o.r.IntN(before.Max-before.Min+1)
		err := g.Other().SetTarget(w.ctx, target)
		after := w.real(g).Target
		w.noteLocked("a human sets the target of %s to %d: %d -> %d, %v", id, target, before.Target, after, err)
		if after > before.Target {
			o.added += float64(after - before.Target)
			if _, raised := o.from[id]; !raised {
				o.from[id] = before.Target
			}
		} else if after < before.Target {
			if after <= o.from[id] { // otherwise it is still above what it was
				delete(o.from, id)
			}
			o.lowered += float64(before.Target - after)
			o.cuts = append(o.cuts, cut{time.Now(), float64(before.Target - after)})
			w.lost, w.lostAt = w.lost+float64(before.Target-after), time.Now()
		}
		w.lowest = min(w.lowest, w.targets())
	case 2:
		o.hidden[id] = !o.hidden[id]
		if o.hidden[id] {
			o.added += float64(before.Target)
			o.lowered += float64(before.Target)
		}
		w.noteLocked("group %s is hidden: %t", id, o.hidden[id])
	case 3:
		o.stale[id] = !o.stale[id]
		if o.stale[id] {
			o.lowered += float64(before.Target)
		}
		w.noteLocked("group %s is stale: %t", id, o.stale[id])
	case 4:
		o.unread[id] = !o.unread[id]
		w.noteLocked("group %s cannot be read: %t", id, o.unread[id])
	}
}

// hidden reports whether the provider does not list a group.
func (w *pair) hidden(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.others.hidden[id]
}

// seen returns what the provider shows of a group.
func (w *pair) seen(g *cloud.Group) (s pools.GroupSnapshot, err error) {
	s, err = g.Snapshot(w.ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.others.unread[g.ID()] {
		return pools.GroupSnapshot{}, errors.New("the api is down")
	}
	s.Stale = w.others.stale[g.ID()]
	return s, err
}

// loose reports whether the weight of a group may change without a decision about the need.
func (w *pair) loose() bool { return w.shortages || w.others.act }
