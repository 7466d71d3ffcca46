package autoscaler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Loop is the autoscaler of one pool. All that it remembers is handed on from tick to
// tick through its Memory, so that another process may go on at any point.
type Loop struct {
	cluster, pool string        // for good
	wanted        chan Config   // of the last Reconfigure, until it takes effect
	turn          chan struct{} // holds a token; who has it may use what is below

	config  Config
	world   World
	log     *slog.Logger
	signals *ask.Panel

	begun  bool           // what the last process handed on is taken up
	drains *drain.Machine // nil until it is opened
	state  resolve.State  // handed on; its Joined is in reader
	reader *snapshot.Reader
	lost   error           // why the last tick is not in the ledger; nil if it is
	past   *decide.History // read for an empty pool; nil when it has to be

	last   *snapshot.Snapshot // the newest one
	found  resolve.Found      // in the targets of the groups in it, without a cause
	tally  *tally             // of the targets of the groups in it
	raised map[string]bool    // groups that took a higher target, and are not known to have filled up
	paused bool               // as of the last tick

	between []Action // done since the last record

	repairRequests chan repairRequest
	ended          chan struct{} // closed when Run is over
	end            sync.Once     // of ended
	shown          shown         // to others than the owner of the turn
}

// NewLoop returns a loop that has done nothing yet.
func NewLoop(c Config, w World, log *slog.Logger) *Loop {
	l := &Loop{
		cluster: c.Cluster, pool: c.Pool, wanted: make(chan Config, 1), turn: make(chan struct{}, 1),
		config: c, world: w, log: log,
		signals: ask.New(c.panel(), ask.Ports{Directory: w.Directory, Dial: w.Dial, Metrics: w.Metrics}, log),
		reader:  snapshot.NewReader(snapshot.Ports{Provider: w.Provider, Scheduler: w.Scheduler, Health: w.Health}), raised: map[string]bool{},
		repairRequests: make(chan repairRequest, maxRepairRequests), ended: make(chan struct{}),
	}
	l.shown.adopt(c)
	l.turn <- struct{}{}
	return l
}

// now is the time that it is.
func (l *Loop) now() time.Time {
	if l.world.Now != nil {
		return l.world.Now()
	}
	return time.Now()
}

// take waits until it is the caller's turn; give ends that.
func (l *Loop) take(ctx context.Context) error {
	select {
	case <-l.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Loop) give() { l.turn <- struct{}{} }

// aliveEvery is the longest time between two reports to the directory.
const aliveEvery = 20 * time.Second

// finishLimit bounds the tick in flight once Run's context has ended.
const finishLimit = 1500 * time.Millisecond

// Run ticks until ctx ends; the tick in flight is finished first, within
// finishLimit. Between two ticks it follows the directory, goes on with the drains,
// heeds the provider's notices, begins repairs, takes over a new configuration, and reports to the
// directory at least every 20 s. It returns an error if it cannot begin, and one that is pools.ErrNotHolder
// when the pool's lease is lost: then nothing more is changed, and this Loop is of no
// further use.
func (l *Loop) Run(ctx context.Context) error {
	defer l.Close()
	defer l.end.Do(func() { close(l.ended) })
	if err := l.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
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
			timer.Reset(max(0, l.config.Tick-l.now().Sub(began)))
		case <-l.signals.Changed():
		case n := <-l.notices():
			if err := finish(ctx, func(ctx context.Context) error { return l.heed(ctx, n) }); err != nil {
				return err
			}
			continue
		case w := <-l.repairRequests:
			if err := finish(ctx, func(ctx context.Context) error { return l.serve(ctx, w) }); err != nil {
				return err
			}
			continue
		case <-l.tending():
			if err := finish(ctx, l.tend); err != nil {
				return err
			}
			continue
		case <-alive.C:
			l.signals.Report()
			continue
		case <-timer.C:
			if ctx.Err() != nil { // both were ready
				return nil
			}
			began = l.now()
			if err := finish(ctx, func(ctx context.Context) error { return l.Tick(ctx, began) }); err != nil {
				return err
			}
			timer.Reset(max(0, l.config.Tick-l.now().Sub(began)))
		}
		l.signals.Follow(ctx, l.now())
	}
}

// open begins, in its turn.
func (l *Loop) open(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	return l.begin(ctx)
}

// finish does what outlasts ctx a little.
func finish(ctx context.Context, do func(context.Context) error) error {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishLimit, cancel) })
	defer stop()
	return do(lasting)
}

// Close closes the connections to the signals, and is for who calls Tick instead of
// Run. A Tick after it opens them anew.
func (l *Loop) Close() { l.signals.Close() }

// notices are those to be heeded now. While the pool is paused they wait, and in a
// dry run they are somebody else's.
func (l *Loop) notices() <-chan pools.Notice {
	if l.paused || l.config.DryRun {
		return nil
	}
	return l.world.Notices
}

// notHolder reports whether an error says that the loop has to end.
func notHolder(err error) bool { return errors.Is(err, pools.ErrNotHolder) }
