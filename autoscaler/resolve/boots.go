package resolve

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// Boot is a machine of a group in one reading.
type Boot struct {
	ID, Market string
	Age        time.Duration // since the launch
	Joined     bool
	Arrived    bool // it joined since the last reading
	Boots      bool // it has not joined
	Leaves     bool // by order, and not because it did not join
	Overdue    bool // it has not joined in its time
}

// NextBoots returns b after a reading of all machines of the group. The ages of machines that joined count only if timed is set. failed
// reports whether another machine never joined.
func NextBoots(b api.Boots, machines []Boot, timed bool) (next api.Boots, failed bool) {
	next = b
	next.Times, next.Waiting = maps.Clone(b.Times), nil
	fail := func(id string) { next.Failed, next.Last, failed = next.Failed+1, id, true }
	there, joined := make(map[string]bool, len(machines)), false
	for _, m := range machines {
		counted, waits := b.Waiting[m.ID]
		there[m.ID] = true
		switch {
		case m.Joined && (waits || m.Arrived):
			if joined = true; timed {
				addBoot(&next, m.Market, m.Age)
			}
		case m.Boots || waits && !m.Joined:
			if m.Overdue && !counted && !m.Leaves {
				fail(m.ID)
			}
			if next.Waiting == nil {
				next.Waiting = map[string]bool{}
			}
			if len(next.Waiting) < api.MaxBooting {
				next.Waiting[m.ID] = counted || m.Overdue || m.Leaves
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.Waiting)) {
		if !there[id] && !b.Waiting[id] {
			fail(id)
		}
	}
	if joined {
		next.Failed, next.Last, failed = 0, "", false
	}
	return next, failed
}

// leaveByOrder returns b after these machines were chosen to leave. Those that have not joined end by order, so they are no failures.
func leaveByOrder(b api.Boots, chosen []plan.Choice) api.Boots {
	copied := false
	for _, one := range chosen {
		if counted, waits := b.Waiting[one.ID]; !waits || counted {
			continue
		}
		if !copied {
			b.Waiting, copied = maps.Clone(b.Waiting), true
		}
		b.Waiting[one.ID] = true
	}
	return b
}

// addBoot adds a boot time, in tenths of a second.
func addBoot(b *api.Boots, market string, boot time.Duration) {
	times, known := b.Times[market]
	if !known && len(b.Times) >= api.MaxBootMarkets {
		return
	}
	if b.Times == nil {
		b.Times = map[string][]float64{}
	}
	times = append(slices.Clone(times), math.Round(10*boot.Seconds())/10)
	b.Times[market] = times[max(0, len(times)-api.MaxBootTimes):]
}
