package local

import (
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/pools"
)

// attempt is a repair in place: in progress, done or failed.
type attempt struct {
	ID     string         `json:"id"`
	Kind   api.RepairKind `json:"kind"`
	Done   bool           `json:"done,omitempty"`
	Failed string         `json:"failed,omitempty"` // why it failed
}

func (a attempt) open() bool { return a.ID != "" && !a.Done && a.Failed == "" }

// repairKinds returns the kinds of repair of a local machine.
func repairKinds() []api.RepairKind {
	return []api.RepairKind{api.RepairStart, api.RepairReboot, api.RepairReset, api.RepairRebuild}
}

// repair returns the state of a repair, or begins it. If begin is true and the machine's power is
// repairing, the caller ends its process.
func (m *machines) repair(r repairRequest) (begin, done bool, err error) {
	if err := r.validate(); err != nil {
		return false, false, err
	}
	i, err := m.find(r.Instance)
	if err != nil {
		return false, false, err
	}
	if i == nil {
		return false, false, fmt.Errorf("%w: %s is gone", pools.ErrRepairFailed, r.Instance)
	}
	if a := i.attempt; a.ID == r.Attempt {
		switch {
		case a.Kind != r.Kind:
			return false, false, call.Invalid("attempt %s of %s is a %s", a.ID, i.ID, a.Kind)
		case a.Failed != "":
			return false, false, fmt.Errorf("%w: %s", pools.ErrRepairFailed, a.Failed)
		}
		return false, a.Done, nil
	}
	if err := i.repairable(r.Kind); err != nil {
		return false, false, err
	}
	i.attempt, i.unfit = attempt{ID: r.Attempt, Kind: r.Kind}, ""
	if i.power == running && r.Kind == api.RepairStart { // it already runs
		i.attempt.Done = true
		return true, true, nil
	}
	i.power, i.why = repairing, ""
	return true, false, nil
}

func (r repairRequest) validate() error {
	switch {
	case r.Attempt == "" || len(r.Attempt) > maxAttempt:
		return call.Invalid("attempt: want 1 to %d bytes", maxAttempt)
	case !slices.Contains(repairKinds(), r.Kind):
		return call.Invalid("unknown repair %.64q of a local machine: want one of %q", r.Kind, repairKinds())
	case r.Image != "":
		return fmt.Errorf("%w: a local machine has no images", pools.ErrRepairFailed)
	}
	return nil
}

// repairable returns why a machine cannot be repaired, or cannot be repaired now.
func (i *machine) repairable(kind api.RepairKind) error {
	switch {
	case i.State == api.InstanceTerminating:
		return fmt.Errorf("%w: %s is being terminated", pools.ErrRepairFailed, i.ID)
	case i.power == repairing:
		return fmt.Errorf("%w: %s is under repair by attempt %s", pools.ErrRefused, i.ID, i.attempt.ID)
	case i.power == halting:
		return fmt.Errorf("%w: %s is being stopped", pools.ErrRefused, i.ID)
	case i.power == down && kind == api.RepairReboot:
		return fmt.Errorf("%w: %s is stopped: no process can restart", pools.ErrRepairFailed, i.ID)
	}
	return nil
}

// repairEnded records that a process was started again, or why not. It ends a repair that is in
// progress.
func (i *machine) repairEnded(err error) {
	repairing := i.attempt.open()
	if err != nil {
		i.power, i.why = down, err.Error()
		if repairing {
			i.attempt.Failed = i.why
		}
		return
	}
	i.power = running
	i.attempt.Done = i.attempt.Done || repairing
}

// isolate records a fence. confirmed means that nothing runs there. kill means that the caller must
// kill the process.
func (m *machines) isolate(id string, way pools.Fence) (confirmed, kill bool, err error) {
	if !slices.Contains(fences(), way) {
		return false, false, call.Invalid("unknown fence %.64q of a local machine: want one of %q", way, fences())
	}
	i, err := m.find(id)
	if err != nil {
		return false, false, err
	}
	if why := m.unclean[id]; why != "" {
		return false, false, fmt.Errorf("some processes of %s could not be stopped: %s", id, why)
	}
	if i == nil {
		return true, false, nil
	}
	if way == pools.FenceService {
		i.fenced = true
		return i.power == down, false, nil
	}
	if i.power == down || i.power == halting {
		return i.power == down, false, nil
	}
	if i.attempt.open() {
		i.attempt.Failed = "the machine was fenced"
	}
	i.power, i.why = halting, "fenced"
	return false, true, nil
}

// fences returns the fences of a local machine.
func fences() []pools.Fence { return []pools.Fence{pools.FenceService, pools.FenceCompute} }

// find returns a machine, or nil if it no longer exists. If it never was of this group, the error
// is pools.ErrNotOwned.
func (m *machines) find(id string) (*machine, error) {
	if i := m.live[id]; i != nil {
		return i, nil
	}
	if slices.Contains(m.known, id) {
		return nil, nil
	}
	return nil, fmt.Errorf("%w: %.140q is not of group %s", pools.ErrNotOwned, id, m.cfg.ID)
}

// inspect returns the health of the machines, in order of launch.
func (m *machines) inspect() []pools.Inspection {
	var out []pools.Inspection
	for _, i := range m.sorted() {
		n := pools.Inspection{ID: i.ID}
		switch {
		case i.State == api.InstanceTerminating:
			n.Leaving = true
		case i.power == down:
			n.Stopped, n.Machine.Why = true, i.why
		case i.power == halting:
			n.Machine.Why = "it is being stopped"
		case i.power == repairing:
			n.Machine.Why = "under repair: " + string(i.attempt.Kind)
		case i.unfit != "":
			n.Machine = pools.HealthCheck{Fitness: pools.Unfit, Why: i.unfit}
		default:
			n.Machine.Fitness = pools.Fit
		}
		out = append(out, n)
	}
	return out
}
