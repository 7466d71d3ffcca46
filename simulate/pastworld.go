package simulate

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
)

// begin sets what the groups and their machines are at the start.
func (w *world) begin(ctx context.Context) error {
	p := w.scenario.past
	if p == nil {
		return nil
	}
	for _, g := range w.machines.groups {
		// The provider has this target, also where it is below the weight of the machines.
		if target, known := p.of.start.targets[g.ID]; known {
			if err := g.cloud.SetTarget(ctx, target); err != nil {
				return err
			}
		}
	}
	for _, d := range p.drainsOfStart() {
		if !d.CordonSent.IsZero() && !d.InService() {
			w.machines.cordons[d.Node] = true
		}
	}
	return nil
}

// between returns the losses and the warnings between the ticks of a recording.
func (w *world) between() (out []moment) {
	p := w.scenario.past
	for k := 0; p != nil && k < len(p.of.ticks); k++ {
		t := &p.of.ticks[k]
		for _, one := range t.warned {
			if !one.at.Equal(t.at) {
				out = append(out, moment{one.at, func() {
					if due := w.announce(one.of); due.node != "" {
						w.machines.warnings = append(w.machines.warnings, due)
					}
				}})
			}
		}
		for i, l := range t.losses {
			if l.at.Equal(t.at) || i > 0 && t.losses[i-1].at.Equal(l.at) {
				continue
			}
			out = append(out, moment{l.at, func() {
				for _, g := range w.machines.groups {
					w.lose(g, t, l.at)
				}
			}})
		}
	}
	return out
}

// arrive makes the changes from outside that a recorded tick found.
func (w *world) arrive(ctx context.Context) error {
	p := w.scenario.past
	if p == nil {
		return nil
	}
	t := p.now()
	orders := t.orders
	orders.Removals = nil
	for _, r := range t.orders.Removals {
		if r.Node = w.removal(r); r.Node != "" {
			orders.Removals = append(orders.Removals, r)
		}
	}
	slices.SortFunc(orders.Removals, func(a, b api.Removal) int { return strings.Compare(a.Node, b.Node) })
	w.orders.now = &orders
	if t.of == nil {
		return nil
	}
	for _, g := range w.machines.groups {
		w.lose(g, t, t.at)
		for _, d := range t.drift {
			if d.Group != g.ID {
				continue
			}
			s, err := g.cloud.Snapshot(ctx)
			if err == nil {
				known := d.Found - d.LastTarget
				if last := p.last[g.ID].LastTarget; last != nil {
					known -= s.Target - *last - t.moved[g.ID] // the replay has this part of it
				}
				err = g.cloud.SetTarget(ctx, s.Target+known)
			}
			if err != nil && !errors.Is(err, pools.ErrTargetBounds) {
				return err
			}
		}
	}
	for _, one := range t.warned {
		if !one.at.Equal(t.at) {
			continue
		}
		if due := w.announce(one.of); due.node != "" {
			if err := w.warn(ctx, due); err != nil {
				return err
			}
		}
	}
	w.machines.advance(w.now)
	return nil
}

// announce returns the warning for the machine that took a recorded one, or for another of its group. Without a machine node is empty.
func (w *world) announce(one *life) warning {
	due := warning{w.now, w.scenario.past.idOf(one), pools.Interruption}
	if !w.machines.exists(due.node) {
		due.node = ""
	}
	if n := w.serving(one.group, 0); due.node == "" && n != nil && one.announced {
		due.node = n.ID
	}
	if one.reason == api.DrainRebalance {
		due.kind = pools.Rebalance
	}
	if due.node != "" && !one.taken.IsZero() {
		w.machines.group(one.group).cloud.Interrupt(due.node, maxTime(w.now, one.taken))
	}
	return due
}

// idOf returns the machine of the world that took a recorded one; empty: none did.
func (p *past) idOf(one *life) string {
	if one.initial {
		return one.id
	}
	if of := p.launches[one.group]; of != nil {
		return of.ids[one]
	}
	return ""
}

// twin returns the machine of the world that took a recorded one, if it still exists and is not cordoned.
func (w *world) twin(one *life) string {
	id := w.scenario.past.idOf(one)
	if n := w.machines.byID[id]; n != nil && !n.Cordoned.IsZero() || id != "" && !w.machines.exists(id) {
		return ""
	}
	return id
}

// lose lets as many machines of a group disappear as in the recording, and under another policy the same part of them: those that took the
// lost ones, and then those at the same places by age. at is the time of the losses.
func (w *world) lose(g *group, t *recordedTick, at time.Time) {
	var serving []string
	for _, n := range w.machines.nodes {
		if n.Group == g.ID && n.Cordoned.IsZero() {
			serving = append(serving, n.ID)
		}
	}
	var chosen []string
	var places []int
	lost := 0
	for _, l := range t.losses {
		if l.of.group != g.ID || !l.at.Equal(at) {
			continue
		}
		id := w.twin(l.of)
		if l.place < 0 {
			id := w.scenario.past.idOf(l.of)
			switch {
			case id == "" || slices.Contains(serving, id):
			case l.of.taken.IsZero():
				g.cloud.Lose(id)
			default: // the provider lists it for a while
				g.cloud.Interrupt(id, w.now)
			}
			continue
		}
		if lost++; slices.Contains(serving, id) {
			chosen = append(chosen, id)
		} else {
			places = append(places, l.place)
		}
	}
	if lost == 0 {
		return
	}
	had, count := max(t.before[g.ID], lost), lost
	if !w.scenario.past.recorded {
		count = int(math.Round(float64(lost) / float64(had) * float64(len(serving))))
	}
	count = min(len(serving), count)
	for i := 0; len(chosen) < count; i++ {
		at := i
		if i < len(places) {
			at = places[i] * len(serving) / had
		}
		for at %= len(serving); slices.Contains(chosen, serving[at]); at = (at + 1) % len(serving) {
		}
		chosen = append(chosen, serving[at])
	}
	for _, id := range chosen[:count] {
		g.cloud.Lose(id)
	}
}

// serving returns the machine of a group at that place by age that is not cordoned; nil: there is none.
func (w *world) serving(group string, place int) *Node {
	for _, n := range w.machines.nodes {
		if n.Group != group || !n.Cordoned.IsZero() {
			continue
		}
		if place == 0 {
			return n
		}
		place--
	}
	return nil
}

// removal returns the machine for an order to remove one of a group: the same one at each tick.
func (w *world) removal(r api.Removal) string {
	p := w.scenario.past
	key := r.Node + " " + r.At.String()
	if _, known := p.removals[key]; !known {
		p.removals[key] = ""
		if n := w.serving(r.Node, 0); n != nil {
			p.removals[key] = n.ID
		}
	}
	return p.removals[key]
}

// restrict lets the provider refuse during a tick what it refused then.
func (w *world) restrict() {
	p := w.scenario.past
	if p == nil || p.now().of == nil {
		return
	}
	p.readings = 0
	t, next := p.now(), p.decided(p.k+1)
	for _, g := range w.machines.groups {
		g.cloud.Refuse(cloud.SetTarget, t.refused[g.ID])
		s := snapshotOf(t, g.ID)
		g.cloud.Busy(s.Busy)
		if s.Unknown != nil {
			g.cloud.Refuse(cloud.Snapshot, errors.New(s.Unknown.Why))
		}
		if next != nil {
			if then := snapshotOf(next, g.ID); then.Short != "" {
				g.cloud.Quota(then.Fulfilled)
			}
		}
	}
}

// release ends the refusals of a tick.
func (w *world) release() {
	p := w.scenario.past
	if p == nil {
		return
	}
	next := p.decided(p.k + 1)
	for _, g := range w.machines.groups {
		g.cloud.Refuse(cloud.SetTarget, nil)
		g.cloud.Refuse(cloud.Snapshot, nil)
		g.cloud.Busy("")
		if next == nil || snapshotOf(next, g.ID).Short == "" {
			g.cloud.Quota(math.Inf(1))
		}
	}
	p.k++
}

// lower lowers the targets for which a termination was refused only afterwards.
func (w *world) lower(ctx context.Context) error {
	p := w.scenario.past
	if p == nil || len(p.lower) == 0 {
		return nil
	}
	for _, g := range w.machines.groups {
		if by := p.lower[g.ID]; by > 0 {
			s, err := g.cloud.Snapshot(ctx)
			if err == nil {
				err = g.cloud.SetTarget(ctx, max(s.Min, s.Target-by))
			}
			if err != nil {
				return err
			}
		}
	}
	clear(p.lower)
	return nil
}

// configure adopts the policy of a recorded tick.
func (w *world) configure(ctx context.Context) error {
	p := w.scenario.past
	if p == nil || !p.recorded {
		return nil
	}
	c := p.config(p.k)
	if reflect.DeepEqual(c, w.scenario.Pool) {
		return nil
	}
	w.scenario.Pool = c
	if err := w.loop.Reconfigure(c); err != nil {
		return err
	}
	return w.loop.Adopt(ctx)
}

func snapshotOf(t *recordedTick, group string) (s api.GroupSnapshot) {
	if i := slices.IndexFunc(t.groups, func(g api.GroupSnapshot) bool { return g.ID == group }); i >= 0 {
		s = t.groups[i]
	}
	return s
}
