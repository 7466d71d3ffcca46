package bootstrap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ErrOtherPool: a plan is of another cluster or pool than the one that runs.
var ErrOtherPool = errors.New("the plan is of another pool")

// Update makes the plan the one that is followed, and returns an error, with the
// plan before kept, if it is none to follow. It does not wait for any process:
// those that differ are replaced one by one, the others are not touched. Nobody
// may change the plan afterwards.
func (b *Bootstrap) Update(p Plan) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("bootstrap plan: %w", err)
	}
	removed, err := b.replan(p)
	if err != nil {
		return fmt.Errorf("bootstrap plan: %w", err)
	}
	b.stream.expect(p.Tick)
	revision := b.stream.announce()
	for _, s := range removed {
		s.retire(revision)
	}
	select {
	case b.fresh <- struct{}{}:
	default:
	}
	return nil
}

// replan gives each signal of the plan its seat, and returns those that are not
// in it any more.
func (b *Bootstrap) replan(p Plan) (removed []*seat, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seats) > 0 && (p.Cluster != b.plan.Cluster || p.Pool != b.plan.Pool) {
		return nil, fmt.Errorf("%w: %s/%s, not %s/%s", ErrOtherPool, p.Cluster, p.Pool, b.plan.Cluster, b.plan.Pool)
	}
	maps.DeleteFunc(b.ending, func(_ string, s *seat) bool { return s.hasEnded() })
	seats := make([]*seat, len(p.Signals))
	for i, signal := range p.Signals {
		if seats[i] = b.seatLocked(signal.App); seats[i] != nil {
			continue
		}
		var trial Trial
		if signal.Shadow != nil {
			trial = pick(b.kept, signal, time.Now())
		}
		if seats[i], err = newSeat(b.means, signal, trial); err != nil {
			return nil, err
		}
		if before := b.ending[signal.App]; before != nil {
			seats[i].after = before.ended
		}
	}
	for i, s := range seats {
		s.replan(p.Signals[i])
	}
	for _, s := range b.seats {
		if !slices.Contains(seats, s) {
			removed = append(removed, s)
			if b.begun[s] {
				b.ending[s.app] = s
			}
			delete(b.begun, s)
		}
	}
	b.plan, b.seats = p, seats
	return removed, nil
}

// seatLocked returns the seat of an app, nil if it has none.
func (b *Bootstrap) seatLocked(app string) *seat {
	i := slices.IndexFunc(b.seats, func(s *seat) bool { return s.app == app })
	if i < 0 {
		return nil
	}
	return b.seats[i]
}
