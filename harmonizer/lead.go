package harmonizer

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// lead has the machine lead for as long as the elector says; in shadow mode it leads
// on its own.
func (h *Harmonizer) lead(ctx context.Context) error {
	begin := func(ctx context.Context, r Remembered) error {
		return h.ask(ctx, func(now time.Time) { h.begin(now, r) })
	}
	if h.cfg.Shadow {
		return begin(ctx, Remembered{})
	}
	e := elector{
		lease: h.ports.Lease, memory: h.ports.Memory, log: h.log,
		begin: begin,
		follow: func(ctx context.Context, why string) {
			_ = h.ask(ctx, func(now time.Time) { h.follow(now, why) }) // fails only if the loop has ended
		},
		sent: h.outbox.ended,
	}
	return e.run(ctx)
}

func (h *Harmonizer) begin(now time.Time, r Remembered) {
	if !h.cfg.Shadow {
		h.counters.add("terms", 1)
		h.log.Info("leading", "remembered_apps", len(r.Apps), "remembered_nodes", len(r.Nodes))
	}
	h.terms++
	h.outbox.begin(h.terms)
	h.term.Store(h.terms)
	clear(h.published.last)
	h.canaried, h.counted = time.Time{}, now
	h.step(now, apps.Lead{Memories: r.Apps, Nodes: r.Nodes})
}

// follow makes it follow. What waited to be sent never was, and what waited to be
// saved is of no use to the next one, which has begun with what was saved.
func (h *Harmonizer) follow(now time.Time, why string) {
	if !h.Leading() {
		return
	}
	h.log.Warn("following", "why", why)
	h.term.Store(0)
	unsent := append(h.refused, h.outbox.begin(0)...)
	h.refused = nil
	h.step(now, apps.Follow{}) // first, or what was not sent is nudged again at once
	if len(unsent) > 0 {
		h.step(now, apps.NotSent{Nudges: unsent})
	}
}

// confirm asks the loop which of the nudges that waited are still right: none if it
// does not answer, all if it has ended, for then nothing was heard since.
func (h *Harmonizer) confirm(ctx context.Context, nudges []apps.Nudge) []bool {
	right := make([]bool, len(nudges))
	if len(nudges) == 0 {
		return right
	}
	err := h.ask(ctx, func(now time.Time) {
		for i, n := range nudges {
			right[i] = h.machine.Confirm(now, n)
		}
	})
	for i := range right {
		right[i] = right[i] || errors.Is(err, ErrNotRunning)
	}
	return right
}
