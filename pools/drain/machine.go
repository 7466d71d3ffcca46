package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Records keeps the records of one pool durably.
type Records interface {
	// Load returns all records.
	Load(ctx context.Context) ([]Record, error)
	// Put writes the record of its node over an earlier one.
	Put(ctx context.Context, r Record) error
	// Delete removes the node's record; one that is not there is no error.
	Delete(ctx context.Context, node string) error
}

// Scheduler keeps new tasks off a node.
type Scheduler interface {
	// Cordon sets or lifts the mark of a node. It may be repeated.
	Cordon(ctx context.Context, node string, on bool) error
}

// Groups ends instances.
type Groups interface {
	// Terminate is that of the [pools.Group] of that id.
	Terminate(ctx context.Context, group string, ids []string) error
}

// Ports is what a machine acts on.
type Ports struct {
	Records   Records
	Scheduler Scheduler
	Groups    Groups
}

// Choice is a node to be drained, and why.
type Choice struct {
	Node   string
	Group  string
	Weight float64
	Reason Reason
	Why    string
}

// Event is one step of one node.
type Event struct {
	At     time.Time `json:"at"`
	Node   string    `json:"node"`
	Group  string    `json:"group"`
	From   State     `json:"from"`
	To     State     `json:"to"`
	Action Action    `json:"action,omitempty"` // what was done, or tried
	Err    string    `json:"err,omitempty"`    // why it was in vain
	Why    string    `json:"why,omitempty"`
}

// Machine drains the nodes of one pool. It knows no more than its records hold.
type Machine struct {
	config  Config
	ports   Ports
	records map[string]Record // as they were put, by node
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
	m := &Machine{config: config, ports: ports, records: make(map[string]Record, len(loaded))}
	for _, r := range loaded {
		m.records[r.Node] = r
	}
	return m, nil
}

// Records returns all records in order of node.
func (m *Machine) Records() []Record {
	return slices.SortedFunc(maps.Values(m.records), func(a, b Record) int { return cmp.Compare(a.Node, b.Node) })
}

// Committed returns, by group, the weight that is on its way out and that the
// group's target still holds: what to take off the target to know what the pool
// will be. It does not count a node that is taken back, nor one whose
// termination the provider has accepted, as its target is without that already.
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

// Add has nodes drained. One that is on its way out already is left as it is;
// one that is being taken back is chosen anew. A choice that cannot be recorded
// does not stop the others.
func (m *Machine) Add(ctx context.Context, now time.Time, choices ...Choice) error {
	var errs []error
	for _, c := range choices {
		if old, ok := m.records[c.Node]; ok && old.State != Returning && old.State != Returned {
			continue
		}
		r := Record{
			Node: c.Node, Group: c.Group, Weight: c.Weight, State: Chosen, Reason: c.Reason,
			Since: now, Deadline: now.Add(m.config.Threshold), Why: c.Why,
		}
		errs = append(errs, m.put(ctx, r))
	}
	return errors.Join(errs...)
}

// TakeBack keeps nodes that were to go for scaling in, until they give the
// weight that is needed or none is left: those least on their way first, of
// these the last chosen. It returns the weight that stays. They are uncordoned
// by the next Advance.
func (m *Machine) TakeBack(ctx context.Context, now time.Time, weight float64) (float64, error) {
	kept := 0.0
	var errs []error
	for _, r := range m.returnable() {
		if kept >= weight {
			break
		}
		if err := m.put(ctx, r.to(Returning, now, "the need has returned")); err != nil {
			errs = append(errs, err)
			continue
		}
		kept += r.Weight
	}
	return kept, errors.Join(errs...)
}

// returnable returns the records that can be taken back, first to stay first.
func (m *Machine) returnable() []Record {
	way := []State{Chosen, Cordoned, Draining, Drained}
	rs := slices.DeleteFunc(m.Records(), func(r Record) bool { return r.Reason != ScaleIn || !r.State.Leaving() })
	slices.SortStableFunc(rs, func(a, b Record) int {
		return cmp.Or(
			cmp.Compare(slices.Index(way, a.State), slices.Index(way, b.State)),
			b.Deadline.Compare(a.Deadline),
		)
	})
	return rs
}

// Advance takes every node as far as its view allows; a node without a view is
// unknown. It returns what happened in order of node, and all errors joined:
// what fails for one node does not stop the others, and is tried again by the
// next Advance. Once ctx has ended nothing more is begun.
func (m *Machine) Advance(ctx context.Context, now time.Time, views map[string]View) ([]Event, error) {
	var events []Event
	var errs []error
	for _, r := range m.Records() {
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		if err := r.Validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		happened, err := m.advance(ctx, now, r, views[r.Node])
		events = append(events, happened...)
		errs = append(errs, err)
	}
	return events, errors.Join(errs...)
}

// advance takes one node on. It stops after a cordon or a termination, as the
// view is from before it.
func (m *Machine) advance(ctx context.Context, now time.Time, r Record, v View) ([]Event, error) {
	var events []Event
	for {
		next, action := m.config.Next(now, r, v)
		if next == r && action == None {
			return events, nil
		}
		e := Event{At: now, Node: r.Node, Group: r.Group, From: r.State, To: next.State, Action: action, Why: next.Why}
		done, err := m.step(ctx, now, next, action)
		e.To = done.State
		if err != nil {
			e.Err = err.Error()
		}
		events = append(events, e)
		if err != nil || action == Cordon || action == Terminate || action == Forget {
			return events, err
		}
		r = done
	}
}

// step puts the record, takes the action, and puts what follows. It returns the
// record as it was put last.
func (m *Machine) step(ctx context.Context, now time.Time, r Record, action Action) (Record, error) {
	if old := m.records[r.Node]; old != r && action != Forget {
		if err := m.put(ctx, r); err != nil {
			return old, err
		}
	}
	if err := m.act(ctx, r, action); err != nil {
		return r, fmt.Errorf("%s node %s of group %s: %w", action, r.Node, r.Group, err)
	}
	done := Done(now, r, action)
	if done == r {
		return r, nil
	}
	if err := m.put(ctx, done); err != nil {
		return r, err
	}
	return done, nil
}

func (m *Machine) act(ctx context.Context, r Record, action Action) error {
	switch action {
	case Cordon, Uncordon:
		return m.ports.Scheduler.Cordon(ctx, r.Node, action == Cordon)
	case Terminate:
		return m.ports.Groups.Terminate(ctx, r.Group, []string{r.Node})
	case Forget:
		if err := m.ports.Records.Delete(ctx, r.Node); err != nil {
			return err
		}
		delete(m.records, r.Node)
	}
	return nil
}

// put writes the record, and remembers it only if that succeeded.
func (m *Machine) put(ctx context.Context, r Record) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := m.ports.Records.Put(ctx, r); err != nil {
		return fmt.Errorf("put drain record of node %s as %s: %w", r.Node, r.State, err)
	}
	m.records[r.Node] = r
	return nil
}
