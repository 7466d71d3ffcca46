package drain

import (
	"context"
	"errors"
	"time"
)

// jitter is by how much a clock may go back without anybody minding.
const jitter = time.Second

// clock notices that the clock was put back.
type clock struct{ last time.Time }

// back returns by how much the clock was put back since it was told the last time,
// at least: less than 0, or 0 if it was not. Times that carry a monotonic reading
// show the whole of it.
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

// tell has the records go back with the clock, so that what is left of each wait
// stays what it was. A record that is ahead of the clock all the same was put
// before it was put back, by a machine that did not live to see it; it is taken as
// if it was put now. Where that cannot be written it counts nevertheless, and is
// written with the next step of the node.
func (m *Machine) tell(ctx context.Context, now time.Time) error {
	back := m.clock.back(now)
	now = now.Round(0)
	var behind []Record
	for _, r := range m.Records() {
		moved := r.moved(back)
		if ahead := moved.last().Sub(now); ahead > 0 {
			moved = moved.moved(-ahead)
		}
		if moved != r && r.Validate() == nil {
			m.keep(moved)
			behind = append(behind, moved)
		}
	}
	failed := make([]error, len(behind))
	err := m.each(ctx, len(behind), func(i int) { failed[i] = m.put(ctx, behind[i]) })
	return errors.Join(append(failed, err)...)
}
