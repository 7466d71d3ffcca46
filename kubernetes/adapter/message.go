package adapter

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
)

// kindKubernetes is the kind of this scheduler in its state.
const kindKubernetes = "kubernetes"

// Bounds of lists in messages.
const (
	maxPending = 1000
	maxSlots   = 1 << 16
	maxText    = 512
)

func pendingSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "pending")
}

// factsOf returns the message of a node.
func factsOf(f core.Facts, blocked []api.BlockedTask, period time.Duration, now time.Time) api.NodeFacts {
	m := api.NodeFacts{
		ID: f.ID, Pool: f.Pool, Group: f.Group, BootID: f.BootID, Zone: f.Zone, Resources: f.Resources.Resources(), Allocated: f.Allocated.Resources(),
		Tasks: f.Tasks, BatchTasks: f.Batch, Draining: f.Draining || f.CordonedByOther, SafeToEvict: f.SafeToEvict, Priority: f.Priority,
		Conditions: f.Conditions, Heartbeat: period, At: now,
		Blocked: blocked[:min(len(blocked), api.MaxBlocked)], Overhead: f.Overhead.Resources(),
	}
	if f.CordonedByOther {
		m.CordonedBy = api.CordonedByOther
	}
	if f.Slots > 0 {
		m.Slots = &api.Slots{All: int(min(f.Slots, maxSlots)), Used: int(min(f.UsedSlots, maxSlots))}
	}
	return m
}

// pendingOf returns the response about the pods of a pool that wait.
func pendingOf(p core.Pending, state api.SchedulerState) api.Pending {
	r := api.Pending{Total: len(p.Pods), Resources: p.Sum, Never: p.Never, Sizes: p.Sizes, Copies: []api.PendingCopy{}, State: &state}
	if len(r.Sizes) > maxPending {
		r.Sizes = nil
	}
	for _, w := range p.Pods[:min(len(p.Pods), maxPending)] {
		labels := maps.Clone(w.Labels)
		delete(labels, corev1.LabelTopologyZone)
		c := api.PendingCopy{App: w.Namespace + "/" + w.Name, Version: w.Owner, Footprint: w.Req.Resources(), Since: w.Since, Why: w.Why, Never: w.Never && r.Sizes != nil, Labels: labels, Zone: w.Labels[corev1.LabelTopologyZone]}
		if w.Never && r.Sizes == nil {
			c.Why = fmt.Sprintf("no node can hold it: %s", w.Why)
		}
		r.Copies = append(r.Copies, c)
	}
	return r
}
