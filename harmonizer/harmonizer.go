package harmonizer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	// period of the loop: how late a deadline is seen at most, and how long
	// changes of the counts are gathered before they are published.
	period = 200 * time.Millisecond
	// backlog of events; whoever tells more waits.
	backlog = 1024
)

// Bus is where nodes are heard and nudges are sent.
type Bus interface {
	// Listen tells h what it hears until ctx ends: first of all BusUp, when it
	// hears everything.
	Listen(ctx context.Context, h *Harmonizer) error
	// Nudge sends without waiting for an answer; not sent is an error.
	Nudge(n apps.Nudge) error
	// PublishCounts sends without waiting for an answer.
	PublishCounts(c message.Counts) error
}

// Source is where the expected state comes from.
type Source interface {
	// Watch tells every row, ExpectedComplete, and then each change, until ctx
	// ends; ExpectedLost when it has to begin anew.
	Watch(ctx context.Context, tell Tell) error
}

// Tell hands over an event; it waits while too many are waiting. Its error is
// that of ctx.
type Tell func(ctx context.Context, ev apps.Event) error

// Ports are what a Harmonizer works with.
type Ports struct {
	Bus     Bus
	Source  Source
	Metrics Metrics // nil: counts are not written
}

// Harmonizer is the loop around an apps.Machine. Make it with New.
type Harmonizer struct {
	cfg      Config
	ports    Ports
	log      *slog.Logger
	events   chan apps.Event
	queries  chan func(now time.Time)
	recorder *recorder
	complain rate.Sometimes

	// Owned by the goroutine of Run.
	machine   *apps.Machine
	hears     bool // the bus is up
	ticked    time.Time
	published map[string]publication
	counters  map[string]uint64
}

// publication is when a pool's counts went out, and which.
type publication struct {
	at       time.Time
	revision uint64
}

// New returns a harmonizer, or says what is wrong with the configuration, whose
// zeros are defaults.
func New(cfg Config, ports Ports, log *slog.Logger) (*Harmonizer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("harmonizer: %w", err)
	}
	return &Harmonizer{
		cfg:       cfg,
		ports:     ports,
		log:       log,
		events:    make(chan apps.Event, backlog),
		queries:   make(chan func(time.Time)),
		recorder:  newRecorder(cfg.Cluster, ports.Metrics, log),
		complain:  rate.Sometimes{Interval: time.Minute},
		machine:   apps.NewMachine(cfg.Apps),
		published: map[string]publication{},
		counters:  map[string]uint64{},
	}, nil
}

// Run works until parent ends, then returns nil, or until a port fails for good.
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
	work("listen to the bus", func(ctx context.Context) error { return h.ports.Bus.Listen(ctx, h) })
	work("watch the expected state", func(ctx context.Context) error { return h.ports.Source.Watch(ctx, h.Tell) })
	work("write metrics", h.recorder.run)
	h.loop(ctx)
	wg.Wait()
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// Tell hands an event to the loop.
func (h *Harmonizer) Tell(ctx context.Context, ev apps.Event) error {
	select {
	case h.events <- ev:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Harmonizer) loop(ctx context.Context) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	h.ticked = time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-h.events:
			h.step(time.Now(), ev)
		case answer := <-h.queries:
			answer(time.Now())
		case <-ticker.C:
			h.tick(time.Now())
		}
	}
}

// tick lets time pass. What was heard before comes first, so that a loop which
// was held up does not take its own silence for that of the nodes; after a halt
// as long as a heartbeat period, it begins to hear anew.
func (h *Harmonizer) tick(now time.Time) {
	for range len(h.events) {
		h.step(now, <-h.events)
	}
	if h.hears && now.Sub(h.ticked) > h.cfg.Apps.HeartbeatPeriod {
		h.counters["held_up"]++
		h.log.Warn("loop was held up, hearing anew", "for", now.Sub(h.ticked))
		h.step(now, apps.BusUp{})
	}
	h.ticked = now
	h.step(now, apps.Tick{})
	h.publish(now)
}

func (h *Harmonizer) step(now time.Time, ev apps.Event) {
	h.book(ev)
	nudges, findings := h.machine.Step(now, ev)
	for _, f := range findings {
		h.counters["found_"+string(f.Kind)]++
		h.log.Log(context.Background(), level(f.Kind), "found", "finding", f.String())
	}
	for _, n := range nudges {
		h.nudge(n)
	}
}

func (h *Harmonizer) book(ev apps.Event) {
	switch ev.(type) {
	case apps.Heartbeat:
		h.counters["heartbeats"]++
	case apps.Exit:
		h.counters["exits"]++
	case apps.ExpectedUnreadable:
		h.counters["rows_unreadable"]++
	case apps.ExpectedLost:
		h.counters["source_lost"]++
	case apps.BusUp:
		h.hears = true
	case apps.BusDown:
		h.hears = false
		h.counters["bus_down"]++
	}
}

// nudge sends. A nudge that could not be sent is repeated, if it is still
// needed, after its keep-alive.
func (h *Harmonizer) nudge(n apps.Nudge) {
	name := "nudges_start"
	if n.Stop != nil {
		name = "nudges_stop"
	}
	if err := h.ports.Bus.Nudge(n); err != nil {
		name = "nudges_failed"
		h.complain.Do(func() { h.log.Error("send nudge", "err", err) })
	}
	h.counters[name]++
}

func level(k apps.Kind) slog.Level {
	switch k {
	case apps.KindComplete:
		return slog.LevelInfo
	case apps.KindIncomplete, apps.KindNodeLost, apps.KindFlapping:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// publish sends the counts of the pools that changed, and of every pool that
// was silent for a heartbeat period.
func (h *Harmonizer) publish(now time.Time) {
	for _, pool := range h.pools() {
		last, revision := h.published[pool], h.machine.Revision(pool)
		if last.revision == revision && now.Sub(last.at) < h.cfg.Apps.HeartbeatPeriod {
			continue
		}
		h.published[pool] = publication{at: now, revision: revision}
		counts := h.machine.Counts(now, pool)
		h.recorder.keep(counts)
		if err := h.ports.Bus.PublishCounts(counts); err != nil {
			h.counters["counts_failed"]++
			h.complain.Do(func() { h.log.Error("publish counts", "pool", pool, "err", err) })
		}
	}
}

func (h *Harmonizer) pools() []string {
	names := h.machine.Pools()
	for _, p := range h.cfg.Pools {
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	return names
}
