package apps

import (
	"fmt"
	"maps"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// bus is whether the known state can be trusted.
type bus struct {
	up          bool
	fresh       bool                 // every living node had time for a heartbeat
	connectedAt instant              // all messages are received since then
	awaited     map[message.Node]int // nodes of the previous leader without a heartbeat since -> their copies
}

// connect restarts the wait for heartbeats: silence counts from now on.
func (b *bus) connect(now instant) { b.up, b.fresh, b.connectedAt = true, false, now }

func (b *bus) disconnect() { b.up, b.fresh = false, false }

// await makes the known state wait for the given nodes that the store does not have.
func (b *bus) await(nodes map[message.Node]int, k *known.Store) {
	b.awaited = maps.Clone(nodes)
	for node := range k.Nodes() {
		delete(b.awaited, node)
	}
}

// complete reports whether the known state is complete, and if not, why.
func (b *bus) complete() (bool, string) {
	switch {
	case !b.up:
		return false, "known state: the bus is down"
	case !b.fresh:
		return false, "known state: the harmonizer is on the bus for less than a heartbeat period"
	case len(b.awaited) > 0:
		return false, fmt.Sprintf("known state: %d earlier nodes have not sent a heartbeat yet", len(b.awaited))
	}
	return true, ""
}

// gate holds all nudges, whatever they request.
type gate struct {
	leading   bool // between Lead and Follow
	acting    bool // both states were complete at the last check
	repairing bool // the known state was complete, and the expected state had been once
	limit     *disruptionLimit
	rowLoss   *rowLoss
	backlog   *backlog
}

// closed returns the rule that holds all nudges: freshness, follow or disruption_limit.
func (g *gate) closed() (hold, bool) {
	switch {
	case !g.acting && !g.repairing:
		return hold{api.AppRuleFreshness, api.WhyIncomplete, 0}, true
	case !g.leading:
		return hold{api.AppRuleFollow, api.WhyFollowing, 0}, true
	case g.limit.state == api.LimitHeld:
		return hold{api.AppRuleDisruptionLimit, api.WhyMassLoss, 0}, true
	case g.limit.returning():
		return hold{api.AppRuleDisruptionLimit, api.WhyReturning, 0}, true
	}
	return hold{}, false
}

// starts returns what starts wait for now: a closed gate, or rule queue for the backlog and
// their turn. It also reports whether all starts are held.
func (g *gate) starts() (hold, bool) {
	if h, closed := g.closed(); closed {
		return h, true
	}
	return hold{api.AppRuleQueue, api.WhyInTurn, 0}, g.backlog.pending()
}

// stops returns what stops wait for now. An incomplete expected state and a throttled limit
// hold stops too. With rule queue, they wait only for their turn.
func (g *gate) stops() hold {
	h, held := g.starts()
	if !g.acting {
		return hold{api.AppRuleFreshness, api.WhyIncomplete, 0}
	}
	if !held && g.limit.state != api.LimitOff {
		return hold{api.AppRuleDisruptionLimit, api.WhyMassLoss, 0}
	}
	return h
}

// passesStops reports whether stops may leave now.
func (g *gate) passesStops() bool {
	return g.stops().rule == api.AppRuleQueue && !g.backlog.pending() && !g.rowLoss.copiesUncounted
}
