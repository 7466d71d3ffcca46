package harmonizer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

const (
	lookEvery   = 200 * time.Millisecond // at the lease
	loadTimeout = 10 * time.Second
	loadPause   = time.Second // after a load that failed
)

// lead has the machine lead for as long as the lease is held; without a lease,
// always. In shadow mode it leads on its own, and takes nothing from anybody.
func (h *Harmonizer) lead(ctx context.Context) error {
	if h.cfg.Shadow {
		return h.ask(ctx, func(now time.Time) { h.begin(now, Remembered{}) })
	}
	if h.ports.Lease == nil {
		h.serve(ctx, nil)
		return nil
	}
	for {
		if err := h.ports.Lease.Acquire(ctx); err != nil {
			return fmt.Errorf("wait for the lease: %w", err)
		}
		h.hold(ctx)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// hold keeps the lease until it is lost, or ctx has ended and nothing is sent any
// more.
func (h *Harmonizer) hold(ctx context.Context) {
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	lost := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		defer close(lost)
		if err := h.ports.Lease.Run(keep); err != nil {
			h.log.Warn("lease lost", "err", err)
		}
	})
	h.serve(ctx, lost)
	if ctx.Err() != nil {
		<-h.outbox.ended
	}
}

// serve leads whenever the lease lasts, until it is lost or ctx ends. It may run
// out and come back: if nobody else took it in between, it is the same.
func (h *Harmonizer) serve(ctx context.Context, lost <-chan struct{}) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	leading := false
	var again time.Time // no load before
	for {
		switch left := h.left(); {
		case left && !leading && time.Now().After(again):
			err := h.takeOver(ctx)
			leading, again = err == nil, time.Now().Add(loadPause)
			if err != nil && ctx.Err() == nil {
				h.log.Error("take over", "err", err)
			}
			continue
		case !left && leading:
			leading = false
			h.giveUp(ctx, "lease has run out")
		}
		select {
		case <-ctx.Done():
			return
		case <-lost:
			h.giveUp(ctx, "lease is lost")
			return
		case <-look.C:
		}
	}
}

func (h *Harmonizer) left() bool { return h.ports.Lease == nil || h.ports.Lease.Left() > 0 }

// takeOver begins to lead with what the one before left.
func (h *Harmonizer) takeOver(ctx context.Context) error {
	var r Remembered
	if h.ports.Memory != nil {
		load, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		var err error
		if r, err = h.ports.Memory.Load(load); err != nil {
			return fmt.Errorf("load memory: %w", err)
		}
	}
	return h.ask(ctx, func(now time.Time) { h.begin(now, r) })
}

func (h *Harmonizer) giveUp(ctx context.Context, why string) {
	_ = h.ask(ctx, func(now time.Time) { h.follow(now, why) }) // fails only if the loop has ended
}

// begin makes the machine lead.
func (h *Harmonizer) begin(now time.Time, r Remembered) {
	if !h.cfg.Shadow {
		h.counters.add("terms", 1)
		h.log.Info("leading", "remembered_apps", len(r.Apps), "remembered_nodes", len(r.Nodes))
	}
	h.terms++
	h.outbox.begin(h.terms)
	h.term.Store(h.terms)
	clear(h.published)
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
	unsent := append(h.refused, h.outbox.clear()...)
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
