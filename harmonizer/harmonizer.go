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

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	// backlog is the capacity for events of the bus. When it is full, the sender waits.
	backlog = 1024
	// sourceBacklog is small, so that heartbeats are processed between two slices of the
	// expected state.
	sourceBacklog = 4
)

// Harmonizer is the loop around an apps.Machine. New makes it.
type Harmonizer struct {
	cfg         Config
	ports       Ports
	log         *slog.Logger
	busEvents   chan apps.Event // from the bus
	rows        chan apps.Event // from the source
	queries     chan func(now time.Time)
	ended       chan struct{} // closed after the loop
	counters    *counters
	outbox      *outbox
	watched     *confirmations // nil: schedulers do not confirm nudges
	publisher   *publisher
	countWriter *countWriter
	steps       *durations
	recording   *recording // nil: nothing is recorded

	// term is the term whose nudges may be sent, 0 while following. Only the loop sets it.
	term atomic.Uint64

	// Owned by the loop.
	machine      *apps.Machine
	terms        uint64 // number of terms so far
	busUp        bool   // the bus is up
	ticked       time.Time
	noLeader     noLeaderAlarm
	probedAt     time.Time
	nodesSavedAt time.Time // when the nodes were last saved to the memory
	reading      time.Time // start of the current pass of a polled source; zero: no pass
	refused      []apps.Nudge
	published    publications
	found        map[cause]uint64
	comparer     *cloudfoundry.Comparer // nil: nothing is compared
	logLimit     *rate.Sometimes
}

// cause is the key that findings are counted by.
type cause struct {
	kind api.AppFindingKind
	why  api.AppReason
}

// New returns a harmonizer, or an error if the configuration is invalid. Zero values in cfg
// become defaults.
func New(cfg Config, ports Ports, log *slog.Logger) (*Harmonizer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("harmonizer: %w", err)
	}
	h := &Harmonizer{
		cfg:         cfg,
		ports:       ports,
		log:         log,
		busEvents:   make(chan apps.Event, backlog),
		rows:        make(chan apps.Event, sourceBacklog),
		queries:     make(chan func(time.Time)),
		ended:       make(chan struct{}),
		counters:    &counters{n: map[string]uint64{}},
		countWriter: newCountWriter(cfg.Cluster, ports.Metrics, log),
		steps:       newDurations(),
		machine:     apps.NewMachine(cfg.Apps),
		published:   publications{period: cfg.Apps.HeartbeatPeriod, last: map[string]publication{}},
		found:       map[cause]uint64{},
		logLimit:    oncePerMinute(),
		noLeader:    noLeaderAlarm{after: noLeaderLeases * cfg.LeaseTTL},
	}
	if ports.Record != nil {
		h.recording = newRecording(ports.Record, cfg.Cluster, cmp.Or(cfg.Apps.Partition, message.Partition))
	}
	if shadow := cfg.CloudFoundry.Shadow; shadow != nil {
		h.comparer = cloudfoundry.NewComparer(*shadow, log)
	}
	h.outbox = newOutbox(ports, &h.term, h.confirm, h.counters, log)
	if cfg.CloudFoundry.Confirms() && !cfg.Shadow {
		h.watched = newConfirmations(cfg.Apps.NudgeKeepAlive, h.counters)
		h.outbox.watched = h.watched
	}
	h.publisher = newPublisher(ports.Bus, h.counters, log)
	return h, nil
}

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

// Enqueue implements Handler.
func (h *Harmonizer) Enqueue(ctx context.Context, ev apps.Event) error {
	return enqueue(ctx, h.busEvents, ev)
}

func (h *Harmonizer) reportRows(ctx context.Context, ev apps.Event) error {
	return enqueue(ctx, h.rows, ev)
}

func enqueue(ctx context.Context, to chan<- apps.Event, ev apps.Event) error {
	select {
	case to <- ev:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leading implements Handler.
func (h *Harmonizer) Leading() bool { return h.term.Load() != 0 && !h.cfg.Shadow }

// counters count events by name.
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

// alarm wakes the waiting goroutine, once for any number of rings.
type alarm chan struct{}

func (a alarm) ring() {
	select {
	case a <- struct{}{}:
	default:
	}
}

// oncePerMinute returns a limiter for a log message that may repeat.
func oncePerMinute() *rate.Sometimes { return &rate.Sometimes{Interval: time.Minute} }
