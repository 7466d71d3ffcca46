package placer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxListed bounds the copies in a Pending.
const maxListed = 1000

// capacity is what the machines of a pool can hold.
type capacity struct {
	nodes   []resource.Vector // the resources of each node
	rooms   []resource.Vector // the free resources of each node that takes instances
	closed  int               // nodes that take none: they drain, or rejected a start
	kinds   []api.PlacesKind  // of machines that may be added; nil: unknown
	sizes   []api.MachineSize // of the nodes and of the kinds; nil: one of them is unknown
	largest resource.Vector   // the largest value of each kind of resource
}

// capacityOf returns the capacity of the nodes whose facts are known, and of machines of these kinds.
func capacityOf(nodes map[string]*node, kinds []api.PlacesKind) capacity {
	all := capacity{kinds: kinds}
	for _, n := range nodes {
		if n.restored {
			continue
		}
		all.nodes = append(all.nodes, n.facts.Resources)
		if n.facts.Draining || n.blocked {
			all.closed++
		} else {
			all.rooms = append(all.rooms, n.room())
		}
		for k, x := range n.facts.Resources {
			all.largest[k] = max(all.largest[k], x)
		}
	}
	all.sizes = fit.Sizes(kinds, func(yield func(string, resource.Vector) bool) {
		for id, n := range nodes {
			if !n.restored && !yield(id, n.facts.Resources) {
				return
			}
		}
	})
	return all
}

// canHold reports whether a machine may ever hold a footprint. It is true before the first question, which names the kinds.
func (all capacity) canHold(footprint resource.Vector) bool {
	return fit.CanHold(footprint, all.sizes)
}

// mayAdd reports whether a machine that may be added can hold a footprint. It is true as long as the sizes of the kinds are not known.
func (all capacity) mayAdd(footprint resource.Vector) bool {
	return all.sizes == nil || slices.ContainsFunc(all.kinds, func(k api.PlacesKind) bool { return footprint.Fits(k.Resources) })
}

// whyNot returns why no node has room for a footprint that a machine may hold.
func (all capacity) whyNot(footprint resource.Vector) string {
	if len(all.nodes) == 0 {
		return "no node of the pool reports"
	}
	if slices.ContainsFunc(all.nodes, footprint.Fits) {
		why := all.noRoom(footprint)
		if !all.mayAdd(footprint) {
			why += "; no machine that may be added can hold it"
		}
		return why
	}
	if len(all.kinds) > 0 {
		return "no node that exists can hold it, a further machine may"
	}
	var short []string
	for _, k := range resource.Kinds() {
		if x, most := footprint[k], all.largest[k]; x > most {
			short = append(short, fmt.Sprintf("%s, the largest has %s", fit.Amount(k, x), fit.Amount(k, most)))
		}
	}
	if short == nil {
		return fmt.Sprintf("no node can hold it: no node has all of %s", resource.Of(footprint))
	}
	return "no node can hold it: it needs " + strings.Join(short, ", and ")
}

// noRoom returns which resource the existing nodes lack: "no node has room: not enough cpus on 2 of 2 nodes
// (it needs 0.6 cpus, at most 0.1 cpus are free)".
func (all capacity) noRoom(footprint resource.Vector) string {
	var short []string
	for _, k := range resource.Kinds() {
		lack, most := 0, 0.0
		for _, room := range all.rooms {
			if most = max(most, room[k]); footprint[k] > room[k]+resource.Slack {
				lack++
			}
		}
		if lack > 0 {
			short = append(short, fmt.Sprintf("not enough %s on %d of %d nodes (it needs %s, at most %s are free)", k, lack, len(all.nodes),
				fit.Amount(k, footprint[k]), fit.Amount(k, math.Floor((most+resource.Slack)*100)/100)))
		}
	}
	if all.closed > 0 {
		short = append(short, fmt.Sprintf("no more instances on %d of %d nodes, which drain or rejected a start", all.closed, len(all.nodes)))
	}
	if short == nil {
		return "no node had room at the last attempt"
	}
	return "no node has room: " + strings.Join(short, ", ")
}

// pending returns the copies that wait for room, and those that nodes rejected.
func (c *core) pending() api.Pending {
	all := capacityOf(c.nodes, c.kinds)
	p := api.Pending{Copies: []api.PendingCopy{}, Sizes: all.sizes}
	if len(p.Sizes) > maxListed {
		p.Sizes = nil
	}
	type cause struct {
		why   string
		never bool
	}
	causes := map[needKey]cause{}
	for _, w := range c.wants {
		if _, ok := c.rows.apps[w.app]; !ok {
			continue
		}
		want := c.rows.need(w.slot)
		footprint := want.footprint
		one := api.PendingCopy{App: w.app, Version: w.version, Index: w.index, Footprint: footprint, Since: w.since, Why: ""}
		switch port := (limiter{c}).useless(want.limits); {
		case w.noRoom && port != 0:
			one.Why = fmt.Sprintf("%d nodes refused port %d, because another process has it: no machine is ordered for it; set another port", len(c.refused[port]), port)
			p.Rejected = append(p.Rejected, one)
		case w.noRoom:
			key := want.key()
			found, known := causes[key]
			if !known {
				if found.why = fit.WhyNever(footprint, all.sizes); found.why != "" {
					found.never = true
				} else {
					found.why = cmp.Or(limiter{c}.whyLimited(want), all.whyNot(footprint))
				}
				causes[key] = found
			}
			one.Why, one.Never = found.why, found.never
			p.Total++
			switch p.Resources = p.Resources.Add(footprint); {
			case found.never:
				p.Never = p.Never.Add(footprint)
			case !all.mayAdd(footprint):
				p.NoMachine = p.NoMachine.Add(footprint)
			}
			p.Copies = append(p.Copies, one)
		case w.rejected != "":
			one.Why = "a node rejects its start: " + w.rejected
			p.Rejected = append(p.Rejected, one)
		}
	}
	p.Copies, p.Rejected, p.Taken = listed(p.Copies), listed(p.Rejected), limiter{c}.takenPorts()
	return p
}

// listed returns the oldest copies.
func listed(all []api.PendingCopy) []api.PendingCopy {
	slices.SortFunc(all, func(a, b api.PendingCopy) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.App, b.App), cmp.Compare(a.Index, b.Index))
	})
	return all[:min(len(all), maxListed)]
}

func pendingSamples(p api.Pending, now time.Time, cluster, pool string) []metrics.Sample {
	var out []metrics.Sample
	for _, k := range []resource.Kind{resource.CPUs, resource.Mem, resource.Disk} {
		waits := p.Resources[k] - p.Never[k] - p.NoMachine[k]
		if waits < resource.Slack { // rounding errors
			waits = 0
		}
		out = append(out, metrics.Sample{
			Type: metrics.System, Name: k.String() + "_pending", Time: now, Value: waits,
			Dimensions: metrics.Dimensions{"cluster": cluster, "pool": pool},
		})
	}
	return out
}
