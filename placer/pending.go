package placer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxListed bounds the copies in a Pending.
const maxListed = 1000

// Pending has the copies for which no node has room.
type Pending struct {
	Total     int             `json:"total"`
	Resources resource.Vector `json:"resources"` // the sum of their footprints
	Copies    []PendingCopy   `json:"copies"`    // oldest first, at most 1000
	// Rejected are copies whose last start was rejected as invalid by a node, oldest first, at most 1000. They are tried
	// again after a heartbeat period, and are not part of Total.
	Rejected []PendingCopy `json:"rejected,omitempty"`
}

// PendingCopy is one copy that waits for room.
type PendingCopy struct {
	App       string          `json:"app"`
	Version   string          `json:"version"`
	Index     int             `json:"index"`
	Footprint resource.Vector `json:"footprint"`
	Since     time.Time       `json:"since"`
	Why       string          `json:"why,omitempty"` // what it waits for, for people
}

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
func (c *core) pending() Pending {
	p := Pending{Copies: []PendingCopy{}}
	all, why := capacityOf(c.nodes), map[resource.Vector]string{}
	for _, w := range c.wants {
		row, ok := c.rows.apps[w.app]
		if !ok {
			continue
		}
		footprint := row.Footprint()
		one := PendingCopy{w.app, w.version, w.index, footprint, w.since, ""}
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
func listed(all []PendingCopy) []PendingCopy {
	slices.SortFunc(all, func(a, b PendingCopy) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.App, b.App), cmp.Compare(a.Index, b.Index))
	})
	return all[:min(len(all), maxListed)]
}

func (p Pending) samples(now time.Time, cluster, pool string) []metrics.Sample {
	var out []metrics.Sample
	for _, k := range []resource.Kind{resource.CPUs, resource.Mem, resource.Disk} {
		out = append(out, metrics.Sample{
			Type: metrics.System, Name: k.String() + "_pending", Time: now, Value: p.Resources[k],
			Dimensions: metrics.Dimensions{"cluster": cluster, "pool": pool},
		})
	}
	return out
}
