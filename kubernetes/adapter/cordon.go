package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/objects"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// lateFor is how long after an accepted request an earlier one is late, as for an agent.
	lateFor = 10 * time.Minute
	// cordonTries bounds the attempts after conflicts.
	cordonTries = 5
	// cordonTimeout bounds one request for a cordon.
	cordonTimeout = 4 * time.Second
)

// cordonMark is the latest accepted cordon of a node. It is stored in an annotation of the node, so it survives a restart and a takeover.
type cordonMark struct {
	Epoch  uint64    `json:"epoch"`
	Number uint64    `json:"number"`
	On     bool      `json:"on"`
	Before bool      `json:"before"` // the node was unschedulable before Weirkeeper cordoned it
	At     time.Time `json:"at"`
	// Reason and Deadline are those of the request.
	Reason   string    `json:"reason,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// cordonPatch returns the merge patch that cordons a node, or takes the cordon back; nil: nothing changes. Without Weirkeeper's taint
// nothing is taken back: then another program or a person has undone the cordon.
func cordonPatch(n *corev1.Node, r wire.CordonRequest, at pools.Sequence, now time.Time) ([]byte, error) {
	on := r.On
	var mark cordonMark
	marked := json.Unmarshal([]byte(n.Annotations[core.CordonAnnotation]), &mark) == nil
	if accepted := (pools.Sequence{Epoch: mark.Epoch, Number: mark.Number}); marked && at.Before(accepted) && now.Sub(mark.At) < lateFor {
		return nil, &call.Error{Code: wire.CodeLate, Message: fmt.Sprintf("node %s has accepted the cordon request %d of epoch %d, this is %d of epoch %d",
			n.Name, mark.Number, mark.Epoch, at.Number, at.Epoch)}
	}
	isOurs := func(t corev1.Taint) bool { return t.Key == core.DrainTaint }
	ours := slices.ContainsFunc(n.Spec.Taints, isOurs)
	if !on && !ours && at == (pools.Sequence{}) {
		return nil, nil
	}
	next := cordonMark{Epoch: at.Epoch, Number: at.Number, On: on, Before: n.Spec.Unschedulable, At: now.UTC().Truncate(time.Second)}
	if on {
		next.Reason, next.Deadline = string(r.Reason), r.Deadline
	}
	if on && r.Reason == api.DrainSpot && !r.Deadline.IsZero() {
		next.Deadline = endOfSpot(now, r.Deadline).UTC().Truncate(time.Second)
	}
	if at == (pools.Sequence{}) {
		next.Epoch, next.Number = mark.Epoch, mark.Number
	}
	if ours && marked {
		next.Before = mark.Before
	} else if ours {
		next.Before = false
	}
	spec := map[string]any{}
	if on != ours || on && !n.Spec.Unschedulable {
		taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), isOurs)
		if on {
			taints = append(taints, corev1.Taint{Key: core.DrainTaint, Effect: corev1.TaintEffectNoSchedule})
		}
		spec["taints"], spec["unschedulable"] = taints, on || next.Before
		if len(taints) == 0 {
			spec["taints"] = nil
		}
	}
	text, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": map[string]any{core.CordonAnnotation: string(text)}}}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	return json.Marshal(patch)
}

// cordon cordons the node of a machine, or takes the cordon back. Its errors are those of an agent: late, busy and invalid.
func (a *Adapter) cordon(ctx context.Context, pool, id string, r wire.CordonRequest, at pools.Sequence) error {
	ctx, cancel := context.WithTimeout(ctx, cordonTimeout)
	defer cancel()
	if s := a.mirror.State(time.Now()); !s.Fresh {
		return busy("the state of the nodes is not current: %s", s.Why)
	}
	var name string
	var ok bool
	a.mirror.Read(func(c *core.Cluster) { name, _, ok = c.Find(pool, id) })
	if !ok {
		return call.Invalid("pool %s has no Node object with the machine %s", pool, id)
	}
	for range cordonTries {
		err := a.cordonOnce(ctx, name, id, r, at)
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return busy("node %s changes all the time: %d attempts met a conflict", name, cordonTries)
}

// cordonOnce makes one attempt. After a conflict its error is that of the API server.
func (a *Adapter) cordonOnce(ctx context.Context, name, id string, r wire.CordonRequest, at pools.Sequence) error {
	n, err := a.api.Node(ctx, name)
	if err = a.rights.result(rightGet, noCordon, err); err != nil {
		return busy("read node %s: %v", name, err)
	}
	if objects.MachineID(n.Spec.ProviderID) != id {
		return busy("node %s is another machine now: %s", name, n.Spec.ProviderID)
	}
	patch, err := cordonPatch(n, r, at, time.Now())
	if err != nil || patch == nil {
		return err
	}
	if err := a.rights.result(rightPatch, noCordon, a.api.PatchNode(ctx, name, patch)); err != nil {
		if apierrors.IsConflict(err) {
			return err
		}
		return busy("change node %s: %v", name, err)
	}
	return nil
}

func busy(format string, args ...any) error {
	return &call.Error{Code: wire.CodeBusy, Message: fmt.Sprintf(format, args...)}
}
