package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// recalledLosses returns the losses that are younger than a period, oldest first.
func recalledLosses(s api.DecisionState, now time.Time, period time.Duration) []api.NodeLoss {
	var losses []api.NodeLoss
	for _, l := range s.Losses {
		l.At = earlier(l.At, now)
		if l.Nodes > 0 && now.Sub(l.At) < period {
			losses = append(losses, l)
		}
	}
	slices.SortStableFunc(losses, func(a, b api.NodeLoss) int { return a.At.Compare(b.At) })
	return losses
}

// withLosses returns s with the nodes that disappeared in this tick. Losses in the same 1/500 of a period
// are merged.
func withLosses(s api.DecisionState, nodes int, period time.Duration) api.DecisionState {
	if nodes <= 0 || period <= 0 {
		return s
	}
	losses := slices.Clone(s.Losses)
	slot := max(period/slots, 1)
	if last := len(losses) - 1; last >= 0 && losses[last].At.Truncate(slot).Equal(s.Clock.Truncate(slot)) {
		losses[last] = api.NodeLoss{At: s.Clock, Nodes: added(losses[last].Nodes, nodes)}
	} else {
		losses = append(losses, api.NodeLoss{At: s.Clock, Nodes: nodes})
	}
	s.Losses = losses
	return s
}

// lossLimit returns why a loss of nodes blocks scale-in, or an empty string. Lost nodes may return, and
// their tasks have moved to the other nodes.
func lossLimit(in api.DecisionInput, s api.DecisionState) string {
	p := in.Policy
	if !p.LossLimit {
		return ""
	}
	nodes := max(in.Lost, 0)
	for _, l := range s.Losses {
		if isWithin(s, l.At, p.Period) {
			nodes = added(nodes, l.Nodes)
		}
	}
	if nodes <= p.LossThreshold {
		return ""
	}
	when := ""
	if p.Period > 0 {
		when = fmt.Sprintf(" within %v", p.Period)
	}
	return fmt.Sprintf("%d nodes lost%s, instance_loss_threshold is %d", nodes, when, p.LossThreshold)
}
