package nodehealth

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	// evidenceTimeout is the timeout for reading a machine's output, and for saving its evidence.
	// After it the repair continues without evidence.
	evidenceTimeout = 10 * time.Second
	maxConsole      = 64 << 10 // maximum length of Evidence.Console, in bytes
)

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
			known.ConsoleError = prose.Clip(err.Error(), api.MaxWhy)
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

// input returns the workflow input for the node of an order.
func (k *shared) input(now time.Time, j *judge.Judge, e *execution) Input {
	o := e.order
	in := Input{
		Cluster: k.config.Cluster, Pool: k.config.Pool, Node: o.Node, PhysicalID: o.Node,
		Zone: e.machine.zone, Attempt: o.Attempt, Reason: prose.Clip(o.Why, api.MaxWhy),
	}
	known, _ := j.Explain(now, o.Node)
	for _, w := range known.Modes {
		line := fmt.Sprintf("%s: %s", w.Mode, w.Verdict)
		if w.Reason != "" {
			line += ": " + w.Reason
		}
		in.Evidence = append(in.Evidence, line)
	}
	return in
}
