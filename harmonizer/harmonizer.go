package harmonizer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	// backlog of events of the bus; whoever tells more waits.
	backlog = 1024
	// sourceBacklog is short, so that between two slices of the expected state
	// what nodes say has its turn.
	sourceBacklog = 4
)

// Harmonizer is the loop around an apps.Machine. Make it with New.
type Harmonizer struct {
	cfg      Config
	ports    Ports
	log      *slog.Logger
	heard    chan apps.Event // of the bus
	rows     chan apps.Event // of the source
	queries  chan func(now time.Time)
	ended    chan struct{} // closed after the loop
	counters *counters
	outbox   *outbox
	herald   *herald
	recorder *recorder
	steps    *durations
	tap      *tap // nil: nothing is recorded

	// term is that of the nudges which may be sent, 0 while following. Only the
	// loop sets it.
	term  atomic.Uint64
	users users

	// Owned by the loop.
	machine   *apps.Machine
	terms     uint64 // so far
	hears     bool   // the bus is up
	ticked    time.Time
	vacant    vacancy
	canaried  time.Time
	counted   time.Time     // the nodes, for the memory
	reading   time.Time     // since then a source that is polled is read; zero: it is not
	read      time.Duration // how long the last whole reading took, until it was applied
	refused   []apps.Nudge
	published publications
	found     map[cause]uint64
	mirror    *mirror // nil: no shadow mode
	complain  *rate.Sometimes
}

// cause is what findings are counted by.
type cause struct {
	kind apps.Kind
	why  apps.Why
}

// New returns a harmonizer, or says what is wrong with the configuration, whose
// zeros are defaults.
func New(cfg Config, ports Ports, log *slog.Logger) (*Harmonizer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("harmonizer: %w", err)
	}
	h := &Harmonizer{
		cfg:       cfg,
		ports:     ports,
		log:       log,
		heard:     make(chan apps.Event, backlog),
		rows:      make(chan apps.Event, sourceBacklog),
		queries:   make(chan func(time.Time)),
		ended:     make(chan struct{}),
		counters:  &counters{n: map[string]uint64{}},
		recorder:  newRecorder(cfg.Cluster, ports.Metrics, log),
		steps:     newDurations(),
		machine:   apps.NewMachine(cfg.Apps),
		published: publications{period: cfg.Apps.HeartbeatPeriod, last: map[string]publication{}},
		found:     map[cause]uint64{},
		complain:  seldom(),
	}
	if ports.Record != nil {
		h.tap = newTap(ports.Record, cmp.Or(cfg.Apps.Partition, message.Partition))
	}
	if cfg.Shadow {
		h.mirror = newMirror(cfg, log)
	}
	h.users.n.Store(-1)
	h.outbox = newOutbox(ports, &h.term, h.confirm, h.counters, log)
	h.herald = newHerald(ports.Bus, h.counters, log)
	return h, nil
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
	work("watch the expected state", func(ctx context.Context) error { return h.ports.Source.Watch(ctx, h.tellRows) })
	work("lead", h.lead)
	work("count users", func(ctx context.Context) error { return h.users.count(ctx, h.ports.Source, h.counters) })
	if !h.cfg.Shadow {
		work("send nudges", func(ctx context.Context) error { return h.outbox.run(ctx, h.Tell) })
		work("publish", h.herald.run)
		work("write metrics", h.recorder.run)
	}
	h.loop(ctx)
	wg.Wait()
	h.term.Store(0)
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// Tell implements Ear.
func (h *Harmonizer) Tell(ctx context.Context, ev apps.Event) error { return tell(ctx, h.heard, ev) }

func (h *Harmonizer) tellRows(ctx context.Context, ev apps.Event) error { return tell(ctx, h.rows, ev) }

func tell(ctx context.Context, to chan<- apps.Event, ev apps.Event) error {
	select {
	case to <- ev:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leading implements Ear.
func (h *Harmonizer) Leading() bool { return h.term.Load() != 0 && !h.cfg.Shadow }

// counters count what happened, by name.
type counters struct {
	mu sync.Mutex
	n  map[string]uint64
}

func (c *counters) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[name] += uint64(n)
}

func (c *counters) snapshot() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// alarm wakes whoever waits for it, once for any number of rings.
type alarm chan struct{}

func (a alarm) ring() {
	select {
	case a <- struct{}{}:
	default:
	}
}

// seldom is a complaint that is logged at most once a minute.
func seldom() *rate.Sometimes { return &rate.Sometimes{Interval: time.Minute} }
