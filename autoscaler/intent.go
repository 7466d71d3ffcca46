package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Intent is what a tick is about to do. It is kept before anything is done, so that
// who finds it knows that the tick may have been cut off in the midst of it.
type Intent struct {
	At      time.Time      `json:"at"`
	Targets map[string]int `json:"targets,omitempty"` // absolute, by group
	LetGo   []string       `json:"let_go,omitempty"`  // nodes
}

// memo is what is kept for the next tick and the next process.
type memo struct {
	Schema int           `json:"schema"`
	State  resolve.State `json:"state"`
	Intent *Intent       `json:"intent,omitempty"` // nil once it has been done
}

// begin takes up what the last process handed on, unless that has been done. A memo
// that cannot be read leaves the loop without memory, as a first start does; then
// all that runs may have joined.
func (l *Loop) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	if !l.begun {
		data, ok, err := l.world.Memory.Load(ctx)
		if err != nil {
			return fmt.Errorf("load what the last tick handed on: %w", err)
		}
		if err := l.recall(data, ok); err != nil {
			return err
		}
		l.begun = true
	}
	if l.drains != nil && !l.config.DryRun {
		return nil
	}
	config := l.config.Drain
	if config.CallTimeout == 0 || config.CallTimeout > l.config.callTimeout() {
		config.CallTimeout = l.config.callTimeout()
	}
	machine, err := drain.Open(ctx, config, drain.Ports{Records: l.world.Records, Scheduler: hands{l}, Groups: hands{l}, Menders: hands{l}})
	if err != nil {
		return err
	}
	l.drains = machine
	l.shown.open(machine)
	return nil
}

// recall takes up what was kept. It returns an error, and changes nothing, if a later
// version kept it.
func (l *Loop) recall(data []byte, ok bool) error {
	l.reader.Restore(nil, false)
	if !ok {
		return nil
	}
	m, err := decodeMemo(data)
	if err == nil {
		err = m.State.Validate()
	}
	if errors.Is(err, errLaterSchema) {
		return fmt.Errorf("load the state of pool %s: %w", l.pool, err)
	}
	if err != nil {
		l.log.Error("what the last tick handed on cannot be read", "pool", l.pool, "err", err)
		return nil
	}
	l.reader.Restore(m.State.Joined, true)
	l.state = m.State
	l.state.Joined = nil
	if m.Intent != nil { // how far it came is unknown
		for group, of := range l.state.Groups {
			of.Doubt = true
			l.state.Groups[group] = of
		}
	}
	return nil
}

// save keeps the state, and what is about to be done.
func (l *Loop) save(ctx context.Context, s resolve.State, i *Intent) error {
	s.Joined = l.reader.Joined()
	data, err := json.Marshal(memo{resolve.Schema, s, i})
	if err != nil {
		return fmt.Errorf("encode what is handed on: %w", err)
	}
	if err := l.write(ctx, func(ctx context.Context) error { return l.world.Memory.Save(ctx, data) }); err != nil {
		return fmt.Errorf("keep what is handed on: %w", err)
	}
	return nil
}

// errLeaseEnds: nobody else has the pool yet, but somebody may have before a call is
// over.
var errLeaseEnds = errors.New("the lease ends too soon for a call")

// mayWrite returns why no call that changes something may begin now, if so.
func (l *Loop) mayWrite() error { return l.outlasts(l.config.callTimeout()) }

// outlasts returns why no call that may take so long may begin now, if so.
func (l *Loop) outlasts(timeout time.Duration) error {
	switch left := l.world.Lease.Left(); {
	case left <= 0:
		return pools.ErrNotHolder
	case left <= timeout:
		return fmt.Errorf("%w: in %v, and a call may take %v", errLeaseEnds, left.Round(time.Millisecond), timeout)
	}
	return nil
}

// write makes one call that changes something outside, if the lease outlasts it.
func (l *Loop) write(ctx context.Context, call func(context.Context) error) error {
	if err := l.mayWrite(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.callTimeout())
	defer cancel()
	return call(ctx)
}
