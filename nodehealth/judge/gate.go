package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// phase is the point in a repair at which the gates are evaluated.
type phase uint8

const (
	atClaim      phase = 1 << iota // a node becomes a candidate
	atBegin                        // the failure of a claimed node is confirmed
	atAct                          // the next action of a repair
	atSilence                      // the next action on a fenced node without a verdict: fencing silenced it
	atReturn                       // a node is fenced late, and needs a repair slot again
	atQuarantine                   // a node whose repairs are used up is to be quarantined
	alone                          // if this gate refused last, re-evaluate it alone until it passes
	forAll                         // it refuses every node of the pool or no node, so that one evaluation is enough
)

// gate may refuse a repair.
type gate struct {
	name    api.Gate
	when    phase
	refuses func(*candidate) refusal
}

// gates are evaluated in this order. The first that refuses is reported.
var gates = [...]gate{
	{api.GateUnknown, atClaim | atBegin | atAct | alone, noVerdict},
	{api.GateAction, atClaim | atBegin | atAct, noAction},
	{api.GateRecheck, atClaim | atBegin | atAct, notConfirmed},
	{api.GateOwner, atClaim | atBegin | atAct | atSilence | atQuarantine | alone | forAll, ownedByProvider},
	{api.GatePause, atClaim | atBegin | atAct | atSilence | atQuarantine | alone, paused},
	{api.GateBreaker, atClaim | atBegin | atAct | atSilence | atQuarantine | alone | forAll, poolBreakerOpen},
	{api.GateZone, atClaim | atBegin | atAct | atSilence | atQuarantine | alone, zoneFrozen},
	{api.GateSchedule, atClaim | atBegin | atAct | atSilence | atQuarantine | alone | forAll, frozen},
	{api.GateWindow, atClaim | atBegin | atQuarantine | alone, outsideWindow},
	{api.GateMinAvailable, atClaim | atBegin | atAct | atSilence | atQuarantine, overBudget},
	{api.GateInProgress, atClaim | atReturn | alone | forAll, tooManyInProgress},
	{api.GateRate, atClaim | atBegin, overRate},
	{api.GateBackoff, atClaim | atBegin, tooSoon},
	{api.GateAttempts, atClaim | atBegin, tooOften}, // such a node is quarantined
}

// refused returns the refusal of the first gate of the phase that refuses. If no gate refuses, the
// candidate passes.
func refused(c *candidate, at phase) refusal {
	for i := range gates {
		if g := &gates[i]; g.when&at != 0 {
			if r := g.refuses(c); r.why != nil {
				r.gate = g.name
				return r
			}
		}
	}
	return refusal{}
}

// waits reports whether nothing changed for a candidate: its fencing is not confirmed, or the gate
// that refused it last still refuses.
func (c *candidate) waits() bool {
	switch {
	case c.node.state == api.StateFenceFailed && !c.node.repair.Fenced:
		return true
	case c.node.blocked == "":
		return false
	}
	again := c.last.name == c.node.blocked
	if !again {
		i := slices.IndexFunc(gates[:], func(g gate) bool { return g.name == c.node.blocked && g.when&alone != 0 })
		if i < 0 {
			return false
		}
		c.last = gates[i]
	}
	if !again || c.last.when&forAll == 0 {
		c.refused = c.last.refuses(c).why != nil
	}
	return c.refused
}

// candidate is a node that passes the gates for one action.
type candidate struct {
	*safety
	detection *detection
	now       time.Time
	node      *node
	action    Action
	canHelp   bool // the action can help the machine
	aside     bool // the node is to be quarantined: there is no action
	repairs   int  // in progress
	last      gate // gate that waits evaluated last
	refused   bool // that gate still refuses
}

// safety limits the repairs of a pool.
type safety struct {
	rules       *rules
	repairOwner string // why another owner repairs this pool; "": Weirkeeper does
	window      Window
	pauses      pauses
	breakers    breakers
	schedule    schedule
	budget      budget
	rate        rate
	lineages    lineages
}

func newSafety(r *rules) safety {
	return safety{
		rules: r, breakers: newBreakers(r), schedule: schedule{freezes: r.freezes},
		budget: newBudget(r.available), rate: rate{perHour: r.perHour, burst: r.burst}, lineages: newLineages(r),
	}
}

// refusal is the result of a gate. Without a reason the candidate passes.
type refusal struct {
	gate  api.Gate
	until time.Time               // zero: unknown
	why   func(*candidate) string // formats the reason of a refusal that is reported
}

func refuse(is bool, until time.Time, why func(*candidate) string) refusal {
	if !is {
		return refusal{}
	}
	return refusal{until: until, why: why}
}

func noVerdict(c *candidate) refusal {
	return refuse(c.node.verdict != api.CheckFail && c.node.requester == "", time.Time{}, whyNoVerdict)
}

func whyNoVerdict(*candidate) string { return "no verdict now" }

func noAction(c *candidate) refusal {
	return refuse(!c.canHelp, time.Time{}, func(c *candidate) string {
		if c.node.planned {
			return "no action of the policy replaces the machine before the date that the provider announced"
		}
		return fmt.Sprintf("no action of the policy fits a machine that is %s", cmp.Or(c.node.State, "running"))
	})
}

func notConfirmed(c *candidate) refusal {
	return refuse(c.now.Before(c.node.notBefore), c.node.notBefore, whyNotConfirmed)
}

func whyNotConfirmed(*candidate) string { return "no observation confirmed the failure" }

func ownedByProvider(c *candidate) refusal {
	return refuse(c.repairOwner != "", time.Time{}, func(c *candidate) string { return c.repairOwner })
}

func paused(c *candidate) refusal {
	until, owner := c.pauses.longest(c.node.ID)
	return refuse(owner != "", until, func(c *candidate) string {
		_, owner := c.pauses.longest(c.node.ID)
		return "paused by " + owner
	})
}

func poolBreakerOpen(c *candidate) refusal {
	pool := &c.breakers.pool
	return refuse(pool.Open, pool.until(c.rules), func(c *candidate) string { return c.breakers.pool.Why })
}

func zoneFrozen(c *candidate) refusal {
	z := c.breakers.zones[c.node.Zone]
	if z == nil {
		return refusal{}
	}
	return refuse(z.Open, z.until(c.rules), func(c *candidate) string {
		return fmt.Sprintf("zone %s: %s", c.node.Zone, c.breakers.zones[c.node.Zone].Why)
	})
}

func frozen(c *candidate) refusal {
	until := c.schedule.until(c.now)
	return refuse(!until.IsZero(), until, func(*candidate) string { return "the schedule forbids repairs now" })
}

// outsideWindow refuses a repair outside the windows of the pool. An operator's request, and a machine that does not run or that the
// provider reclaims, are emergencies. A repair that has begun goes on.
func outsideWindow(c *candidate) refusal {
	waits := c.window.Closed != "" && c.node.requester == "" && c.node.State == Running && !c.node.planned
	return refuse(waits, c.window.Opens, func(c *candidate) string { return c.window.Closed })
}

func overBudget(c *candidate) refusal {
	over := (c.aside || c.node.outBy(c.now, c.detection, c.action)) && !c.budget.ofPool(c.breakers.census.listed).Room(c.node.ID)
	return refuse(over, time.Time{}, func(c *candidate) string {
		listed := c.breakers.census.listed
		b := c.budget.ofPool(listed)
		return fmt.Sprintf("%d of %d nodes are out of service (%v), limit %d", b.Others(c.node.ID), listed, b, b.Limit)
	})
}

func tooManyInProgress(c *candidate) refusal {
	return refuse(c.repairs >= c.rules.inProgress.Of(c.breakers.census.eligible), time.Time{}, func(c *candidate) string {
		return fmt.Sprintf("%d repairs are in progress, limit %d", c.repairs, c.rules.inProgress.Of(c.breakers.census.eligible))
	})
}

func overRate(c *candidate) refusal {
	wait := c.rate.wait(c.now)
	return refuse(wait > 0, c.now.Add(wait), func(c *candidate) string {
		return fmt.Sprintf("rate limit: %v repairs an hour, burst %v", c.rate.perHour, c.rate.burst)
	})
}

func tooSoon(c *candidate) refusal {
	until, _ := c.lineages.backoff(c.node.Node)
	return refuse(c.now.Before(until), until, func(c *candidate) string {
		_, repairs := c.lineages.backoff(c.node.Node)
		return fmt.Sprintf("%d repairs already", repairs)
	})
}

func tooOften(c *candidate) refusal {
	begun := c.lineages.recent(c.now, c.node.Node)
	if len(begun) < c.rules.repairs {
		return refusal{}
	}
	return refuse(true, begun[0].Add(c.rules.window), func(c *candidate) string {
		return fmt.Sprintf("%d repairs within %v", len(c.lineages.recent(c.now, c.node.Node)), c.rules.window)
	})
}
