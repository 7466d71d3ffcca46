package adapter

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
)

// Rights that changes need, in the words of their refusals.
const (
	rightGet    = "get of nodes"
	rightPatch  = "patch of nodes"
	rightDelete = "delete of nodes"
	rightEvict  = "create of pods/eviction"
)

// noCordon is what the lack of the rights to read and change nodes means.
const noCordon = "no node can be cordoned, so no machine is removed"

// rights are those whose lack the API server has reported, with what does not happen. It may be used concurrently.
type rights struct {
	mu      sync.Mutex
	missing map[string]string
}

// result records the result of a request that needs a right. If the right is missing, the error that it returns begins with the remedy.
func (r *rights) result(right, effect string, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case kube.Refused(err):
		r.missing[right] = effect
		return fmt.Errorf("%s: %w", kube.Needs(right), err)
	case err == nil:
		delete(r.missing, right)
	}
	return err
}

// lines returns a line for each right that is missing.
func (r *rights) lines() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, right := range slices.Sorted(maps.Keys(r.missing)) {
		all = append(all, r.missing[right]+": "+kube.Needs(right))
	}
	return all
}

// problemsOf returns what people have to correct for a pool, a line each: at most as many as a state has. Only a current state has
// them.
func (a *Adapter) problemsOf(pool string, now time.Time) (all []string) {
	all = a.rights.lines()
	for _, u := range []struct{ resource, effect string }{{kube.Budgets, "no machine is removed"}, {kube.Volumes, "no machine with a claim is removed"}} {
		if why := a.mirror.Unknown(u.resource, now); why != "" {
			all = append(all, u.effect+": "+why)
		}
	}
	var nodes []core.Problem
	var others []core.Waiting
	a.mirror.Read(func(c *core.Cluster) {
		nodes = c.Problems()
		_, others = c.Pending(now, a.cfg.Grace)
	})
	for _, p := range nodes {
		if p.Pool == pool && !p.Passes {
			all = append(all, fmt.Sprintf("node %s: %s", p.Node, p.Why))
		}
	}
	if pool == a.cfg.firstPool() {
		for _, w := range others {
			all = append(all, fmt.Sprintf("pod %s/%s waits: %s", w.Namespace, w.Name, w.Why))
		}
	}
	if more := len(all) - (api.MaxSchedulerLines - 1); more > 1 {
		all = append(all[:len(all)-more], fmt.Sprintf("%d more problems, which /status of weir-kubernetes lists", more))
	}
	for i, line := range all {
		all[i] = wire.Clip(line)
	}
	return all
}

// firstPool returns the pool whose state has the pods that no pool has machines for: the default one, or else the first one.
func (c Config) firstPool() string {
	for _, p := range c.Pools {
		if p.Default {
			return p.Name
		}
	}
	return c.Pools[0].Name
}
