package nodehealth

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// evidenceTimeout bounds the reading of the output of a machine, and the saving of its
	// evidence. The repair goes on without it.
	evidenceTimeout = 10 * time.Second
	maxConsole      = 64 << 10 // bytes of Evidence.Console
)

// Evidence is what is known of a machine before it is replaced or rebuilt.
type Evidence struct {
	At      time.Time        `json:"at"`
	Pool    string           `json:"pool"`
	Node    string           `json:"node"`
	Group   string           `json:"group,omitempty"`
	Zone    string           `json:"zone,omitempty"`
	Attempt string           `json:"attempt"`
	Action  judge.ActionName `json:"action"`
	Reason  string           `json:"reason,omitempty"`
	Modes   []string         `json:"modes,omitempty"` // what each mode reports, one a line
	// Conditions are those that the agent reported last, at ConditionsAt.
	Conditions   []pools.Condition `json:"conditions,omitempty"`
	ConditionsAt time.Time         `json:"conditions_at,omitzero"`
	// Console is the end of the machine's last output: of its serial console, or of its
	// agent's log. ConsoleError says why it is missing.
	Console      string `json:"console,omitempty"`
	ConsoleError string `json:"console_error,omitempty"`
}

// EvidenceStore stores evidence. It may be used concurrently.
type EvidenceStore interface {
	// Save stores an Evidence in JSON, and returns the name under which it is stored. It
	// returns once that is durable.
	Save(ctx context.Context, node string, data []byte) (name string, err error)
}

// conditions are those that a node has reported.
type conditions struct {
	at  time.Time
	all []pools.Condition
}

// witness saves what is known of machines before they are replaced or rebuilt.
type witness struct {
	*kit
	inventory *inventory
}

// collect saves what is known of the machine of an order, and returns the name of the
// evidence; empty: nothing is saved.
func (w *witness) collect(ctx context.Context, e *effort) string {
	o := e.order
	if w.world.Evidence == nil || o.Action.Name != judge.Recreate && o.Action.Name != judge.Rebuild {
		return ""
	}
	var known Evidence
	if err := w.mail.ask(ctx, func(now time.Time, j *judge.Judge) { known = w.evidence(now, j, e) }); err != nil {
		return ""
	}
	if w.world.Console != nil {
		read, cancel := context.WithTimeout(ctx, evidenceTimeout)
		text, err := w.world.Console(read, o.Node)
		cancel()
		if err != nil {
			known.ConsoleError = cut(err.Error())
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
		w.log.Warn("evidence is not saved", "node", o.Node, "attempt", o.Attempt, "err", err)
	}
	return name
}

// evidence returns what the Loop knows of the machine of an order.
func (w *witness) evidence(now time.Time, j *judge.Judge, e *effort) Evidence {
	in := w.input(now, j, e)
	last := w.inventory.conditions[in.Node]
	return Evidence{
		At: now, Pool: in.Pool, Node: in.Node, Group: e.machine.group, Zone: in.Zone, Attempt: in.Attempt,
		Action: e.order.Action.Name, Reason: in.Reason, Modes: in.Evidence, Conditions: last.all, ConditionsAt: last.at,
	}
}

// report stores the conditions that nodes have reported.
func (v *inventory) report(facts []pools.NodeFacts) {
	for _, f := range facts {
		if len(f.Conditions) > 0 && v.has(f.ID) {
			v.conditions[f.ID] = conditions{f.At, f.Conditions[:min(len(f.Conditions), pools.MaxConditions)]}
		}
	}
}
