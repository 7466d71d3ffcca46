package harmonizer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// Run works until parent ends, then returns nil. It returns an error if a port fails
// permanently.
func (h *Harmonizer) Run(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var wg sync.WaitGroup
	work := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	work("subscribe to the bus", func(ctx context.Context) error { return h.ports.Bus.Listen(ctx, h) })
	work("watch the expected state", func(ctx context.Context) error { return h.ports.Source.Watch(ctx, h.reportRows) })
	work("lead", h.lead)
	if users := h.cfg.CloudFoundry.Users; users != nil {
		work("count users", func(ctx context.Context) error {
			return users.Run(ctx, func() { h.counters.add("users_failed", 1) })
		})
	}
	if !h.cfg.Shadow {
		work("send nudges", func(ctx context.Context) error { return h.outbox.run(ctx, h.Enqueue) })
		work("publish", h.publisher.run)
		if h.placers != nil {
			work("placer requests", h.placers.run)
		}
		work("write metrics", h.countWriter.run)
	}
	h.loop(ctx)
	wg.Wait()
	h.term.Store(0)
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

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
