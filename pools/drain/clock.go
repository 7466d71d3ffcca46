package drain

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// jitter is the largest backward step of the clock that is ignored.
const jitter = time.Second

// clock detects that the system clock was set back.
type clock struct{ last time.Time }

// back returns the negative step by which the clock was set back since the last call, at least. It
// returns 0 if the clock was not set back. Times with a monotonic reading show the whole step.
func (c *clock) back(now time.Time) time.Duration {
	last := c.last
	c.last = now
	if last.IsZero() {
		return 0
	}
	step := now.Round(0).Sub(last.Round(0)) - max(0, now.Sub(last))
	if step > -jitter {
		return 0
	}
	return step
}

// setBack reports whether the clock was set back since the last call. Then the next call of back returns the step.
func (c *clock) setBack(now time.Time) bool {
	probe := *c
	if probe.back(now) != 0 {
		return true
	}
	*c = probe
	return false
}

// followClock moves the records back with the clock, so that each remaining wait stays the same. A record
// may still be ahead of the clock: an earlier process wrote it before the step back. Such a record
// is moved to now. If it cannot be written, it applies in memory and is written with the next step
// of the node.
func (m *Machine) followClock(ctx context.Context, now time.Time) error {
	back := m.clock.back(now)
	now = now.Round(0)
	var behind []api.Drain
	for _, r := range m.Records() {
		moved := shiftedBy(r, back)
		if ahead := lastChange(moved).Sub(now); ahead > 0 {
			moved = shiftedBy(moved, -ahead)
		}
		if moved != r && ValidateRecord(r) == nil {
			m.setRecord(moved)
			behind = append(behind, moved)
		}
	}
	failed := make([]error, len(behind))
	err := m.each(ctx, len(behind), func(i int) { failed[i] = m.putRecord(ctx, behind[i]) })
	return errors.Join(append(failed, err)...)
}
