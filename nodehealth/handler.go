package nodehealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// checkTimeout is the timeout of a check that an operator requests.
const checkTimeout = 30 * time.Second

var _ Handler = (*Loop)(nil)

// listen passes the messages of the bus to the Loop until ctx ends.
func (l *Loop) listen(ctx context.Context) {
	for {
		err := l.world.Bus.Listen(ctx, l)
		if ctx.Err() != nil {
			return
		}
		l.log.Error("bus subscription failed", "err", errors.Join(err, errors.New("subscribing again")))
		if !retry.Pause(ctx, retryFirst) {
			return
		}
	}
}

func (l *Loop) takeHints(ctx context.Context) {
	for {
		select {
		case h, open := <-l.world.Hints:
			if !open {
				return
			}
			l.Hint(h)
		case <-ctx.Done():
			return
		}
	}
}

// Hint implements Handler. It drops hints about machines that are missing from the latest snapshot
// of the pool. The next round finds them.
func (l *Loop) Hint(h judge.Hint) {
	if h.Node == "" || len(h.Node) > api.MaxNodeID {
		l.mail.lose("hints", 1)
		return
	}
	h.Why = prose.Clip(h.Why, api.MaxWhy)
	l.mail.offer("hints", func(time.Time, *judge.Judge) batch {
		if l.inventory.hasNode(h.Node) {
			return of(h)
		}
		return batch{}
	})
}

// Proof implements Handler.
func (l *Loop) Proof(p judge.PathProof) {
	if _, heartbeats := l.policy.Detection.Mode(api.DetectAgentHeartbeat); !heartbeats {
		return
	}
	if why := l.pathDown(l.world.Now()); why != "" && !p.Down {
		p = judge.PathProof{Down: true, Why: why} // the bus works, and the scheduler that speaks for the nodes is not current
	}
	p.Why = prose.Clip(p.Why, api.MaxWhy)
	l.mail.offer("proofs", func(time.Time, *judge.Judge) batch { return of(p) })
}

// Order implements Handler. When it returns, the order is durable.
func (l *Loop) Order(ctx context.Context, o api.RepairOrder) (api.RepairOrderResponse, error) {
	if err := api.ValidateOrder(o); err != nil {
		return api.RepairOrderResponse{}, err
	}
	if !*l.policy.Enabled {
		return api.RepairOrderResponse{Error: "node health is not enabled for this pool: set health.enabled"}, nil
	}
	o.By, o.Why = prose.Clip(o.By, api.MaxWhy), prose.Clip(o.Why, api.MaxWhy)
	if o.Op == api.OpCheck {
		return l.checkNodes(ctx, o)
	}
	var a api.RepairOrderResponse
	var gen uint64
	err := l.mail.do(ctx, func(now time.Time, _ *judge.Judge) {
		l.log.Info("ordered", "op", o.Op, "nodes", o.Nodes, "by", o.By, "why", o.Why)
		a = l.carryOut(now, o)
		gen = l.memory.queueSave(now, l.judge)
		l.publishCondition()
	})
	if err != nil {
		return api.RepairOrderResponse{}, err
	}
	if err := l.memory.awaitDurable(ctx, gen); err != nil {
		a.OK, a.Error = false, prose.Clip(err.Error(), api.MaxWhy)
	}
	if o.Op == api.OpPause {
		l.withdraw(ctx, o, &a)
	}
	return a, nil
}

func (l *Loop) carryOut(now time.Time, o api.RepairOrder) api.RepairOrderResponse {
	a := api.RepairOrderResponse{OK: true}
	if o.Op == api.OpRecover && o.All {
		return l.recoverAll(now, o)
	}
	if len(o.Nodes) == 0 {
		d := decide(now, l.judge, o, "")
		l.step(now, d.events...)
		if !d.ok {
			a.OK, a.Error = false, d.why
		}
		return a
	}
	for _, id := range o.Nodes {
		d := refused(api.WhyNoNode)
		if _, known := l.judge.Explain(now, id); known {
			d = decide(now, l.judge, o, id)
			l.step(now, d.events...)
		}
		a.Nodes = append(a.Nodes, api.RepairNodeResponse{Node: id, OK: d.ok, Why: d.why})
	}
	if o.Op == api.OpRecover {
		clear(l.announcer.requests)
		l.step(now, judge.Tick{}) // pass the gates at once
	}
	for i := range a.Nodes {
		if s, known := l.nodeStatus(now, a.Nodes[i].Node); known {
			completeResponse(&a.Nodes[i], l.acts(), o.Op, s, l.announcer.refusals[s.Node], l.announcer.requests[s.Node])
		}
		a.OK = a.OK && a.Nodes[i].OK
	}
	return a
}

// recoverAll requests the repair of each node of the pool, and returns how many repairs began and
// how many wait.
func (l *Loop) recoverAll(now time.Time, o api.RepairOrder) api.RepairOrderResponse {
	a := api.RepairOrderResponse{OK: true, Pool: &api.RepairPoolResponse{Until: now.Add(o.For)}}
	leave := func(id, why string) {
		if len(a.Nodes) < api.MaxRows {
			a.Nodes = append(a.Nodes, api.RepairNodeResponse{Node: id, Why: why})
		}
	}
	var asked []string
	for _, n := range l.judge.Status() {
		a.Pool.Nodes++
		d := recoverOrder(now, l.judge, o, n.Node)
		e, _ := l.judge.Explain(now, n.Node)
		switch {
		case len(d.events) == 0:
			leave(n.Node, d.why)
		case e.Requester != "":
			leave(n.Node, "a repair request of "+e.Requester+" waits already")
		default:
			asked = append(asked, n.Node)
		}
	}
	l.step(now, judge.Recover{By: cmp.Or(o.By, "an operator"), For: o.For}, judge.Tick{})
	for _, id := range asked {
		switch e, _ := l.judge.Explain(now, id); {
		case e.RequestedForPool:
			a.Pool.Waiting++
		case e.Attempt != "" || e.State == api.StateClaimed:
			a.Pool.Begun++
		case !l.acts():
			a.Pool.Begun++
		default:
			leave(id, "it is "+string(e.State))
		}
	}
	if a.Pool.Begun+a.Pool.Waiting == 0 {
		a.OK, a.Error = false, "no node of the pool can be repaired: each is under repair, requested, quarantined, held or leaving"
	}
	return a
}

// checkNodes runs the checks of nodes now and returns their status.
func (l *Loop) checkNodes(ctx context.Context, o api.RepairOrder) (api.RepairOrderResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	select {
	case l.checking <- struct{}{}:
		defer func() { <-l.checking }()
	case <-l.mail.ended:
		return api.RepairOrderResponse{}, ErrNotRunning
	case <-ctx.Done():
		return api.RepairOrderResponse{}, errors.Join(errors.New("other checks are in progress"), context.Cause(ctx))
	}
	var nodes map[string]bool
	if len(o.Nodes) > 0 {
		nodes = map[string]bool{}
		for _, id := range o.Nodes {
			nodes[id] = true
		}
	}
	seen := l.watcher.observeNow(ctx, nodes)
	a := api.RepairOrderResponse{OK: seen == nil}
	if seen != nil {
		a.Error = prose.Clip(seen.Error(), api.MaxWhy)
	}
	err := l.mail.do(context.WithoutCancel(ctx), func(now time.Time, _ *judge.Judge) {
		list := o.Nodes
		if len(list) == 0 {
			list = l.page("", func(string) bool { return true })
			list = list[:min(len(list), api.MaxRows)]
		}
		for _, id := range list {
			s, known := l.nodeStatus(now, id)
			if !known {
				a.OK = false
				a.Nodes = append(a.Nodes, api.RepairNodeResponse{Node: id, Why: api.WhyNoNode})
				continue
			}
			a.Nodes = append(a.Nodes, api.RepairNodeResponse{Node: id, OK: s.Verdict == api.CheckOK, Why: s.Why, Status: &s})
		}
	})
	return a, err
}

// Status implements Handler.
func (l *Loop) Status(ctx context.Context, q api.HealthQuery) (api.HealthStatus, error) {
	if err := api.ValidateQuery(q); err != nil {
		return api.HealthStatus{}, err
	}
	var s api.HealthStatus
	err := l.mail.do(ctx, func(now time.Time, _ *judge.Judge) { s = l.status(now, q) })
	return s, err
}

// decision is the result of an order for one node or for the pool.
type decision struct {
	events []judge.Event
	why    string // what is done, or why nothing is done
	ok     bool
}

func accepted(why string, events ...judge.Event) decision {
	return decision{events: events, why: why, ok: true}
}

func refused(why string, events ...judge.Event) decision {
	return decision{events: events, why: why}
}

// decide returns the decision on an order for a node of the pool, or for the pool if id is empty.
// It only reads the judge.
func decide(now time.Time, j *judge.Judge, o api.RepairOrder, id string) decision {
	switch o.Op {
	case api.OpPause:
		return pauseOrder(now, j, o, id)
	case api.OpResume:
		return resumeOrder(j, o, id)
	case api.OpRelease:
		return releaseOrder(now, j, o, id)
	case api.OpRecover:
		return recoverOrder(now, j, o, id)
	}
	return decision{}
}

func ownerOf(by string) string {
	if by == "" {
		return "operator"
	}
	return "operator " + by
}

func pauseOrder(now time.Time, j *judge.Judge, o api.RepairOrder, id string) decision {
	owner := ownerOf(o.By)
	if _, renewed := j.Paused(id, owner); !renewed && operatorPauses(j) >= api.MaxPauses {
		return refused(fmt.Sprintf("operators have %d pauses already, the maximum: end some, or pause the pool", api.MaxPauses))
	}
	ttl := cmp.Or(o.For, judge.DefaultPause)
	return accepted("paused until "+now.Add(ttl).UTC().Format(time.RFC3339), judge.Pause{Node: id, Owner: owner, TTL: ttl, Why: o.Why})
}

func resumeOrder(j *judge.Judge, o api.RepairOrder, id string) decision {
	owner := ownerOf(o.By)
	if _, paused := j.Paused(id, owner); !paused {
		return refused("no pause of " + owner + otherPauses(j, id, owner))
	}
	return accepted("resumed"+otherPauses(j, id, owner), judge.Resume{Node: id, Owner: owner})
}

func operatorPauses(j *judge.Judge) (n int) {
	for _, p := range j.State().Pauses {
		if p.Owner != drainOwner && p.Owner != poolOwner {
			n++
		}
	}
	return n
}

func otherPauses(j *judge.Judge, node, owner string) string {
	var text strings.Builder
	for _, p := range j.State().Pauses {
		if p.Node == node && p.Owner != owner {
			fmt.Fprintf(&text, "; %s pauses it until %s", p.Owner, p.Until.UTC().Format(time.RFC3339))
		}
	}
	return prose.Clip(text.String(), api.MaxWhy)
}

func recoverOrder(now time.Time, j *judge.Judge, o api.RepairOrder, id string) decision {
	switch known, _ := j.Explain(now, id); {
	case known.State == api.StateQuarantined:
		return refused("it is quarantined: release it first")
	case known.State == api.StateHeld:
		return refused("it is held because its repairs are used up: release it first")
	case known.State == api.StateFenceFailed:
		return refused("its fencing failed: check the machine, then release it")
	case known.Attempt != "" || known.State == api.StateClaimed:
		return accepted("its repair is already in progress")
	}
	return accepted("", judge.Recover{Node: id, By: cmp.Or(o.By, "an operator"), For: o.For})
}

func releaseOrder(now time.Time, j *judge.Judge, o api.RepairOrder, id string) decision {
	if id == "" {
		if o.All {
			return withdrawOrder(j, o)
		}
		all := judge.Release{By: o.By}
		if !slices.ContainsFunc(j.State().Breakers, func(b api.Breaker) bool { return b.Open }) {
			return refused("the breaker is closed", all)
		}
		return accepted("", all, judge.Tick{})
	}
	one := judge.Release{Node: id, By: cmp.Or(o.By, "an operator")}
	known, _ := j.Explain(now, id)
	if known.Requester != "" {
		return accepted("the request of "+known.Requester+" is withdrawn", one)
	}
	if known.State != api.StateQuarantined && known.State != api.StateHeld && known.State != api.StateFenceFailed {
		return refused("it is not held: it is " + string(known.State))
	}
	return accepted("released", one)
}

func withdrawOrder(j *judge.Judge, o api.RepairOrder) decision {
	if !slices.ContainsFunc(j.State().Nodes, func(n judge.NodeRecord) bool { return n.Requester != "" && n.Repair == nil }) {
		return refused("no request to repair a node waits")
	}
	return accepted("", judge.Release{Requests: true, By: cmp.Or(o.By, "an operator")})
}

// completeResponse adds the node's status to an answer and, for a recovery, the result. refusal is the
// latest reason of a gate, and ended is why the request has ended already.
func completeResponse(a *api.RepairNodeResponse, acts bool, op string, s api.NodeHealth, refusal, ended string) {
	a.Status = &s
	if op != api.OpRecover || !a.OK || a.Why != "" {
		return
	}
	if refusal != "" {
		refusal = ": " + refusal
	}
	switch {
	case s.Attempt != "" || s.State == api.StateClaimed:
		a.Why = "repair began: " + string(s.Action)
	case s.Requester != "":
		a.Why = prose.Clip(fmt.Sprintf("the request waits until %s: gate %s refuses%s", s.RequestedUntil.UTC().Format(time.RFC3339), s.Gate, refusal), api.MaxWhy)
	case ended != "":
		a.OK, a.Why = false, prose.Clip(ended+"; nothing will be done", api.MaxWhy)
	case !acts:
		a.Why = "mode is observe: the repair is reported and not carried out"
	default:
		a.OK, a.Why = false, "it is "+string(s.State)
	}
}
