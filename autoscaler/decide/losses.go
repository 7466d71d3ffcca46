package decide

import (
	"fmt"
	"slices"
	"time"
)

// recallLosses returns the losses that are younger than a period, oldest first.
func (s State) recallLosses(now time.Time, period time.Duration) []Loss {
	var losses []Loss
	for _, l := range s.Losses {
		l.At = earlier(l.At, now)
		if l.Nodes > 0 && now.Sub(l.At) < period {
			losses = append(losses, l)
		}
	}
	slices.SortStableFunc(losses, func(a, b Loss) int { return a.At.Compare(b.At) })
	return losses
}

// lost returns s with the nodes that disappeared in this tick. Losses in the same 1/500 of a period
// are merged.
func (s State) lost(nodes int, period time.Duration) State {
	if nodes <= 0 || period <= 0 {
		return s
	}
	losses := slices.Clone(s.Losses)
	slot := max(period/slots, 1)
	if last := len(losses) - 1; last >= 0 && losses[last].At.Truncate(slot).Equal(s.Clock.Truncate(slot)) {
		losses[last] = Loss{At: s.Clock, Nodes: added(losses[last].Nodes, nodes)}
	} else {
		losses = append(losses, Loss{At: s.Clock, Nodes: nodes})
	}
	s.Losses = losses
	return s
}

// lossLimit returns why a loss of nodes blocks scale-in, or an empty string. Lost nodes may return, and
// their tasks have moved to the other nodes.
func lossLimit(in Input, s State) string {
	p := in.Policy
	if !p.LossLimit {
		return ""
	}
	nodes := max(in.Lost, 0)
	for _, l := range s.Losses {
		if s.within(l.At, p.Period) {
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
