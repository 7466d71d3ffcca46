package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Machine drains the nodes of one pool. It knows no more than its records hold.
type Machine struct {
	config Config
	ports  Ports
	clock  clock // of Add, TakeBack and Advance
	// resumed are the attempts that the loaded records had in the state Mending.
	resumed map[string]bool

	mu      sync.Mutex
	records map[string]Record // as they were put, but for a clock that was put back; by node
}

// Open returns a machine that goes on with the records that there are.
func Open(ctx context.Context, config Config, ports Ports) (*Machine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	loaded, err := ports.Records.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load drain records: %w", err)
	}
	m := &Machine{config: config.withDefaults(), ports: ports, records: make(map[string]Record, len(loaded)), resumed: map[string]bool{}}
	for _, r := range loaded {
		m.records[r.Node] = r
		if r.State == Mending {
			m.resumed[r.Attempt] = true
		}
	}
	return m, nil
}

// Records returns all records in order of node, those that make no sense too: a
// node that has a record is not to be chosen, nor counted as one that stays,
// unless its record says so.
func (m *Machine) Records() []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.records), func(a, b Record) int { return cmp.Compare(a.Node, b.Node) })
}

// Committed returns, by group, the weight that is on its way out and that the
// group's target still holds: what to take off the target to know what the pool
// will be. It does not count a node that is taken back, nor one whose
// termination the provider has accepted, as its target is without that already,
// nor one that the provider takes by itself, as its group replaces it.
//
// there reports whether a node's group has it still, and not on its way out. A
// node that is not there does not count: whether the target is without it, or
// the provider is replacing it, its group's target is what it will be.
func (m *Machine) Committed(there func(node string) bool) map[string]float64 {
	sums := make(map[string]float64)
	for _, r := range m.Records() {
		if r.Committed() && r.Validate() == nil && there(r.Node) {
			sums[r.Group] += r.Weight
		}
	}
	return sums
}

// Add has nodes drained, and those of them repaired in place that are to be. One that is on its way out already goes on as it is, but
// for a stronger reason, which takes the place of its own: then it is not taken
// back, and is out by the earlier one of the deadlines. One that is being taken
// back is chosen anew. A choice that cannot be recorded, or whose node has a record
// that makes no sense, is an error and does not stop the others.
// Once Add has returned nil all choices are kept.
func (m *Machine) Add(ctx context.Context, now time.Time, choices ...Choice) error {
	errs := []error{m.tell(ctx, now)}
	now = now.Round(0)
	for _, c := range choices {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("drain node %s: %w", c.Node, context.Cause(ctx)))
			break
		}
		if err := c.validate(m.ports); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, m.add(ctx, c.record(now, m.config)))
	}
	return errors.Join(errs...)
}

func (m *Machine) add(ctx context.Context, r Record) error {
	old, ok := m.record(r.Node)
	if ok {
		if err := old.Validate(); err != nil {
			return unreadable(old, err)
		}
		if r = r.onto(old); r == old {
			return nil
		}
	}
	err := m.put(ctx, r)
	if err != nil && r.Validate() == nil && (!ok || old.State == Returned) {
		// It may have been written all the same, so it is to be deleted.
		m.keep(Record{
			Node: r.Node, Group: r.Group, Weight: r.Weight, State: Returned, Reason: r.Reason,
			Since: r.Since, Deadline: r.Deadline, Why: "it could not be recorded",
		})
	}
	return err
}

// TakeBack keeps nodes that were to go for scaling in, in the order of Returnable,
// until they give the weight that is needed or none is left. It returns the weight that stays. They are uncordoned
// by the next Advance.
func (m *Machine) TakeBack(ctx context.Context, now time.Time, weight float64) (float64, error) {
	errs := []error{m.tell(ctx, now)}
	now = now.Round(0)
	kept := 0.0
	for _, r := range Returnable(m.Records()) {
		if kept >= weight {
			break
		}
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		if err := m.put(ctx, r.back(now, "the need has returned")); err != nil {
			errs = append(errs, err)
			continue
		}
		kept += r.Weight
	}
	return kept, errors.Join(errs...)
}

// Withdraw takes back the repair of that attempt: its node stays in service, and is
// uncordoned by the next Advance. It returns nil once that is kept, or if no record has
// the attempt, and pools.ErrBegun if the repair has reached the machine.
func (m *Machine) Withdraw(ctx context.Context, now time.Time, attempt, why string) error {
	err := m.tell(ctx, now)
	for _, r := range m.Records() {
		switch {
		case r.Attempt != attempt || r.InService() || r.State == Gone || r.Validate() != nil:
		case r.State.Leaving():
			return errors.Join(err, m.put(ctx, r.back(now.Round(0), why)))
		default:
			return errors.Join(err, fmt.Errorf("withdraw the repair of node %s: %w: it is %s", r.Node, pools.ErrBegun, r.State))
		}
	}
	return err
}

// Advance takes every node as far as its view allows, many at the same time; a
// node without a view is unknown. It returns what happened in order of node, and
// all errors joined: what fails for one node does not stop the others, and is
// tried again by the next Advance. A record that makes no sense is such an error,
// and its node is left alone. Once ctx has ended nothing more is begun.
func (m *Machine) Advance(ctx context.Context, now time.Time, views map[string]View) ([]Event, error) {
	errs := []error{m.tell(ctx, now)}
	now = now.Round(0)
	records := m.Records()
	happened, failed := make([][]Event, len(records)), make([]error, len(records))
	errs = append(errs, m.each(ctx, len(records), func(i int) {
		r := records[i]
		if err := r.Validate(); err != nil {
			failed[i] = unreadable(r, err)
			return
		}
		happened[i], failed[i] = m.advance(ctx, now, r, views[r.Node])
	}))
	return slices.Concat(happened...), errors.Join(append(errs, failed...)...)
}

// unreadable is what is told of a record that makes no sense, with what its store
// says of it.
func unreadable(r Record, err error) error {
	if r.Why != "" {
		err = fmt.Errorf("%w (%s)", err, r.Why)
	}
	return fmt.Errorf("node %s is left alone: %w", r.Node, err)
}

// each does n things, some of them at the same time, and returns when they are
// done. When ctx has ended it begins no more of them, and returns the cause.
func (m *Machine) each(ctx context.Context, n int, do func(i int)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	next := make(chan int)
	defer close(next)
	for range min(n, m.config.Concurrency) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// advance takes one node on. It stops after a cordon or a termination, as the
// view is from before it.
func (m *Machine) advance(ctx context.Context, now time.Time, r Record, v View) ([]Event, error) {
	var events []Event
	for {
		next, action := m.config.Next(now, r, v)
		if next == r && action == None || ctx.Err() != nil {
			return events, nil
		}
		e := Event{At: now, Node: r.Node, Group: r.Group, From: r.State, Action: action}
		done, err := m.step(ctx, now, next, action)
		e.To, e.Why, e.Reason, e.Attempt, e.Failed = done.State, done.Why, done.Reason, done.Attempt, done.Failed
		if err != nil {
			e.Err, e.Why = err.Error(), next.Why
		}
		if action != Mend || err != nil || done != r { // else it was looked up, and goes on
			events = append(events, e)
		}
		if err != nil || action == Cordon || action == Terminate || action == Mend || action == Forget {
			return events, err
		}
		r = done
	}
}

// step puts the record, takes the action, and puts what follows. It returns the
// record as it was put last.
func (m *Machine) step(ctx context.Context, now time.Time, r Record, action Action) (Record, error) {
	if old, _ := m.record(r.Node); old != r && action != Forget {
		if err := m.put(ctx, r); err != nil {
			return old, err
		}
	}
	through, err := m.act(ctx, r, action)
	done := r
	switch {
	case errors.Is(err, pools.ErrMendFailed):
		done = r.failed(now, err.Error())
	case err != nil:
		return r, fmt.Errorf("%s node %s of group %s: %w", action, r.Node, r.Group, err)
	case through:
		done = Done(now, r, action)
	}
	if done == r {
		return r, nil
	}
	if err := m.put(ctx, done); err != nil {
		return r, err
	}
	return done, nil
}

// act takes the action, and reports whether that brought it about.
func (m *Machine) act(ctx context.Context, r Record, action Action) (done bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, m.config.CallTimeout)
	defer cancel()
	switch action {
	case Cordon, Uncordon:
		return true, m.ports.Scheduler.Cordon(ctx, r.Node, action == Cordon)
	case Terminate:
		return true, m.ports.Groups.Terminate(ctx, r.Group, []string{r.Node})
	case Mend:
		if m.ports.Menders == nil {
			return false, fmt.Errorf("%w: nothing is repaired in place here", pools.ErrMendFailed)
		}
		repair := r.Mending()
		repair.Resumed = m.resumed[r.Attempt]
		return m.ports.Menders.Mend(ctx, r.Group, repair)
	case Forget:
		if err := m.ports.Records.Delete(ctx, r.Node); err != nil {
			return false, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.records, r.Node)
	}
	return true, nil
}

// put writes the record, and remembers it only if that succeeded.
func (m *Machine) put(ctx context.Context, r Record) error {
	if err := r.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.config.CallTimeout)
	defer cancel()
	if err := m.ports.Records.Put(ctx, r); err != nil {
		return fmt.Errorf("put drain record of node %s as %s: %w", r.Node, r.State, err)
	}
	m.keep(r)
	return nil
}

func (m *Machine) keep(r Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[r.Node] = r
}

func (m *Machine) record(node string) (Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[node]
	return r, ok
}
