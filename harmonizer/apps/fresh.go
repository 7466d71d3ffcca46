package apps

import (
	"fmt"
	"maps"

	"github.com/weirkeeper/weirkeeper/harmonizer/known"
)

// bus is how far the known state can be trusted.
type bus struct {
	up      bool
	fresh   bool           // every living node had time for a heartbeat
	hearing instant        // since then, everything
	awaited map[string]int // nodes of the harmonizer that led before, without a heartbeat since; and their copies
}

// connect begins anew: silence counts from now on.
func (b *bus) connect(now instant) { b.up, b.fresh, b.hearing = true, false, now }

func (b *bus) disconnect() { b.up, b.fresh = false, false }

// await makes the known state wait for the nodes that the store does not have.
func (b *bus) await(nodes map[string]int, k *known.Store) {
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
		return false, "known state: heard for less than a heartbeat period"
	case len(b.awaited) > 0:
		return false, fmt.Sprintf("known state: %d nodes that were heard before are not yet", len(b.awaited))
	}
	return true, ""
}

// gate is what keeps nudges from leaving, whatever they ask for.
type gate struct {
	leading   bool // between Lead and Follow
	acting    bool // both states were complete when last checked
	repairing bool // the known state was, and the expected state once was
	limit     *disruptionLimit
	rowLoss   *rowLoss
	backlog   *backlog
}

// closed returns the rule that lets no nudge leave: freshness, follow or brake.
func (g *gate) closed() (hold, bool) {
	switch {
	case !g.acting && !g.repairing:
		return hold{RuleFreshness, WhyIncomplete, 0}, true
	case !g.leading:
		return hold{RuleFollow, WhyFollowing, 0}, true
	case g.limit.state == BrakeHeld:
		return hold{RuleBrake, WhyMassLoss, 0}, true
	case g.limit.returning():
		return hold{RuleBrake, WhyReturning, 0}, true
	}
	return hold{}, false
}

// starts returns what starts wait for now: a closed gate, or, by rule queue, the
// backlog and their turn. It reports whether that holds all of them.
func (g *gate) starts() (hold, bool) {
	if h, closed := g.closed(); closed {
		return h, true
	}
	return hold{RuleQueue, WhyInTurn, 0}, g.backlog.pending()
}

// stops is starts for stops, which an incomplete expected state and an eased limit hold
// too. Rule queue holds nothing
// but the turn.
func (g *gate) stops() hold {
	h, held := g.starts()
	if !g.acting {
		return hold{RuleFreshness, WhyIncomplete, 0}
	}
	if !held && g.limit.state != BrakeOff {
		return hold{RuleBrake, WhyMassLoss, 0}
	}
	return h
}

// passesStops reports whether stops may leave now.
func (g *gate) passesStops() bool {
	return g.stops().rule == RuleQueue && !g.backlog.pending() && !g.rowLoss.untested
}
