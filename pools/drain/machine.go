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

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Machine drains the nodes of one pool. Its only state is its records.
type Machine struct {
	config Config
	ports  Ports
	clock  clock // for Add, TakeBack, Idle and Advance
	// resumed has the attempts whose loaded records were in the state Repairing.
	resumed map[string]bool

	mu      sync.Mutex
	records map[string]api.Drain // as stored, or moved with the clock; by node
	sorted  []api.Drain          // the same in order of node, read-only; nil: to be made
	// unsure are the nodes whose last record could not be stored. The store may have it after all.
	unsure map[string]bool
	// lacked are the nodes of invalid records that the last snapshot lacked, with its time.
	lacked map[string]time.Time
}

// Open loads the stored records and returns a machine that continues them.
func Open(ctx context.Context, config Config, ports Ports) (*Machine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	loaded, err := ports.Records.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load drain records: %w", err)
	}
	if ports.Limit == nil {
		ports.Limit = context.WithTimeout
	}
	m := &Machine{config: config.withDefaults(), ports: ports, records: make(map[string]api.Drain, len(loaded)), resumed: map[string]bool{}, unsure: map[string]bool{}, lacked: map[string]time.Time{}}
	for _, r := range loaded {
		m.records[r.Node] = r
		if r.State == api.DrainRepairing {
			m.resumed[r.Attempt] = true
		}
	}
	return m, nil
}

// Records returns all records in order of node, invalid ones too. A node with a record must not be
// chosen. It counts as capacity only if Record.Stays. The caller must not change the slice, which
// does not change either.
func (m *Machine) Records() []api.Drain {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sorted == nil && len(m.records) > 0 {
		m.sorted = slices.SortedFunc(maps.Values(m.records), func(a, b api.Drain) int { return cmp.Compare(a.Node, b.Node) })
	}
	return m.sorted
}

// Committed returns, by group, the leaving weight that is still part of the group's target.
// Subtract it from the target to get the future size. A node that is taken back does not count. A
// node whose termination the provider has accepted does not count, because its target is already
// lower. A node that the provider ends by itself does not count, because its group replaces it.
//
// there reports whether a node's group still contains it and is not terminating it. A node that is
// not there does not count: either the target is already lower, or the provider replaces the node.
func (m *Machine) Committed(there func(node string) bool) map[string]float64 {
	sums := make(map[string]float64)
	for _, r := range m.Records() {
		if IsCommitted(r) && ValidateRecord(r) == nil && there(r.Node) {
			sums[r.Group] += r.Weight
		}
	}
	return sums
}

// Add starts the drain, or the repair in place, of nodes. If a node is already leaving, its drain
// continues. A stronger reason replaces the old one: then the node is not taken back, and the
// earlier deadline applies. A node that is being taken back is chosen again. A choice that cannot
// be stored, or whose node has an invalid record, is an error and does not stop the others. After a
// nil error all choices are durably stored.
func (m *Machine) Add(ctx context.Context, now time.Time, choices ...Choice) error {
	errs := []error{m.followClock(ctx, now)}
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
		errs = append(errs, m.addRecord(ctx, c.record(now, m.config)))
	}
	return errors.Join(errs...)
}

func (m *Machine) addRecord(ctx context.Context, r api.Drain) error {
	old, ok := m.record(r.Node)
	if ok {
		if err := ValidateRecord(old); err != nil {
			return invalidRecord(old, err)
		}
		if r = ontoRecord(r, old); m.isStored(r) {
			return nil
		}
	}
	err := m.putRecord(ctx, r)
	if _, informed := m.ports.Scheduler.(Informed); informed && err == nil && ok && !old.CordonSent.IsZero() && !r.Deadline.Equal(old.Deadline) {
		_, _ = m.act(ctx, r, Cordon) // it helps the scheduler; the deadline holds without it
	}
	if err != nil && ValidateRecord(r) == nil && (!ok || old.State == api.DrainReturned) {
		// The record may have been stored after all, so it must be deleted.
		m.setRecord(api.Drain{
			Node: r.Node, Group: r.Group, Weight: r.Weight, State: api.DrainReturned, Reason: r.Reason,
			Since: r.Since, Deadline: r.Deadline, Why: "its drain record could not be stored",
		})
	}
	return err
}

// TakeBack cancels the scale-in drains of these nodes. It skips nodes that Returnable does not
// return. It returns the weight that stays. The next Advance uncordons the nodes.
func (m *Machine) TakeBack(ctx context.Context, now time.Time, nodes ...string) (float64, error) {
	errs := []error{m.followClock(ctx, now)}
	now = now.Round(0)
	kept := 0.0
	for _, r := range Returnable(m.Records()) {
		if !slices.Contains(nodes, r.Node) {
			continue
		}
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		if err := m.putRecord(ctx, takenBackRecord(r, now, "the need has returned")); err != nil {
			errs = append(errs, err)
			continue
		}
		kept += r.Weight
	}
	return kept, errors.Join(errs...)
}

// Withdraw cancels the repair of that attempt. The node stays in service, and the next Advance
// uncordons it. The result is nil once that is stored, or if no record has the attempt. If the
// repair has reached the machine, it is pools.ErrBegun.
func (m *Machine) Withdraw(ctx context.Context, now time.Time, attempt, why string) error {
	err := m.followClock(ctx, now)
	for _, r := range m.Records() {
		switch {
		case r.Attempt != attempt || r.InService() || r.State == api.DrainGone || ValidateRecord(r) != nil:
		case r.State.Leaving():
			return errors.Join(err, m.putRecord(ctx, takenBackRecord(r, now.Round(0), why)))
		default:
			return errors.Join(err, fmt.Errorf("withdraw the repair of node %s: %w: it is %s", r.Node, pools.ErrBegun, r.State))
		}
	}
	return err
}

// Advance moves every node forward as far as its snapshot allows, many at the same time. Without a
// snapshot the state of a node is unknown. Advance returns the events in order of node, and all
// errors joined. An error for one node does not stop the others, and the next Advance retries it.
// An invalid record is such an error, and its node is not changed: the record ends when two snapshots in a row lack the node.
// After the end of ctx nothing new begins.
func (m *Machine) Advance(ctx context.Context, now time.Time, snapshots map[string]NodeSnapshot) ([]Event, error) {
	errs := []error{m.followClock(ctx, now)}
	now = now.Round(0)
	records := m.Records()
	happened, failed := make([][]Event, len(records)), make([]error, len(records))
	errs = append(errs, m.each(ctx, len(records), func(i int) {
		r := records[i]
		if err := ValidateRecord(r); err != nil {
			happened[i], failed[i] = m.advanceInvalid(ctx, now, r, snapshots[r.Node], invalidRecord(r, err))
			return
		}
		happened[i], failed[i] = m.advance(ctx, now, r, snapshots[r.Node])
	}))
	return slices.Concat(happened...), errors.Join(append(errs, failed...)...)
}

// Idle reports whether Advance with these snapshots would move no valid record. It calls no port.
func (m *Machine) Idle(now time.Time, snapshots map[string]NodeSnapshot) bool {
	if m.clock.setBack(now) {
		return false
	}
	now = now.Round(0)
	for _, r := range m.Records() {
		if ValidateRecord(r) != nil {
			continue
		}
		next, action := m.config.Next(now, r, snapshots[r.Node])
		if next != r || action != None || lastChange(r).After(now) {
			return false
		}
	}
	return true
}

// advanceInvalid deletes an invalid record whose node is gone. Otherwise it returns the error of the record.
func (m *Machine) advanceInvalid(ctx context.Context, now time.Time, r api.Drain, v NodeSnapshot, invalid error) ([]Event, error) {
	if !m.lacks(r.Node, v) {
		return nil, invalid
	}
	e := Event{At: now, Node: r.Node, Group: r.Group, From: "invalid", To: api.DrainGone, Action: DeleteRecord, Why: "it is gone, and its record is invalid"}
	if _, err := m.act(ctx, r, DeleteRecord); err != nil {
		e.To, e.Err = e.From, err.Error()
		return []Event{e}, fmt.Errorf("%s node %s: %w", DeleteRecord, r.Node, err)
	}
	return []Event{e}, nil
}

// lacks reports whether this snapshot lacks the node, and the one before did too. A single list may have missed it.
func (m *Machine) lacks(node string, v NodeSnapshot) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, lacked := m.lacked[node]
	if v.Instance != Absent && !v.Left {
		delete(m.lacked, node)
		return false
	}
	if !lacked {
		m.lacked[node] = v.At
	}
	return lacked && v.At.After(before)
}

// invalidRecord returns the error for an invalid record, with the reason from its store.
func invalidRecord(r api.Drain, err error) error {
	if r.Why != "" {
		err = fmt.Errorf("%w (%s)", err, r.Why)
	}
	return fmt.Errorf("leave node %s unchanged: %w", r.Node, err)
}

// each calls do for 0 to n-1, some of them at the same time, and waits. After the end of ctx it
// begins no more calls, and returns the cause.
func (m *Machine) each(ctx context.Context, n int, do func(i int)) error {
	if n <= 1 || m.config.Concurrency == 1 {
		for i := 0; i < n && ctx.Err() == nil; i++ {
			do(i)
		}
		return context.Cause(ctx)
	}
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

// advance moves one node forward. It stops after an action, because the snapshot is older than the
// action.
func (m *Machine) advance(ctx context.Context, now time.Time, r api.Drain, v NodeSnapshot) ([]Event, error) {
	var events []Event
	for {
		next, action := m.config.Next(now, r, v)
		if next == r && action == None || ctx.Err() != nil {
			return events, nil
		}
		e := Event{At: now, Node: r.Node, Group: r.Group, From: r.State, Action: action}
		done, err := m.step(ctx, now, next, action)
		e.To, e.Why, e.Reason, e.Attempt, e.Failed = done.State, done.Why, done.Reason, done.Attempt, done.Failed
		e.Late = r.State.Leaving() && done.State == api.DrainReturning && !now.Before(endOf(r))
		if err != nil {
			e.Err, e.Why = err.Error(), next.Why
		}
		if action != RepairInPlace || err != nil || done != r { // a repeated RepairInPlace that is still in progress is no event
			events = append(events, e)
		}
		if err != nil || action == Cordon || action == Terminate || action == RepairInPlace || action == DeleteRecord {
			return events, err
		}
		r = done
	}
}

// step stores the record, takes the action, and stores the result. It returns the record that was
// stored last.
func (m *Machine) step(ctx context.Context, now time.Time, r api.Drain, action Action) (api.Drain, error) {
	if action != DeleteRecord && !m.isStored(r) {
		if err := m.putRecord(ctx, r); err != nil {
			old, _ := m.record(r.Node)
			return old, err
		}
	}
	finished, err := m.act(ctx, r, action)
	done := r
	switch {
	case errors.Is(err, pools.ErrRepairFailed):
		done = failedRecord(r, now, err.Error())
	case action == Terminate && (errors.Is(err, pools.ErrRefused) || errors.Is(err, pools.ErrThrottled)):
		if back := notTerminating(r, now, errors.Is(err, pools.ErrThrottled)); back != r && m.putRecord(despiteDeadline(ctx), back) == nil {
			r = back
		}
		return r, fmt.Errorf("%s node %s of group %s: %w", action, r.Node, r.Group, err)
	case err != nil:
		return r, fmt.Errorf("%s node %s of group %s: %w", action, r.Node, r.Group, err)
	case finished:
		done = Done(now, r, action)
	}
	if done == r {
		return r, nil
	}
	if err := m.putRecord(ctx, done); err != nil {
		return r, err
	}
	return done, nil
}

// despiteDeadline returns a context without the deadline of ctx if that has passed. A provider that is busy may use all time of a step,
// and a refusal that is not stored keeps the node waiting for a termination that never happened.
func despiteDeadline(ctx context.Context) context.Context {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// act takes the action, and reports whether the action is finished.
func (m *Machine) act(ctx context.Context, r api.Drain, action Action) (done bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	ctx, cancel := m.ports.Limit(ctx, m.config.CallTimeout)
	defer cancel()
	switch action {
	case Cordon, Uncordon:
		if informed, is := m.ports.Scheduler.(Informed); is && action == Cordon {
			return true, informed.CordonFor(ctx, r.Node, r.Reason, r.Deadline)
		}
		return true, m.ports.Scheduler.Cordon(ctx, r.Node, action == Cordon)
	case Terminate:
		return true, m.ports.Groups.Terminate(ctx, r.Group, []string{r.Node})
	case RepairInPlace:
		if m.ports.Repairers == nil {
			return false, fmt.Errorf("%w: this provider repairs no instance in place", pools.ErrRepairFailed)
		}
		repair := RepairOf(r)
		repair.Resumed = m.resumed[r.Attempt]
		return m.ports.Repairers.RepairInPlace(ctx, r.Group, repair)
	case DeleteRecord:
		if err := m.ports.Records.Delete(ctx, r.Node); err != nil {
			return false, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.records, r.Node)
		delete(m.unsure, r.Node)
		delete(m.lacked, r.Node)
		m.sorted = nil
	}
	return true, nil
}

// putRecord stores the record durably, and in memory only if that succeeded.
func (m *Machine) putRecord(ctx context.Context, r api.Drain) error {
	if err := ValidateRecord(r); err != nil {
		return err
	}
	ctx, cancel := m.ports.Limit(ctx, m.config.CallTimeout)
	defer cancel()
	if err := m.ports.Records.Put(ctx, r); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.unsure[r.Node] = true
		return fmt.Errorf("put drain record of node %s as %s: %w", r.Node, r.State, err)
	}
	m.setRecord(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.unsure, r.Node)
	return nil
}

func (m *Machine) setRecord(r api.Drain) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[r.Node], m.sorted = r, nil
}

// isStored reports whether r is the record of its node in the store, as far as that is certain.
func (m *Machine) isStored(r api.Drain) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[r.Node] == r && !m.unsure[r.Node]
}

func (m *Machine) record(node string) (api.Drain, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[node]
	return r, ok
}
