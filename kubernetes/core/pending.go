package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// waiting is a pod without a node, which the scheduler found none for or has not reported about.
type waiting struct {
	*Pod
	since   time.Time // when it was first received so
	pool    int       // index of its pool; -1: none
	why     string    // why it has no pool
	never   string    // why no machine of its pool can hold it, even if it is empty
	version int       // of the shapes that pool, why and never are from; 0: not determined
}

// putWaiting adds a pod that waits, and removes one that does not.
func (c *Cluster) putWaiting(now time.Time, p *Pod) {
	if !p.Waits && !p.New || p.Node != "" || p.Deleting || p.Kind == KindDaemon {
		delete(c.waiting, p.UID)
		return
	}
	w := &waiting{Pod: p, since: now, pool: -1}
	if old := c.waiting[p.UID]; old != nil && old.Waits == p.Waits {
		w.since = old.since
	}
	c.waiting[p.UID] = w
}

// Waiting is a pod that waits for a machine.
type Waiting struct {
	Namespace, Name, Owner string
	Req                    Vector
	Since                  time.Time // when the adapter first received that it waits
	Why                    string
	Labels                 map[string]string // that its node must have
	Never                  bool              // no machine of the pool can hold it
}

// Pending has the pods that wait for a machine of one pool.
type Pending struct {
	Pods  []Waiting         // oldest first
	Sum   resource.Vector   // of all of them
	Never resource.Vector   // of those that no machine of the pool can hold
	Sizes []api.MachineSize // of the pool's machines; nil: unknown
}

// Pending returns the pods that wait for at least grace, by pool, and those that no pool is for. A pod belongs to the pool whose
// machines its selectors, its required affinity and its tolerations match. If several pools match, that is the default one, or else
// the first one of the configuration.
func (c *Cluster) Pending(now time.Time, grace time.Duration) (byPool map[string]Pending, others []Waiting) {
	all := c.learn()
	byPool = map[string]Pending{}
	sizesOf := make([][]api.MachineSize, len(c.pools))
	for i, p := range c.pools {
		sizesOf[i] = sizes(all[i])
		byPool[p.Name] = Pending{Pods: []Waiting{}, Sizes: sizesOf[i]}
	}
	for _, w := range c.oldest() {
		if !w.Waits || now.Sub(w.since) < grace {
			continue
		}
		c.assign(w, all)
		one := Waiting{Namespace: w.Namespace, Name: w.Name, Owner: w.Owner, Req: w.Req, Since: w.since, Why: w.Message, Labels: w.rules().Selector}
		if w.pool < 0 {
			one.Why = w.why
			others = append(others, one)
			continue
		}
		p := byPool[c.pools[w.pool].Name]
		r := w.Req.Resources()
		p.Sum = p.Sum.Add(r)
		if w.never != "" {
			one.Never, one.Why = true, w.never
			p.Never = p.Never.Add(r)
		}
		p.Pods = append(p.Pods, one)
		byPool[c.pools[w.pool].Name] = p
	}
	return byPool, others
}

// oldest returns the pods that wait, the oldest first.
func (c *Cluster) oldest() []*waiting {
	list := make([]*waiting, 0, len(c.waiting))
	for _, w := range c.waiting {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b *waiting) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
	})
	return list
}

// assign sets the pool of a pod that waits. It keeps the result until the shapes change.
func (c *Cluster) assign(w *waiting, all [][]Shape) {
	if w.version == c.shapes.version {
		return
	}
	w.version, w.pool, w.why, w.never = c.shapes.version, -1, "", ""
	var mismatches []string
	for i := range c.pools {
		why := mismatch(w.Pod, all[i])
		switch {
		case why != "":
			mismatches = append(mismatches, fmt.Sprintf("pool %s: %s", c.pools[i].Name, why))
		case w.pool < 0 || c.pools[i].Default:
			w.pool = i
		}
	}
	if w.pool >= 0 {
		w.never = never(w.Pod, all[w.pool])
	} else {
		w.why = "no pool has machines for it: " + strings.Join(mismatches, ", ")
	}
}

// mismatch returns why the pod can run on none of the shapes, whatever their size: the reason of the first one.
func mismatch(p *Pod, all []Shape) (first string) {
	for _, s := range all {
		why := p.rules().mismatch("", s.Labels, s.Taints)
		if why == "" {
			return ""
		}
		first = cmp.Or(first, why)
	}
	return first
}

// never returns why no machine of these shapes can hold the pod, even if it is empty.
func never(p *Pod, all []Shape) string {
	var matching []Shape
	for _, s := range all {
		if p.rules().mismatch("", s.Labels, s.Taints) == "" {
			if !s.Sized || p.Req.Fits(s.Room) {
				return ""
			}
			matching = append(matching, s)
		}
	}
	return fit.WhyNever(p.Req.Resources(), sizes(matching))
}
