package aws

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// group is the common part of both kinds of groups.
type group struct {
	p    *Provider
	id   string
	turn chan struct{} // held by a write, which reads and writes in one step

	mu    sync.Mutex
	began uint64   // start of the read
	last  *reading // nil: the latest read did not find the group
	// unread is why the latest read could not read the group: last is an earlier reading, or nil.
	unread error
	own    own
}

// ID implements pools.Group.
func (g *group) ID() string { return g.id }

// Snapshot implements pools.Group. It returns the latest read, overlaid with later writes. It sends
// no request.
func (g *group) Snapshot(context.Context) (pools.GroupSnapshot, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unread != nil {
		return pools.GroupSnapshot{}, g.unread
	}
	if g.last == nil {
		return pools.GroupSnapshot{}, fmt.Errorf("group %s no longer exists at AWS", g.id)
	}
	return g.own.show(g.last.snapshot()), nil
}

// update stores the result of a read. After an error the earlier reading stays.
func (g *group) update(began uint64, r *reading, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if began < g.began {
		return
	}
	g.began, g.unread = began, err
	if err != nil {
		return
	}
	g.last = r
	if r != nil {
		g.own.confirm(g.p.cfg.Now(), began, r.Target)
	}
}

// kind returns the kind of the group. One that was never read is known by its name: AWS gives fleets an id with a prefix.
func (g *group) kind() Kind {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil {
		return Kind(g.last.Kind)
	}
	if strings.HasPrefix(g.id, "sfr-") {
		return SpotFleet
	}
	return AutoScaling
}

// marksOf returns the marks that the latest reading has of an instance.
func (g *group) marksOf(instance string) (stale, cordoned, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return false, false, false
	}
	n, known := g.last.at[instance]
	if !known {
		return false, false, false
	}
	return g.last.instances[n].Stale, g.last.instances[n].Cordoned, true
}

// facts returns the facts of the instances of the latest reading.
func (g *group) facts() map[string]facts {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return nil
	}
	out := make(map[string]facts, len(g.last.instances))
	for _, i := range g.last.instances {
		out[i.ID] = i.facts
	}
	return out
}

// inTurn calls do while no other call writes to the group, so that do can read and write in one
// step. It adds what, the attempted action, to an error.
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

// wrote records the target after a write of this process.
func (g *group) wrote(target int) {
	moment := g.p.next()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own.target = &ownTarget{target, g.p.cfg.Now(), moment}
}

// updateOwn changes the record of this process's writes.
func (g *group) updateOwn(change func(*own)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.own)
}

// overlaid overlays a fresh reading with this process's writes.
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

// victims returns the instances to terminate: each once, and without those that are terminating or
// gone. After ErrNotOwned or ErrRefused (protected), or while an earlier termination is
// unconfirmed, nothing may be terminated.
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
		case r.instances[n].State == api.InstanceTerminating:
		case r.instances[n].Protected:
			return nil, fmt.Errorf("%s: %w: it is protected from scale-in", id, pools.ErrRefused)
		case g.unconfirmed(id):
			return nil, fmt.Errorf("%s: an earlier termination is unconfirmed: wait up to a minute for AWS to show its result", id)
		default:
			chosen = append(chosen, r.instances[n])
		}
	}
	return chosen, g.p.aws.absent(ctx, missing)
}

// unconfirmed reports whether an earlier termination may have an effect that reads do not show yet.
func (g *group) unconfirmed(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.own.unconfirmed[id]
	return ok && g.p.cfg.Now().Sub(at) <= settling
}

// endedByUs reports whether this process terminated the instance. Reads may still show it as
// running.
func (g *group) endedByUs(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.own.ended[id]
	return ok
}

// inBounds returns pools.ErrTargetBounds for an invalid target of the group.
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
	// settling is the time after which reads show a write. Reads at AWS are consistent within
	// seconds.
	settling = time.Minute
	// leaving is how long a terminated instance may be listed as running.
	leaving = 15 * time.Minute
)

// own is the record of this process's writes to a group, until reads show them. It must not be used
// concurrently.
type own struct {
	target      *ownTarget
	ended       map[string]time.Time // instances that AWS is terminating after a request of this process.
	unconfirmed map[string]time.Time // instances whose termination has an unknown result.
	lowered     map[string]time.Time // instances to terminate, by whose weight the target is already lowered.
	begun       map[string]begun     // repairs in place, by instance.
	halted      map[string]time.Time // instances to stop as a fence, and the time of the request.
	still       map[string]time.Time // instances that one read found stopped.
}

type ownTarget struct {
	value  int
	at     time.Time
	moment uint64
}

func newOwn() own {
	return own{
		ended: map[string]time.Time{}, unconfirmed: map[string]time.Time{}, lowered: map[string]time.Time{},
		begun: map[string]begun{}, halted: map[string]time.Time{}, still: map[string]time.Time{},
	}
}

// show overlays a snapshot with the writes.
func (o *own) show(s pools.GroupSnapshot) pools.GroupSnapshot {
	if o.target != nil {
		s.Target = o.target.value
	}
	for n := range s.Instances {
		if _, ended := o.ended[s.Instances[n].ID]; ended {
			s.Instances[n].State = api.InstanceTerminating
		}
	}
	return s
}

// confirm drops records that the read of that moment shows, and records that are too old.
func (o *own) confirm(now time.Time, began uint64, target int) {
	if t := o.target; t != nil && (now.Sub(t.at) > settling || began > t.moment && target == t.value) {
		o.target = nil
	}
	forget(o.ended, now, leaving)
	forget(o.lowered, now, leaving)
	forget(o.unconfirmed, now, settling)
	forget(o.halted, now, leaving)
	forget(o.still, now, leaving)
	maps.DeleteFunc(o.begun, func(_ string, b begun) bool { return now.Sub(b.at) > leaving })
}

func forget(times map[string]time.Time, now time.Time, after time.Duration) {
	maps.DeleteFunc(times, func(_ string, at time.Time) bool { return now.Sub(at) > after })
}
