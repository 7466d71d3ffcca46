package harmonizer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// loopTimeout bounds the wait for the loop, whatever the caller's context allows.
	loopTimeout = 5 * time.Second
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
	placers     *placerRequests // nil: a copy counts where a node lists it
	recording   *recording      // nil: nothing is recorded

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
	never        never
	noRows       noRows
	refused      []apps.Nudge
	published    publications
	found        map[cause]uint64
	comparer     *cloudfoundry.Comparer // nil: nothing is compared
	logLimit     *rate.Sometimes
}

var _ Handler = (*Harmonizer)(nil)

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
	cfg.Apps.Places = ports.Placers != nil && cfg.CloudFoundry.Confirms() && !cfg.Shadow
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
		never:       never{},
		noRows:      noRows{},
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
	if cfg.Apps.Places {
		h.placers = newPlacerRequests(ports.Placers, h.Enqueue)
	}
	h.publisher = newPublisher(ports.Bus, h.counters, log)
	return h, nil
}

// Enqueue implements Handler.
func (h *Harmonizer) Enqueue(ctx context.Context, ev apps.Event) error {
	return sendEvent(ctx, h.busEvents, ev)
}

func (h *Harmonizer) reportRows(ctx context.Context, ev apps.Event) error {
	return sendEvent(ctx, h.rows, ev)
}

func sendEvent(ctx context.Context, to chan<- apps.Event, ev apps.Event) error {
	select {
	case to <- ev:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leading implements Handler.
func (h *Harmonizer) Leading() bool { return h.term.Load() != 0 && !h.cfg.Shadow }

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
		right[i] = right[i] || errors.Is(err, errNotRunning)
	}
	return right
}

// call runs f in the loop and waits for it. If call returns an error, f did not run and will
// not run.
func (h *Harmonizer) call(ctx context.Context, f func(now time.Time)) error {
	ctx, cancel := context.WithTimeout(ctx, loopTimeout)
	defer cancel()
	done := make(chan struct{})
	select {
	case h.queries <- func(now time.Time) { f(now); close(done) }:
		<-done
		return nil
	case <-h.ended:
		return errNotRunning
	case <-ctx.Done():
		return fmt.Errorf("wait for the harmonizer's loop: %w", ctx.Err())
	}
}

// leader returns the leader if this harmonizer follows; empty if it is unknown.
func (h *Harmonizer) leader() string {
	if h.Leading() {
		return ""
	}
	holder, _ := h.ports.Lease.Standby()
	return holder
}
