package aws

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// group is what both kinds have in common.
type group struct {
	p    *Provider
	id   string
	turn chan struct{} // held by who writes: looking and writing are one step

	mu    sync.Mutex
	began uint64   // of the read
	last  *reading // nil: the last round did not find the group
	own   own
}

// ID implements pools.Group.
func (g *group) ID() string { return g.id }

// Snapshot implements pools.Group: what the last round read, with what was
// written since. It makes no request.
func (g *group) Snapshot(context.Context) (pools.GroupSnapshot, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return pools.GroupSnapshot{}, fmt.Errorf("group %s was not found any more", g.id)
	}
	return g.own.show(g.last.snapshot()), nil
}

// update takes over what a round read.
func (g *group) update(began uint64, r *reading) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if began < g.began {
		return
	}
	g.began, g.last = began, r
	if r != nil {
		g.own.confirm(g.p.cfg.Now(), began, r.Target)
	}
}

// inTurn calls do while no other call writes to the group: what is read and what is
// written are one step. An error says what was attempted.
func (g *group) inTurn(ctx context.Context, what string, do func() error) error {
	var err error
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
		err = do()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// wrote notes the target as it is after a write of ours.
func (g *group) wrote(target int) {
	moment := g.p.next()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own.target = &ownTarget{target, g.p.cfg.Now(), moment}
}

// note changes what we remember of our writes.
func (g *group) note(change func(*own)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.own)
}

// overlaid puts what we wrote over a reading that was made for a write.
func (g *group) overlaid(r *reading) *reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.own.show(r.snapshot())
	r.Target = s.Target
	for n := range r.instances {
		r.instances[n].State = s.Instances[n].State
	}
	return r
}

// victims returns those of the ids that are to be ended: each once, and none
// that is on its way out or gone. ErrNotOwned and ErrRefused (protected, or asked
// for with an unknown outcome) mean that nothing is to be ended.
func (g *group) victims(ctx context.Context, r *reading, ids []string) ([]instance, error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var chosen []instance
	var missing []string
	for _, id := range ids {
		n, listed := r.at[id]
		switch {
		case !listed && g.endedByUs(id):
		case !listed:
			missing = append(missing, id)
		case r.instances[n].State == pools.InstanceTerminating:
		case r.instances[n].Protected:
			return nil, fmt.Errorf("%s: %w: it is protected from scale-in", id, pools.ErrRefused)
		case g.unsure(id):
			return nil, fmt.Errorf("%s: asked for a moment ago, and it is not known yet whether Amazon got that", id)
		default:
			chosen = append(chosen, r.instances[n])
		}
	}
	return chosen, g.p.aws.absent(ctx, missing)
}

// unsure reports whether an earlier request to end the instance may still show.
func (g *group) unsure(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.own.unsure[id]
	return ok && g.p.cfg.Now().Sub(at) <= settling
}

// endedByUs reports whether Amazon ends the instance for us; it may be said
// elsewhere still that it runs.
func (g *group) endedByUs(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.own.ended[id]
	return ok
}

// inBounds returns pools.ErrTargetBounds for a target that the group cannot have.
func (r *reading) inBounds(target int) error {
	if highest := min(r.Max, math.MaxInt32); target < r.Min || target > highest {
		return fmt.Errorf("%w: %d to %d", pools.ErrTargetBounds, r.Min, highest)
	}
	return nil
}

func weightOf(instances []instance) float64 {
	var sum float64
	for _, i := range instances {
		sum += i.Weight
	}
	return sum
}

const (
	// settling is how long a read may not show what we wrote; Amazon's are
	// consistent within seconds.
	settling = time.Minute
	// leaving is how long an instance that we ended may be listed as if it lived.
	leaving = 15 * time.Minute
)

// own is what this process wrote to a group, for as long as reads may not show
// it. It is not safe for concurrent use.
type own struct {
	target  *ownTarget
	ended   map[string]time.Time // instances that Amazon ends for us
	unsure  map[string]time.Time // of which we do not know whether it got the request
	lowered map[string]time.Time // still to be ended; the target is lowered by them already
	begun   map[string]begun     // repairs in place, by instance
	halted  map[string]time.Time // instances that were to be stopped as a fence, and when that was asked for
	still   map[string]time.Time // those that a read found not to run
}

type ownTarget struct {
	value  int
	at     time.Time
	moment uint64
}

func newOwn() own {
	return own{
		ended: map[string]time.Time{}, unsure: map[string]time.Time{}, lowered: map[string]time.Time{},
		begun: map[string]begun{}, halted: map[string]time.Time{}, still: map[string]time.Time{},
	}
}

// show puts what we wrote over what was read.
func (o *own) show(s pools.GroupSnapshot) pools.GroupSnapshot {
	if o.target != nil {
		s.Target = o.target.value
	}
	for n := range s.Instances {
		if _, ended := o.ended[s.Instances[n].ID]; ended {
			s.Instances[n].State = pools.InstanceTerminating
		}
	}
	return s
}

// confirm forgets what a read that began at that moment shows by itself, and
// what it should show by now.
func (o *own) confirm(now time.Time, began uint64, target int) {
	if t := o.target; t != nil && (now.Sub(t.at) > settling || began > t.moment && target == t.value) {
		o.target = nil
	}
	forget(o.ended, now, leaving)
	forget(o.lowered, now, leaving)
	forget(o.unsure, now, settling)
	forget(o.halted, now, leaving)
	forget(o.still, now, leaving)
	maps.DeleteFunc(o.begun, func(_ string, b begun) bool { return now.Sub(b.at) > leaving })
}

func forget(times map[string]time.Time, now time.Time, after time.Duration) {
	maps.DeleteFunc(times, func(_ string, at time.Time) bool { return now.Sub(at) > after })
}
