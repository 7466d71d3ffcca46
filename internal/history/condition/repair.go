package condition

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// UnfitNodes returns the nodes that fail for longer than the policy tolerates.
func UnfitNodes(now time.Time, h api.HealthStatus) (out []Unfit) {
	for _, n := range h.Nodes {
		if word := unfitWord(n.State); word != "" {
			since := n.Failing
			if since.IsZero() {
				since = n.Since
			}
			out = append(out, Unfit{ID: n.Node, Group: n.Group, Word: word, Why: repairText(now, h, n), Since: since})
		}
	}
	return out
}

// unfitWord returns the word of a condition for a state of a node; empty: the node serves, or fails within the tolerated time.
func unfitWord(s api.HealthState) string {
	switch s {
	case api.StateUnhealthy, api.StateClaimed, api.StateHeld, api.StateFenceFailed:
		return "Node unhealthy"
	case api.StateFencing, api.StateRecovering, api.StateVerifying:
		return "Repairing"
	case api.StateQuarantined:
		return "Node in quarantine"
	}
	return ""
}

// repairText returns why a node is repaired or fails, the action and its attempt, and the next step.
func repairText(now time.Time, h api.HealthStatus, n api.NodeHealth) string {
	text := n.Why
	if text == "" {
		text = string(n.State)
	}
	repair := ""
	if n.Action != "" {
		repair = string(n.Action)
		if n.Repairs > 1 {
			repair += fmt.Sprintf(", repair %d", n.Repairs)
		}
	}
	switch {
	case n.State == api.StateQuarantined || n.State == api.StateHeld:
		text += "; its repairs are used up"
		if n.Spent != "" {
			text += ": " + n.Spent
		}
	case h.Mode != api.ModeAct:
		text += "; mode is observe: nothing is repaired"
	case n.Gate != "":
		text += "; repair waits: " + GateText(now, n.Gate, n.Until)
	case n.State == api.StateVerifying && repair != "":
		text += "; " + repair + " is done, and the node must stay healthy"
	case n.State == api.StateRecovering && repair != "":
		text += "; " + repair + " is under way"
	case repair != "":
		text += "; " + repair + " is next"
	}
	if n.Until.After(now) && n.Gate == "" {
		text += ", for at most " + Duration(n.Until.Sub(now))
	}
	return text
}

// GateText returns what a repair waits for, and for how long.
func GateText(now time.Time, gate api.Gate, until time.Time) string {
	text := map[api.Gate]string{
		api.GateOwner: "another owner repairs this pool", api.GatePause: "repairs are paused", api.GateBreaker: "too many nodes of the pool are unhealthy",
		api.GateZone: "too many nodes of the zone are unhealthy", api.GateSchedule: "the policy freezes this hour", api.GateWindow: "repairs wait for a window",
		api.GateMinAvailable: "too many nodes would be out of service", api.GateInProgress: "other repairs are under way",
		api.GateRate: "too many repairs began", api.GateBackoff: "the last repair was too recent", api.GateAttempts: "its repairs are used up",
		api.GateUnknown: "no verdict now", api.GateAction: "no action of the policy fits the machine", api.GateRecheck: "the failure is checked again",
	}[gate]
	if text == "" {
		text = string(gate)
	}
	if until.After(now) {
		text += ", next try in " + Duration(until.Sub(now))
	}
	return text
}
