package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
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
	// Ended are the nodes under a drain record that were gone or terminating when the
	// Targets were computed: the targets found are without them already.
	Ended []string `json:"ended,omitempty"`
	// Before is what the State counted before the Targets were asked for: it counts
	// until they are found.
	Before *Counted `json:"before,omitempty"`
}

// Counted is the part of a State that says what the groups' targets are made of.
type Counted struct {
	Offset  float64        `json:"offset,omitempty"`
	Owed    float64        `json:"owed,omitempty"`
	Rolling map[string]int `json:"rolling,omitempty"`
}

// findOut settles what became of an intent that the last process did not live to see
// the end of: a target that is not found was not given, unless a machine that was ended
// since took it along.
func (l *Loop) findOut(v *view) {
	i := l.doubt
	l.doubt = nil
	if i == nil || i.Before == nil {
		return
	}
	lowered := l.loweredSince(*i, v)
	for _, g := range v.groups {
		if want, asked := i.Targets[g.ID]; asked && want != g.Target && want != g.Target+lowered[g.ID] {
			l.state.Offset, l.state.Owed = i.Before.Offset, i.Before.Owed
			if l.state.Rolling == nil {
				l.state.Rolling = map[string]int{}
			}
			l.state.Rolling[g.ID] = i.Before.Rolling[g.ID]
		}
	}
}

// terminated returns the nodes of the records that are gone or terminating.
func terminated(records []drain.Record, v *view) []string {
	there := map[string]bool{}
	for _, n := range v.nodes {
		there[n.Instance.ID] = n.Instance.State != pools.InstanceTerminating
	}
	var out []string
	for _, r := range records {
		if !there[r.Node] {
			out = append(out, r.Node)
		}
	}
	return out
}

// loweredSince returns by how much terminations since the intent have lowered the
// targets of the groups. A node that was gone or terminating before does not count.
func (l *Loop) loweredSince(i Intent, v *view) map[string]int {
	records := l.drains.Records()
	gone, weight := terminated(records, v), map[string]float64{}
	for _, r := range records {
		ended := r.State == drain.Terminating && r.Asked.IsZero() && slices.Contains(gone, r.Node) || !r.Asked.Before(i.At)
		if r.Mend == "" && !r.Taken && ended && !slices.Contains(i.Ended, r.Node) {
			weight[r.Group] += r.Weight
		}
	}
	out := map[string]int{}
	for group, w := range weight {
		out[group] = int(math.Round(w))
	}
	return out
}

// memo is what is kept for the next tick and the next process.
type memo struct {
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
		l.recall(data, ok)
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

func (l *Loop) recall(data []byte, ok bool) {
	l.amnesia = true
	if !ok {
		return
	}
	var m memo
	if err := json.Unmarshal(data, &m); err != nil {
		l.log.Error("what the last tick handed on cannot be read", "pool", l.pool, "err", err)
		return
	}
	l.amnesia = false
	l.joined = make(map[string]bool, len(m.State.Joined))
	for _, id := range m.State.Joined {
		l.joined[id] = true
	}
	l.state = m.State
	l.state.Joined = nil
	if m.Intent != nil { // how far it came is not known: what is found counts
		l.state.Asked, l.doubt = nil, m.Intent
	}
}

// save keeps the state, and what is about to be done.
func (l *Loop) save(ctx context.Context, s resolve.State, i *Intent) error {
	s.Joined = slices.Sorted(maps.Keys(l.joined))
	data, err := json.Marshal(memo{s, i})
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
		return ErrNotHolder
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
