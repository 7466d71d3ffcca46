package state

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
)

var errKilled = errors.New("the process is dead")

// process is one autoscaler of a pair, from its start to its death. Whatever it reads or changes
// goes through call: there it may be stopped, cut off or dead.
type process struct {
	pair *pair
	name string
	ctx  context.Context // ends with the process
	kill context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	r       *rand.Rand
	stopped time.Time // the process does nothing before
	cut     bool      // nothing passes between it and the bus
	slow    bool      // most calls take long
	holds   bool      // it runs the loop
	behind  int       // changes that the store shows late
	late    []func()  // requests that are still to reach the bus
	facts   []api.NodeFacts
	answers map[string]answer // the last one of each app's signal; the pair's lock guards it
	groups  []*cloud.Group    // as the process reads them: what others write it may see late
	loop    *autoscaler.Loop  // of its last term; nil before
	unknown string            // why the need was unknown at the last decision; empty if it was known
}

// decided notes why the need is unknown at a decision. A tick saves its intent right after it.
func (p *process) decided(ignorance string) {
	if ignorance == "" {
		p.pair.decidedNeed()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unknown = ignorance
}

// ignorance returns why the need was unknown both at the last decision and now. A tick carries
// out its decision even if an evaluation is lost meanwhile.
func (p *process) ignorance() string {
	now := p.pair.ignorance(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unknown == "" {
		return ""
	}
	return now
}

// read returns when the process last read the groups that it acts on.
func (p *process) read() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loop.Writer().Latest().At
}

// wait returns when the time is over, or the context has ended.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 || ctx.Err() != nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// gate returns when the process is not stopped. A stopped process does not notice the end of a deadline. A dead
// one goes no further.
func (p *process) gate() error {
	for p.ctx.Err() == nil {
		p.mu.Lock()
		left := time.Until(p.stopped)
		p.mu.Unlock()
		if left <= 0 {
			return nil
		}
		wait(p.ctx, left)
	}
	return errKilled
}

// delay draws how long a call is on its way: mostly some milliseconds.
func (p *process) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow && p.r.IntN(2) == 0 || p.r.IntN(50) == 0 {
		return time.Duration(p.r.IntN(8000)) * time.Millisecond
	}
	return time.Duration(1+p.r.IntN(40)) * time.Millisecond
}

// call makes a call that is answered if nothing keeps it. The call takes effect before its
// context ends, or not at all.
func (p *process) call(ctx context.Context, effect func() error) error {
	return p.pass(ctx, false, effect)
}

// request makes a call over the bus. One that is sent over a bus that is cut, or whose context
// ends on its way, may take effect later: the client keeps it for a new connection.
func (p *process) request(ctx context.Context, effect func() error) error {
	return p.pass(ctx, true, effect)
}

func (p *process) pass(ctx context.Context, overBus bool, effect func() error) error {
	if err := p.gate(); err != nil {
		return err
	}
	wait(ctx, p.delay())
	if ctx.Err() != nil || p.ctx.Err() != nil || overBus && p.isCut() {
		if overBus {
			p.keep(effect)
		}
		return p.unanswered(ctx)
	}
	if overBus {
		p.arrive() // a connection keeps the order
	}
	err := effect()
	wait(ctx, p.delay())
	if overBus && p.isCut() {
		return p.unanswered(ctx)
	}
	alive := p.gate()
	return errors.Join(err, ctx.Err(), alive)
}

// unanswered waits until the caller gives up.
func (p *process) unanswered(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-p.ctx.Done():
	}
	alive := p.gate()
	return errors.Join(ctx.Err(), alive)
}

func (p *process) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// keep holds back a request that is still to reach the bus, also if its sender dies. Half of
// them are lost.
func (p *process) keep(effect func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.r.IntN(2) == 0 {
		p.late = append(p.late, func() { _ = effect() }) // its answer is lost
	}
}

// arrive lets what was held back reach the bus, unless that is cut.
func (p *process) arrive() {
	p.mu.Lock()
	late := p.late
	if p.cut {
		late = nil
	} else {
		p.late = nil
	}
	p.mu.Unlock()
	for _, effect := range late {
		effect()
	}
}

// set changes the process as it is from outside.
func (p *process) set(change func(*process)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// storeOf is the bucket as a process reaches it.
type storeOf struct{ *process }

var _ store = storeOf{}

func (l storeOf) lag() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.behind == 0 {
		return 0
	}
	return l.r.IntN(l.behind + 1)
}

func (l storeOf) get(ctx context.Context, key string) (e entry, err error) {
	got := make(chan entry, 1)
	if err = l.request(ctx, func() error { got <- l.pair.model.read(key, l.lag()).entry; return nil }); err == nil {
		e = <-got
	}
	return e, err
}

func (l storeOf) update(ctx context.Context, key string, value []byte, revision uint64) (next uint64, err error) {
	if key == "state" {
		l.process.decided(l.pair.ignorance(l.process))
	}
	got, ignorance := make(chan uint64, 1), l.process.ignorance()
	err = l.request(ctx, func() error {
		next, err := l.pair.write(l.process, ignorance, key, value, revision)
		got <- next
		return err
	})
	if err == nil {
		next = <-got
	}
	return next, err
}

func (l storeOf) erase(ctx context.Context, key string, revision uint64) error {
	return l.request(ctx, func() error { return l.pair.model.remove(key, revision, l.process) })
}

func (l storeOf) sequence(ctx context.Context) (last uint64, err error) {
	got := make(chan uint64, 1)
	err = l.request(ctx, func() error {
		last, err := near{l.pair.model}.sequence(ctx)
		got <- last
		return err
	})
	if err == nil {
		last = <-got
	}
	return last, err
}

func (l storeOf) list(ctx context.Context, sequence uint64, filters []string, visit func(integrity.Key) error) error {
	got := make(chan []integrity.Key, 1)
	if err := l.request(ctx, func() error { got <- l.pair.model.contents(filters, sequence, l.lag); return nil }); err != nil {
		return err
	}
	return visitAll(<-got, visit)
}
