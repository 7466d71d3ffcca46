package nodehealth

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// evidenceTimeout is the timeout for reading a machine's output, and for saving its evidence.
	// After it the repair continues without evidence.
	evidenceTimeout = 10 * time.Second
	maxConsole      = 64 << 10 // maximum length of Evidence.Console, in bytes
)

// EvidenceStore stores evidence. It may be used concurrently.
type EvidenceStore interface {
	// Save stores an Evidence in JSON durably, and returns its name in the store.
	Save(ctx context.Context, node string, data []byte) (name string, err error)
}

// conditions are the conditions that a node reported, and when.
type conditions struct {
	at  time.Time
	all []api.NodeCondition
}

// evidenceCollector saves evidence about machines before they are replaced or rebuilt.
type evidenceCollector struct {
	*shared
	inventory *inventory
}

// collect saves evidence about the machine of an order, and returns its name. Empty: nothing was
// saved.
func (w *evidenceCollector) collect(ctx context.Context, e *execution) string {
	o := e.order
	if w.world.Evidence == nil || o.Action.Name != api.ActionRecreate && o.Action.Name != api.ActionRebuild {
		return ""
	}
	var known api.Evidence
	if err := w.mail.do(ctx, func(now time.Time, j *judge.Judge) { known = w.evidence(now, j, e) }); err != nil {
		return ""
	}
	if w.world.Console != nil {
		read, cancel := context.WithTimeout(ctx, evidenceTimeout)
		text, err := w.world.Console(read, o.Node)
		cancel()
		if err != nil {
			known.ConsoleError = truncate(err.Error())
		}
		known.Console = strings.ToValidUTF8(string(text[max(0, len(text)-maxConsole):]), "\ufffd")
	}
	name := ""
	data, err := json.Marshal(known)
	if err == nil {
		save, cancel := context.WithTimeout(ctx, evidenceTimeout)
		name, err = w.world.Evidence.Save(save, o.Node, data)
		cancel()
	}
	if err != nil {
		w.log.Warn("save evidence failed", "node", o.Node, "attempt", o.Attempt, "err", err)
	}
	return name
}

// evidence returns the facts that the Loop has about the machine of an order.
func (w *evidenceCollector) evidence(now time.Time, j *judge.Judge, e *execution) api.Evidence {
	in := w.input(now, j, e)
	last := w.inventory.conditions[in.Node]
	return api.Evidence{
		At: now, Pool: in.Pool, Node: in.Node, Group: e.machine.group, Zone: in.Zone, Attempt: in.Attempt,
		Action: e.order.Action.Name, Reason: in.Reason, Modes: in.Evidence, Conditions: last.all, ConditionsAt: last.at,
	}
}

// report stores the conditions that nodes reported.
func (v *inventory) report(facts []api.NodeFacts) {
	for _, f := range facts {
		if len(f.Conditions) > 0 && v.hasNode(f.ID) {
			v.conditions[f.ID] = conditions{f.At, f.Conditions[:min(len(f.Conditions), pools.MaxConditions)]}
		}
	}
}
