package harmonizer

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

const (
	// loopPeriod is the longest delay of a deadline, and how long changes of the counts
	// are collected before they are published.
	loopPeriod = 200 * time.Millisecond
	// applyPause is the time between two parts of a large event. Heartbeats are processed in
	// between.
	applyPause = time.Millisecond
	// nodesSaveEvery is the shortest time between two saves of the nodes.
	nodesSaveEvery = time.Minute
	// probePause is the shortest time between two loopback probes while the disruption limit
	// holds.
	probePause = time.Second
)

func (h *Harmonizer) loop(ctx context.Context) {
	defer close(h.ended)
	if h.recording != nil {
		defer h.recording.record.flush()
	}
	ticker := time.NewTicker(loopPeriod)
	defer ticker.Stop()
	h.ticked = time.Now()
	more := time.NewTimer(0) // while the machine has pending work
	defer more.Stop()
	for {
		if h.machine.Busy() {
			more.Reset(applyPause)
		} else {
			more.Stop()
		}
		// Select picks among ready channels at random, so heartbeats are processed between the
		// slices of a pass of any size.
		select {
		case <-ctx.Done():
			return
		case ev := <-h.busEvents:
			h.step(time.Now(), ev)
		case ev := <-h.rows:
			h.step(time.Now(), ev)
		case answer := <-h.queries:
			answer(time.Now())
		case <-more.C:
			h.advance(time.Now())
		case <-ticker.C:
			h.tick(time.Now())
		}
	}
}

// advance passes the time to the machine. Queued events come first, so that a stalled loop
// does not mistake its own delay for silent nodes. If the loop stalled for longer than a
// heartbeat period, the machine restarts as if the bus had just come up.
func (h *Harmonizer) advance(now time.Time) {
	for range len(h.busEvents) {
		h.step(now, <-h.busEvents)
	}
	if h.busUp && now.Sub(h.ticked) > h.cfg.Apps.HeartbeatPeriod {
		h.counters.add("held_up", 1)
		h.log.Warn("loop stalled, state incomplete until all nodes sent heartbeats", "for", now.Sub(h.ticked))
		h.step(now, apps.BusUp{})
	}
	h.ticked = now
	if len(h.refused) > 0 {
		refused := h.refused
		h.refused = nil
		h.step(now, apps.NotSent{Nudges: refused})
	}
	h.step(now, apps.Tick{})
}

func (h *Harmonizer) tick(now time.Time) {
	h.advance(now)
	if h.placers != nil {
		if due := h.machine.TakeUnplaced(); due != nil {
			h.placers.queue(due)
		}
	}
	if h.comparer != nil {
		h.comparer.Check(now)
	}
	if h.watched != nil {
		h.watched.expire(now)
	}
	h.probe(now)
	if h.ports.Lease != nil && !h.cfg.Shadow {
		h.noLeader.watch(now, h.Leading() || h.leader() != "", h.log)
	}
	if h.Leading() {
		h.publish(now)
		h.saveNodes(now)
	}
}

// step passes one event to the machine, and passes on its nudges and findings. In shadow mode
// the nudges of the other harmonizer are only compared; the machine decides without them.
func (h *Harmonizer) step(now time.Time, ev apps.Event) {
	h.noteEvent(now, ev)
	switch ev := ev.(type) {
	case apps.Nudged:
		if h.cfg.Shadow {
			return
		}
	case apps.Confirmed:
		if h.watched == nil {
			return
		}
		h.watched.confirm(ev, h.machine.View().PoolOf)
		if len(ev.Waiting) == 0 {
			return
		}
	case apps.Never:
		h.never.note(ev)
		return
	case apps.Scheduler:
		h.noRows.note(ev.SchedulerState)
		return
	}
	began := time.Now()
	nudges, findings := h.machine.Step(now, ev)
	h.steps.observe(time.Since(began))
	h.reportFindings(findings)
	if h.comparer != nil {
		h.comparer.Own(now, nudges)
	}
	if !h.Leading() {
		return
	}
	nudges = h.noRows.serve(nudges, h.machine.View().PoolOf)
	var changed []apps.Memory
	if h.ports.Memory != nil {
		changed = h.machine.Memories()
	}
	if len(changed) > 0 || len(nudges) > 0 {
		h.refused = append(h.refused, h.outbox.queueNudges(changed, nudges)...)
	}
}

// noteEvent counts an event, and records it, before the machine processes it.
func (h *Harmonizer) noteEvent(now time.Time, ev apps.Event) {
	if h.recording != nil {
		h.recording.receive(ev)
	}
	switch ev := ev.(type) {
	case apps.Heartbeat:
		h.counters.add("heartbeats", 1)
	case apps.Exit:
		h.counters.add("exits", 1)
	case apps.Updated:
		h.counters.add("updates", 1)
		h.ports.Source.Refresh()
	case apps.Nudged:
		h.counters.add("nudges_received", 1)
		if h.comparer != nil {
			h.comparer.Received(now, ev.Nudge)
		}
	case apps.NotSent:
		h.counters.add("nudges_not_sent", len(ev.Nudges))
	case apps.ExpectedBegin:
		h.reading = now
	case apps.ExpectedUnreadable:
		h.counters.add("rows_unreadable", 1)
	case apps.ExpectedComplete:
		h.counters.add("source_complete", 1)
		if !h.reading.IsZero() {
			h.steps.pass.Store(int64(now.Sub(h.reading)))
			h.reading = time.Time{}
		}
	case apps.ExpectedFailed:
		h.counters.add("source_failed", 1)
	case apps.ExpectedLost:
		h.counters.add("source_lost", 1)
	case apps.BusUp:
		h.busUp = true
	case apps.BusDown:
		h.busUp = false
		h.counters.add("bus_down", 1)
	}
}

// reportFindings counts and logs the findings. The leader also publishes them.
func (h *Harmonizer) reportFindings(findings []api.AppFinding) {
	if len(findings) == 0 {
		return
	}
	for _, f := range findings {
		h.found[cause{f.Kind, f.Why}]++
		if f.Kind == api.AppFindingRefused {
			h.logLimit.Do(func() { h.log.Warn("malformed message dropped", "finding", f.String()) })
		}
		if l := slog.Level(apps.SeverityOf(f.Kind).Level()); h.log.Enabled(context.Background(), l) {
			h.log.Log(context.Background(), l, "finding", "finding", f.String())
		}
	}
	if h.Leading() {
		h.publisher.reportFindings(findings)
	}
}

// probe sends a loopback probe that proves that the bus delivers: twice in each heartbeat
// period, and more often while the disruption limit waits for it. In shadow mode nothing may
// be published, so a bus that is up counts as proof.
func (h *Harmonizer) probe(now time.Time) {
	pause := h.cfg.Apps.HeartbeatPeriod / 2
	if h.machine.View().DisruptionLimit().Holds() {
		pause = min(pause, probePause)
	}
	if !h.busUp || now.Sub(h.probedAt) < pause {
		return
	}
	switch {
	case h.cfg.Shadow:
		h.probedAt = now
		h.step(now, apps.LoopbackProbe{})
	case h.Leading():
		h.probedAt = now
		h.publisher.queueProbe()
	}
}

// saveNodes saves the nodes, so that the next leader has the list of nodes to wait for. It saves
// only a complete state.
func (h *Harmonizer) saveNodes(now time.Time) {
	if h.ports.Memory == nil || now.Sub(h.nodesSavedAt) < nodesSaveEvery {
		return
	}
	if complete, _ := h.machine.View().Complete(); complete {
		h.nodesSavedAt = now
		h.outbox.queueNodes(h.machine.View().Nodes())
	}
}

// publish queues the counts of the pools that changed, and of every pool once in each
// heartbeat period.
func (h *Harmonizer) publish(now time.Time) {
	for _, pool := range h.pools() {
		revision := h.machine.View().Revision(pool) + h.never.revision(pool)
		due, whole := h.published.due(now, pool, revision)
		if !due {
			continue
		}
		counts := h.never.without(h.machine.View().Counts(now, pool))
		h.published.record(now, pool, revision, len(counts.Apps), whole)
		h.publisher.queueCounts(counts)
		h.countWriter.queueCounts(counts, whole)
	}
}

func (h *Harmonizer) pools() []string {
	names := h.machine.View().Pools()
	for _, p := range h.cfg.Pools {
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	return names
}
