package placer

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// errEnded: Listen returned without an error before its context ended.
var errEnded = errors.New("the bus ended without an error")

const (
	settle    = 20 * time.Millisecond // events within it are processed together
	parallel  = 64                    // requests to agents at the same time
	sinkLimit = 5 * time.Second       // of one write of metrics
	saveLimit = 5 * time.Second       // of one save of assignments
	savePause = time.Second           // after a failed save
)

// Placer places the app instances of one pool.
type Placer struct {
	cfg   Config
	ports Ports
	log   *slog.Logger

	// Of one term of the lease.
	core          *core
	began         time.Time // of the term
	confirmations confirmations
	batch         batch // what waits for the save of its assignments
	saving        bool
	again         bool // something changed during the save
	reportDue     bool // the waiting starts are to be reported

	events  chan Event
	answers chan answer // of nodes to starts
	saved   chan error
	slots   chan struct{} // one for each request in progress
	queries chan chan<- Status
	placing atomic.Bool // serve runs, so queries have answers
	samples chan []metrics.Sample

	dropped    uint64 // unusable messages
	foreign    uint64 // listed copies that were not placed there
	foreignLog rate.Sometimes
	unreadLog  rate.Sometimes
	dropLog    rate.Sometimes
	refused    uint64 // rejected stops
	rejectLog  rate.Sometimes
	saveLog    rate.Sometimes
	problem    problem
}

// answer is the result of one start.
type answer struct {
	instance string
	result   Result
	why      string // of any result but Accepted
	unsent   bool   // the start was not sent, because the lease does not outlast it
}

// New returns the placer of cfg's pool.
func New(cfg Config, ports Ports, log *slog.Logger) (*Placer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("placer: %w", err)
	}
	p := &Placer{
		cfg: cfg, ports: ports, log: log.With("pool", cfg.Pool),
		events: make(chan Event), slots: make(chan struct{}, parallel), queries: make(chan chan<- Status), dropLog: rate.Sometimes{Interval: time.Minute}, foreignLog: rate.Sometimes{Interval: time.Minute},
		unreadLog: rate.Sometimes{First: 10, Interval: time.Minute},
		rejectLog: rate.Sometimes{Interval: time.Minute}, saveLog: rate.Sometimes{Interval: time.Minute},
	}
	p.begin()
	return p, nil
}

// begin resets the state of a term.
func (p *Placer) begin() {
	p.began = time.Now()
	p.core, p.confirmations, p.batch, p.saving, p.again = newCore(p.cfg, rand.Text()), confirmations{}, batch{}, false, false
	p.reportDue = false
	p.answers, p.saved, p.samples = make(chan answer), make(chan error, 1), make(chan []metrics.Sample, 1)
}

// Run places copies while the lease is held, until ctx ends. Then it releases the lease and returns nil. If the bus, the
// lease or the memory fails for good, it returns an error. It may be called again after an error.
func (p *Placer) Run(ctx context.Context) error {
	if p.ports.Lease == nil {
		return p.wrap(p.work(ctx))
	}
	for ctx.Err() == nil {
		if err := p.ports.Lease.Acquire(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return p.wrap(err)
		}
		if err := p.hold(ctx); err != nil {
			return p.wrap(err)
		}
	}
	return nil
}

func (p *Placer) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("placer of pool %s: %w", p.cfg.Pool, err)
}

// hold works until the lease is lost or ctx ends. The lease is released after all requests have ended.
func (p *Placer) hold(ctx context.Context) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	keep, release := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer release()
	wg.Go(func() {
		defer stop()
		if err := p.ports.Lease.Run(keep); err != nil {
			p.log.Warn("lease lost", "err", err)
		}
	})
	p.log.Info("placing", "epoch", p.ports.Lease.Epoch())
	return p.work(working)
}

// work is one term: it takes over the assignments, and places copies until ctx ends.
func (p *Placer) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	p.begin()
	if err := p.load(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	failed := make(chan error, 1)
	wg.Go(func() { failed <- p.ports.Bus.Listen(ctx, p.epoch(), p.enqueue) })
	if p.ports.Sink != nil {
		wg.Go(func() { p.report(ctx) })
	}
	return p.serve(ctx, &wg, failed)
}

func (p *Placer) load(ctx context.Context) error {
	if p.ports.Memory == nil {
		return nil
	}
	all, err := p.ports.Memory.Load(ctx)
	if err != nil {
		return fmt.Errorf("take over the assignments: %w", err)
	}
	durable{p.core}.restore(time.Now(), all)
	restored, err := p.ports.Memory.Restored(ctx)
	if err != nil {
		return fmt.Errorf("take over the assignments: %w", err)
	}
	if restored {
		p.log.Warn("a backup was restored: what the nodes list is adopted", "periods", adoptFor)
		p.core.places.adopting = true
	}
	return nil
}

func (p *Placer) enqueue(ctx context.Context, e Event) error {
	select {
	case p.events <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Placer) serve(ctx context.Context, wg *sync.WaitGroup, failed <-chan error) error {
	tick := time.NewTicker(p.cfg.Heartbeat)
	defer tick.Stop()
	p.placing.Store(true)
	defer p.placing.Store(false)
	var soon, retry <-chan time.Time
	for {
		changed := true
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return cmp.Or(err, errEnded)
		case e := <-p.events:
			changed = e.apply(p, time.Now())
		case response := <-p.queries:
			response <- p.status(time.Now())
			changed = false
		case a := <-p.answers:
			p.answered(time.Now(), a)
		case now := <-tick.C:
			p.endAdoption(now)
			p.offer(pendingSamples(p.core.pending(), now, p.cfg.Cluster, p.cfg.Pool))
			p.reportRunning()
			p.reportNever(now)
			p.reportDue = true
		case err := <-p.saved:
			p.saving, changed, p.again = false, p.again, false
			if p.noteSave(err); err != nil {
				retry = time.After(savePause)
			} else {
				p.deliver(ctx, wg, time.Now())
			}
		case <-retry:
			retry = nil
		case <-soon:
			soon, changed = nil, false
			if p.saving || retry != nil {
				p.again = true
			} else {
				p.act(ctx, wg, time.Now())
			}
		}
		if changed && soon == nil {
			soon = time.After(settle)
		}
	}
}

// endAdoption ends the time in which a placer whose memory has less than the nodes run adopts what they list.
func (p *Placer) endAdoption(now time.Time) {
	if p.core.places.adopting && now.Sub(p.began) > adoptFor*p.cfg.Heartbeat {
		p.core.places.adopting = false
	}
}

func (p *Placer) answered(now time.Time, a answer) {
	if a.unsent {
		durable{p.core}.notSent(now, a.instance)
		return
	}
	p.core.started(now, a.instance, a.result, a.why)
}

// refuse counts rejected stops, and logs at most one a minute.
func (p *Placer) refuse(stops []refusal) {
	p.refused += uint64(len(stops))
	for _, r := range stops {
		p.rejectLog.Do(func() {
			p.log.Warn("stop of an app instance rejected", "app", r.app, "version", r.version, "index", r.index,
				"instance", r.instance, "why", r.why, "refused", p.refused)
		})
	}
}

// offer sends samples to the reporter, and replaces samples that it has not received.
func (p *Placer) offer(samples []metrics.Sample) {
	if p.ports.Sink == nil {
		return
	}
	select {
	case <-p.samples:
	default:
	}
	p.samples <- samples
}

// reportRunning reports that this placer runs rows. It ends what was known of another scheduler of the pool, which ran none.
func (p *Placer) reportRunning() {
	if p.ports.Reporter == nil {
		return
	}
	if err := p.ports.Reporter.Running(p.cfg.Heartbeat, len(p.core.nodes)); err != nil {
		p.log.Warn("state of the placer not reported", "err", err) // the next tick repeats it
	}
}

// reportNever reports the copies that no machine can hold, after the first question, which names the kinds of machines.
func (p *Placer) reportNever(now time.Time) {
	if p.ports.Reporter == nil || p.core.last.question == "" {
		return
	}
	if err := p.ports.Reporter.Never(packer{p.core}.neverPlaced(now)); err != nil {
		p.log.Warn("copies that no machine can hold not reported", "err", err) // the next tick repeats it
	}
}

// report writes samples in a separate goroutine, so that a slow store does not block placing.
func (p *Placer) report(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case samples := <-p.samples:
			limited, cancel := context.WithTimeout(ctx, sinkLimit)
			if err := p.ports.Sink.Write(limited, samples); err != nil {
				p.log.Warn("metrics of pending app instances not written", "err", err)
			}
			cancel()
		}
	}
}
