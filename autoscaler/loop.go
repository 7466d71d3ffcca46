package autoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

// Loop is the autoscaler of one pool.
type Loop struct {
	cluster, pool string      // for good
	wanted        chan Config // of the last Reconfigure, until it takes effect

	config  Config
	world   World
	log     *slog.Logger
	sources []*source       // the default signal first
	listing Listing         // where they are; the newest one that is followed
	heard   []Answer        // not yet reported
	held    []decide.Held   // what the last decision handed on
	joined  map[string]bool // instances whose node has joined
	amnesia bool            // who has joined is not known: all that is there may have
	lost    error           // why the last tick is not in the ledger; nil if it is
	began   time.Time       // the first tick
	past    *decide.History // read for an empty pool; nil when it has to be
}

// NewLoop returns a loop that has done nothing yet.
func NewLoop(c Config, w World, log *slog.Logger) *Loop {
	l := &Loop{
		cluster: c.Cluster, pool: c.Pool, wanted: make(chan Config, 1),
		config: c, world: w, log: log, joined: map[string]bool{},
	}
	for _, s := range c.signals() {
		l.sources = append(l.sources, &source{signal: s})
	}
	return l
}

// finishLimit bounds the tick in flight once Run's context has ended.
const finishLimit = 1500 * time.Millisecond

// Run ticks until ctx ends; the tick in flight is finished first, within
// finishLimit. Between two ticks it follows the directory and takes over a new
// configuration, and reports to the directory at least every 20 s. It returns an
// error only if it cannot begin.
func (l *Loop) Run(ctx context.Context) error {
	if err := l.recall(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer l.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	var began time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-l.wanted:
			l.adopt(c)
			timer.Reset(max(0, l.config.Tick-time.Since(began)))
		case <-l.listing.Changed:
		case <-alive.C:
			l.report()
			continue
		case <-timer.C:
			if ctx.Err() != nil { // both were ready
				return nil
			}
			began = time.Now()
			l.finish(ctx, began)
			timer.Reset(max(0, l.config.Tick-time.Since(began)))
		}
		l.follow(ctx, time.Now())
	}
}

// finish makes a tick that outlasts ctx a little.
func (l *Loop) finish(ctx context.Context, now time.Time) {
	tick, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishLimit, cancel) })
	defer stop()
	l.tick(tick, now)
}

func (l *Loop) close() {
	for _, s := range l.sources {
		s.close()
	}
}

// recall takes up what the last recorded tick handed on. A record that cannot be
// read leaves the loop without memory, and it takes nobody for an orphan then.
func (l *Loop) recall(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	data, ok, err := l.world.Ledger.Last(ctx)
	if err != nil {
		return fmt.Errorf("recall the last tick: %w", err)
	}
	if !ok {
		return nil
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		l.log.Error("last record of the ledger cannot be read", "pool", l.config.Pool, "err", err)
		l.amnesia = true
		return nil
	}
	l.held = r.Memory.Held
	for _, id := range r.Memory.Joined {
		l.joined[id] = true
	}
	return nil
}

func (l *Loop) memory() Memory {
	return Memory{Held: l.held, Joined: slices.Sorted(maps.Keys(l.joined))}
}

// tick is one round: read, ask, decide, plan, act, hear the shadows, record.
func (l *Loop) tick(ctx context.Context, now time.Time) {
	now = now.UTC() // the ledger shows one zone
	r := Record{At: now, Every: l.config.Tick, Cluster: l.config.Cluster, Pool: l.config.Pool, DryRun: l.config.DryRun}
	l.settle()
	if err := l.round(ctx, now, &r); err != nil {
		r.Failed = err.Error()
		l.log.Error("tick ended early", "pool", l.config.Pool, "err", err)
	}
	r.Took, r.Memory = time.Since(now), l.memory()
	if l.lost = l.record(ctx, r); l.lost != nil {
		l.log.Error("tick is not recorded", "pool", l.config.Pool, "err", l.lost)
	}
	l.report()
}

func (l *Loop) round(ctx context.Context, now time.Time, r *Record) error {
	s, err := l.snapshot(ctx, now)
	if err != nil {
		return err
	}
	r.Snapshot = s
	if err := l.writeMetrics(ctx, now, s); err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
	capacity := s.capacity(l.world.Drains.Committed(s.has))
	history, err := l.history(ctx, now, capacity.Target)
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
	asking := l.ask(ctx, now)
	r.Input = l.input(now, s, capacity, history)
	r.Decision = decide.Decide(r.Input)
	l.held = r.Decision.Held
	if !l.config.DryRun {
		l.takeBack(ctx, now, r)
	}
	r.Plan = l.plan(now, s, r.Decision, l.world.Drains.Committed(s.has))
	if !l.config.DryRun {
		l.act(ctx, now, r)
	}
	r.Shadows = l.compare(ctx, asking)
	return nil
}

func (l *Loop) input(now time.Time, s Snapshot, c decide.Capacity, h decide.History) decide.Input {
	in := decide.Input{
		Now: now, Capacity: c, History: h, Held: l.held, Policy: l.config.Policy,
		Default: l.sources[0].opinion,
	}
	for _, src := range l.sources[1:] {
		in.Apps = append(in.Apps, decide.App{
			Name: src.signal.App, Configured: src.configured(),
			Opinion: src.opinion, HoldFor: src.signal.HoldFor,
		})
	}
	in.NoScaleIn = l.noScaleIn(s)
	return in
}

// noScaleIn says what is not known that has to be known before machines may go;
// empty if nothing is.
func (l *Loop) noScaleIn(s Snapshot) string {
	if n := len(s.Silent); n > 0 {
		return fmt.Sprintf("%d nodes are there but silent, %s first: what they run is unknown", n, s.Silent[0])
	}
	if l.lost != nil {
		return fmt.Sprintf("the last tick could not be recorded: %v", l.lost)
	}
	for _, src := range l.sources {
		if src.short != "" && l.speaks(src) {
			return src.short
		}
	}
	return ""
}

// speaks reports whether a signal is asked for its own sake: the default one for
// the apps that have no other.
func (l *Loop) speaks(src *source) bool {
	if src != l.sources[0] {
		return src.configured()
	}
	unconfigured := func(s *source) bool { return !s.configured() }
	return len(l.sources) == 1 || slices.ContainsFunc(l.sources[1:], unconfigured)
}

func (l *Loop) record(ctx context.Context, r Record) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	return l.world.Ledger.Append(ctx, data)
}
