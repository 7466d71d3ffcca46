package harmonizer

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// lead makes the machine lead while the elector holds the lease. In shadow mode the machine
// leads without a lease.
func (h *Harmonizer) lead(ctx context.Context) error {
	begin := func(ctx context.Context, r SavedState) error {
		return h.call(ctx, func(now time.Time) { h.begin(now, r) })
	}
	if h.cfg.Shadow {
		return begin(ctx, SavedState{})
	}
	e := elector{
		lease: h.ports.Lease, memory: h.ports.Memory, log: h.log,
		begin: begin,
		follow: func(ctx context.Context, why string) {
			_ = h.call(ctx, func(now time.Time) { h.follow(now, why) }) // fails only if the loop has ended
		},
		sent: h.outbox.ended,
	}
	return e.run(ctx)
}

func (h *Harmonizer) begin(now time.Time, r SavedState) {
	if !h.cfg.Shadow {
		h.counters.add("terms", 1)
		h.log.Info("leading", "remembered_apps", len(r.Apps), "remembered_nodes", len(r.Nodes))
	}
	h.terms++
	h.outbox.begin(h.terms)
	if h.watched != nil {
		h.watched.clear()
	}
	h.term.Store(h.terms)
	clear(h.published.last)
	h.probedAt, h.nodesSavedAt = time.Time{}, now
	h.step(now, apps.Lead{Memories: r.Apps, Nodes: r.Nodes})
}

// follow makes this harmonizer a follower. It returns unsent nudges to the machine. It drops
// unsaved memories: the next leader has loaded the saved ones.
func (h *Harmonizer) follow(now time.Time, why string) {
	if !h.Leading() {
		return
	}
	h.log.Warn("following", "why", why)
	h.term.Store(0)
	if h.watched != nil {
		h.watched.clear()
	}
	unsent := append(h.refused, h.outbox.begin(0)...)
	h.refused = nil
	h.step(now, apps.Follow{}) // first: otherwise the unsent nudges would be sent again at once
	if len(unsent) > 0 {
		h.step(now, apps.NotSent{Nudges: unsent})
	}
}

// confirm has the loop check which of the waiting nudges are still right. If the loop does not
// answer, no nudge is right. If the loop has ended, all are, because no event came since.
func (h *Harmonizer) confirm(ctx context.Context, nudges []apps.Nudge) []bool {
	right := make([]bool, len(nudges))
	if len(nudges) == 0 {
		return right
	}
	err := h.call(ctx, func(now time.Time) {
		for i, n := range nudges {
			right[i] = h.machine.Confirm(now, n)
		}
	})
	for i := range right {
		right[i] = right[i] || errors.Is(err, ErrNotRunning)
	}
	return right
}
