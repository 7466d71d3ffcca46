package placer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxListed bounds the copies in a Pending.
const maxListed = 1000

// capacity is the total room of the nodes of a pool.
type capacity struct {
	nodes   []resource.Vector // the resources of each node
	largest resource.Vector   // the largest value of each kind, on any node
}

// capacityOf returns the capacity of the nodes whose facts are known.
func capacityOf(nodes map[string]*node) capacity {
	var all capacity
	for _, n := range nodes {
		if n.restored {
			continue
		}
		all.nodes = append(all.nodes, n.facts.Resources)
		for k, x := range n.facts.Resources {
			all.largest[k] = max(all.largest[k], x)
		}
	}
	return all
}

// whyNot returns why no node has room for a footprint.
func (all capacity) whyNot(footprint resource.Vector) string {
	if len(all.nodes) == 0 {
		return "no node of the pool reports"
	}
	if slices.ContainsFunc(all.nodes, footprint.Fits) {
		return "no node has so much room now"
	}
	var short []string
	for _, k := range resource.Kinds() {
		if x, most := footprint[k], all.largest[k]; x > most {
			short = append(short, fmt.Sprintf("%s, the largest has %s", amount(k, x), amount(k, most)))
		}
	}
	if short == nil {
		return fmt.Sprintf("no node can hold it: no node has all of %s", resource.Of(footprint))
	}
	return "no node can hold it: it needs " + strings.Join(short, ", and ")
}

// amount returns a quantity with its unit.
func amount(k resource.Kind, x float64) string {
	unit := map[resource.Kind]string{resource.Mem: "MB of memory", resource.Disk: "MB of disk"}[k]
	return strconv.FormatFloat(x, 'f', -1, 64) + " " + cmp.Or(unit, k.String())
}

// pending returns the copies that wait for room, and those that nodes rejected.
func (c *core) pending() api.Pending {
	p := api.Pending{Copies: []api.PendingCopy{}}
	all, why := capacityOf(c.nodes), map[resource.Vector]string{}
	for _, w := range c.wants {
		row, ok := c.rows.apps[w.app]
		if !ok {
			continue
		}
		footprint := row.Footprint()
		one := api.PendingCopy{App: w.app, Version: w.version, Index: w.index, Footprint: footprint, Since: w.since, Why: ""}
		switch {
		case w.noRoom:
			if why[footprint] == "" {
				why[footprint] = all.whyNot(footprint)
			}
			one.Why = why[footprint]
			p.Total++
			p.Resources = p.Resources.Add(footprint)
			p.Copies = append(p.Copies, one)
		case w.rejected != "":
			one.Why = "a node rejects its start: " + w.rejected
			p.Rejected = append(p.Rejected, one)
		}
	}
	p.Copies, p.Rejected = listed(p.Copies), listed(p.Rejected)
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
		out = append(out, metrics.Sample{
			Type: metrics.System, Name: k.String() + "_pending", Time: now, Value: p.Resources[k],
			Dimensions: metrics.Dimensions{"cluster": cluster, "pool": pool},
		})
	}
	return out
}
