package nodehealth

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// drainRoom is the maximum number of waiting drain events. If more arrive, the records show the
// end of a repair.
const drainRoom = 10_000

// exchange holds the data that the autoscaler reads and reports. It may be used concurrently.
type exchange struct {
	*shared

	mu        sync.Mutex
	drained   []drain.Event // events that wait for the Loop
	unhealthy map[string]string
	barred    string
	budget    disruption.Budget
	known     bool // the fields above come from a judge

	runs map[string]workflowRun // workflows whose records called Mend, by attempt
}

// Drained accepts the events of drain records, in order. It does not wait.
func (x *exchange) Drained(events []drain.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	room := max(0, drainRoom-len(x.drained))
	x.drained = append(x.drained, events[:min(room, len(events))]...)
	if len(events) > room {
		x.mail.lose("drain events", len(events)-room)
	}
}

func (x *exchange) takeDrainEvents() []drain.Event {
	x.mu.Lock()
	defer x.mu.Unlock()
	events := x.drained
	x.drained = nil
	return events
}

// Unhealthy returns the unhealthy nodes with the reason. The caller must not change the map. Unhealthy does
// not wait.
func (x *exchange) Unhealthy() map[string]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.unhealthy
}

// Budget returns the pool's disruption budget, with everything that is out of service. If the
// policy does not act, it has no limit. The caller must not change the map. Budget does not wait.
func (x *exchange) Budget() disruption.Budget {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.budget
}

// Unknown returns why the condition of the pool is not known yet, or an empty string if it is
// known. In mode observe, or if the policy is not enabled, it is always known. Unknown does not
// wait.
func (x *exchange) Unknown() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known || !x.acts() || !*x.policy.Enabled {
		return ""
	}
	return "node health has not loaded its state yet: it is unknown which nodes are out of service"
}

// Barred returns why the pool must not shrink now, or an empty string if it may. It does not wait.
func (x *exchange) Barred() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.barred
}

// workflowRun is a workflow whose drain record has reached its turn: the node is cordoned and empty.
type workflowRun struct {
	pools.InPlaceRepair
	begun bool           // the actor accepted it
	out   *judge.Outcome // the outcome; nil: it runs or waits
}

// err returns why the workflow failed, or nil if it succeeded.
func (m workflowRun) err() error {
	if m.out.Step == judge.StepDone && m.out.OK {
		return nil
	}
	return fmt.Errorf("%w: %s", pools.ErrRepairFailed, cmp.Or(m.out.Reason, "no reason is given"))
}

// RepairInPlace begins the workflow of a repair, or returns its outcome, as a [pools.Repairer] does. The drain
// of the node calls it again until done. Mend does not wait.
func (x *exchange) RepairInPlace(m pools.InPlaceRepair) (done bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known, ok := x.runs[m.Attempt]
	switch {
	case !ok:
		x.runs[m.Attempt] = workflowRun{InPlaceRepair: m}
	case known.out != nil:
		return known.err() == nil, known.err()
	}
	return false, nil
}

// takeWorkflows returns the workflows that the actor has not accepted, sorted by attempt, and marks them as
// accepted.
func (x *exchange) takeWorkflows() (all []pools.InPlaceRepair) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, attempt := range slices.Sorted(maps.Keys(x.runs)) {
		if m := x.runs[attempt]; !m.begun {
			m.begun = true
			x.runs[attempt] = m
			all = append(all, m.InPlaceRepair)
		}
	}
	return all
}

// ended stores the outcome of a workflow.
func (x *exchange) ended(attempt string, out judge.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if m, ok := x.runs[attempt]; ok {
		m.out = &out
		x.runs[attempt] = m
	}
}

// runOf returns the workflow of an attempt. If its record has not called Mend, ok is false.
func (x *exchange) runOf(attempt string) (m workflowRun, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m, ok = x.runs[attempt]
	return m, ok
}

// forget drops the ended workflows without a record.
func (x *exchange) forget(records []api.Drain) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.runs, func(attempt string, m workflowRun) bool {
		return m.out != nil && !slices.ContainsFunc(records, func(r api.Drain) bool { return r.Attempt == attempt })
	})
}
