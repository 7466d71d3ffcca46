package decide

import (
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/resource"
)

// without returns c without the copies that no machine can ever hold. A signal may not count them at all, so the request
// never falls below what the other copies need.
func (c combined) without(p *api.Places) combined {
	if p == nil || len(p.Never) == 0 {
		return c
	}
	before := c.request
	for k, never := range p.Unplaceable {
		kind := resource.Kind(k)
		if x, named := before.Get(kind); named && never > 0 {
			c.request = c.request.With(kind, max(x-never, min(x, quantity(p.Held[k]))))
		}
	}
	if c.request != before {
		c.all = &before
		first := p.Never[0]
		c.left = fmt.Sprintf("; without %s, which no machine can ever hold: %s", copiesOf(p.NeverCopies, first, len(p.Never)-1), amounts(c.request))
	}
	return c
}

// targetWithout is target for a request without the copies that no machine can ever hold. These copies do not raise the target. They
// do not lower it either: the signals may not have counted them.
func targetWithout(in api.DecisionInput, c combined) (api.Step, *resource.Kind) {
	step, scarce := target(in, c)
	if c.all == nil {
		return step, scarce
	}
	c.request = *c.all
	all, _ := target(in, c)
	if t := in.Capacity.Target; step.After < min(t, all.After) {
		step.After = min(t, all.After)
		step.Why += "; but the signals may not have counted the copies that no machine can hold -> " + num(step.After)
	}
	return step, scarce
}

// copiesOf returns "3 copies of web", or "3 copies of web and 2 more apps".
func copiesOf(copies int, first api.PlacesApp, more int) string {
	text := prose.Plural(copies, "copy", "copies") + " of " + OneLine(first.App)
	if more > 0 {
		text += " and " + prose.Plural(more, "more app", "more apps")
	}
	return text
}

// places keeps the target from falling below staying, the weight of the nodes that must stay, and raises it by the machines
// that copies need. Nodes that stay never raise it above t: not all of them were examined.
func places(t, wanted, staying float64, p api.Places) api.Step {
	needed := 0.0
	for _, n := range p.Machines() {
		needed += quantity(n.Weight)
	}
	beside := ""
	if len(p.Headroom) > 0 {
		beside = " and the headroom"
	}
	step := api.Step{Rule: api.RulePlaces, Before: wanted, After: wanted}
	least := clip(min(quantity(staying), t) + needed)
	switch {
	case needed > 0 && least > wanted:
		step.After = least
		step.Why = fmt.Sprintf("%s -> %s", neededWhy(p), num(least))
	case needed > 0:
		step.Why = fmt.Sprintf("%s: the target of %s includes it", neededWhy(p), num(wanted))
	case least > wanted && least == t:
		step.After = least
		step.Why = fmt.Sprintf("nodes of the weight %s stay for their copies%s: %s is not lowered to %s, kept", num(least), beside, num(t), num(wanted))
	case least > wanted:
		step.After = least
		step.Why = fmt.Sprintf("nodes of the weight %s stay for their copies%s: -> %s in place of %s", num(least), beside, num(least), num(wanted))
	case len(p.Coming) > 0:
		step.Why = comingWhy(p)
	case p.Waiting > 0:
		step.Why = prose.Plural(p.Waiting, "copy waits", "copies wait")
	case p.NeverCopies > 0:
		step.Why = "every copy that a machine can hold has a place"
	default:
		step.Why = "every copy has a place"
	}
	if p.ShortCopies > 0 && len(p.Short) > 0 {
		first := p.Short[0]
		step.Why += fmt.Sprintf("; no room for %s: %s", copiesOf(p.ShortCopies, first, len(p.Short)-1), OneLine(first.Why))
	}
	for _, h := range p.Headroom {
		step.Why += "; " + OneLine(h.Text())
	}
	if len(p.Never) > 0 {
		step.Why += "; " + OneLine(p.Never[0].NeverText())
		if more := len(p.Never) - 1; more > 0 {
			step.Why += fmt.Sprintf(" (and of %s)", prose.Plural(more, "more app", "more apps"))
		}
	}
	return step
}

// neededWhy returns "5 copies need 1 more in group green, frag/4 first".
func neededWhy(p api.Places) string {
	first, parts := "", []string(nil)
	for i, n := range p.Machines() {
		if i == 0 {
			first = OneLine(n.First)
		}
		part := fmt.Sprintf("%d more in group %s", n.Nodes, OneLine(n.Group))
		if i >= len(p.New) {
			part = fmt.Sprintf("a machine of group %s, whose size is unknown", OneLine(n.Group))
		}
		parts = append(parts, part)
	}
	return held(p.Machines(), "need") + strings.Join(parts, " and ") + ", " + first + " first"
}

// held returns what the machines hold, as the subject of a verb: "5 copies need ", "1 copy and 2 free places need ".
func held(needs []api.PlacesNeed, verb string) string {
	copies, places, parts := 0, 0, []string(nil)
	for _, n := range needs {
		copies, places = copies+n.Copies, places+n.Places
	}
	if copies > 0 {
		parts = append(parts, prose.Plural(copies, "copy", "copies"))
	}
	if places > 0 {
		parts = append(parts, prose.Plural(places, "free place", "free places"))
	}
	if copies+places == 1 {
		verb += "s"
	}
	return strings.Join(parts, " and ") + " " + verb + " "
}

// comingWhy returns "5 copies wait for 2 ordered machines".
func comingWhy(p api.Places) string {
	machines := 0
	for _, n := range p.Coming {
		machines += n.Nodes
	}
	return held(p.Coming, "wait") + "for " + prose.Plural(machines, "ordered machine", "ordered machines")
}
