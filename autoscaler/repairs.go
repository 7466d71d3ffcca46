package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

const (
	// maxRepairRequests bounds the repair requests that wait.
	maxRepairRequests = 256
	// maxAttempt bounds the name of a repair, in bytes.
	maxAttempt = 256
)

// repairRequest is one call of Repair.
type repairRequest struct {
	pools.RepairRequest
	ctx    context.Context // of the caller
	answer chan<- error    // has room for it
}

// Repair implements pools.Writer. Run serves the request between two ticks.
func (l *Loop) Repair(ctx context.Context, r pools.RepairRequest) error {
	if r.Node == "" || r.Attempt == "" || len(r.Attempt) > maxAttempt || r.Deadline.IsZero() {
		return fmt.Errorf("repair %q of node %q by %v: want an attempt of at most %d bytes, a node and a deadline", r.Attempt, r.Node, r.Deadline, maxAttempt)
	}
	r.Why = decide.OneLine(r.Why)
	answer := make(chan error, 1)
	err := error(nil)
	select {
	case l.repairRequests <- repairRequest{r, ctx, answer}:
		select {
		case err = <-answer:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-l.ended:
			err = l.lastWord(answer)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-l.ended:
		err = errEnded()
	}
	if err != nil {
		return fmt.Errorf("repair %s of node %s: %w", r.Attempt, r.Node, err)
	}
	return nil
}

// errEnded: who runs the loop has ended.
func errEnded() error { return fmt.Errorf("the pool's loop has ended: %w", pools.ErrNotHolder) }

// lastWord is what a loop that has ended had answered.
func (*Loop) lastWord(answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	default:
		return errEnded()
	}
}

// serve begins repairs, with first all that wait. It returns an error only if the loop
// has to end.
func (l *Loop) serve(ctx context.Context, first repairRequest) error {
	if err := l.take(ctx); err != nil {
		first.answer <- err
		return nil
	}
	defer l.give()
	waiting := []repairRequest{first}
	for more := true; more && len(waiting) < maxRepairRequests; {
		select {
		case w := <-l.repairRequests:
			waiting = append(waiting, w)
		default:
			more = false
		}
	}
	waiting = slices.DeleteFunc(waiting, func(w repairRequest) bool { return w.ctx.Err() != nil }) // nobody waits any more
	if len(waiting) == 0 {
		return nil
	}
	now := l.now().UTC().Round(0)
	var r Record // there is no tick: the next one's record tells
	answers, err := l.repair(ctx, now, waiting, &r)
	for i, w := range waiting {
		if answers == nil {
			w.answer <- err
		} else {
			w.answer <- answers[i]
		}
	}
	if err == nil && slices.Contains(answers, nil) {
		err = l.drainOn(ctx, now, l.last, &r)
	}
	l.between = append(l.between, r.Actions...)
	if err != nil {
		l.log.Error("repairs cannot be begun now", "pool", l.pool, "repairs", len(waiting), "err", err)
	}
	return fatal(err)
}

// repair begins the repairs, and returns what is to be answered to each. No answers
// means that the error is that of all.
func (l *Loop) repair(ctx context.Context, now time.Time, requests []repairRequest, r *Record) ([]error, error) {
	v, err := l.ready(ctx, now)
	if err != nil {
		return nil, err
	}
	choices, answers := l.chosen(now, v, requests)
	intent := Intent{At: now}
	for _, c := range choices {
		if c.Node != "" && c.Mend == nil {
			intent.LetGo = append(intent.LetGo, c.Node)
		}
	}
	if err := l.save(ctx, l.state, &intent); err != nil {
		return nil, err
	}
	for i, c := range choices {
		if c.Node == "" {
			continue
		}
		answers[i] = l.choose(ctx, now, c, r)
		if err := fatal(answers[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// ready looks at the pool, if it may be changed now.
func (l *Loop) ready(ctx context.Context, now time.Time) (*snapshot.Snapshot, error) {
	if l.config.DryRun {
		return nil, errDryRun
	}
	if err := l.mayWrite(); err != nil {
		return nil, err
	}
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	orders, err := l.orders(ctx, now)
	if err != nil {
		return nil, err
	}
	if l.paused = orders.Pause != nil; l.paused {
		return nil, orders.Allow(now)
	}
	v, err := l.look(ctx, now)
	if err != nil {
		return nil, err
	}
	l.tally = newTally(v.Groups, l.state.Groups)
	return v, nil
}

// chosen returns the choice that each request is, one without a node where there is nothing
// to begin, and why not.
func (l *Loop) chosen(now time.Time, v *snapshot.Snapshot, requests []repairRequest) ([]drain.Choice, []error) {
	records := map[string]drain.Record{}
	for _, r := range l.drains.Records() {
		records[r.Node] = r
	}
	room := l.room(v)
	choices, answers, taken := make([]drain.Choice, len(requests)), make([]error, len(requests)), map[string]string{}
	for i, w := range requests {
		record, under := records[w.Node]
		attempt, same := taken[w.Node]
		switch {
		case under && record.Attempt == w.Attempt:
			continue // it is kept
		case under && !inService(record), same && attempt != w.Attempt:
			answers[i] = fmt.Errorf("%w: %s", pools.ErrLeaving, record.Reason)
			continue
		}
		c, err := repairable(now, v, w.RepairRequest)
		if err == nil && c.Hold && c.Weight > room+resolve.Slack {
			err = pools.ErrNoRoom
		}
		if answers[i] = err; err == nil {
			choices[i], taken[w.Node] = c, w.Attempt
			room -= c.Weight
		}
	}
	return choices, answers
}

// repairable returns the repair as a choice, or why it cannot be.
func repairable(now time.Time, v *snapshot.Snapshot, r pools.RepairRequest) (drain.Choice, error) {
	n, there := v.Instance(r.Node)
	if !there {
		return drain.Choice{}, pools.ErrUnknownNode
	}
	group, _ := v.Group(n.Group)
	switch busy := v.Busy()[n.Group]; {
	case !now.Before(r.Deadline):
		return drain.Choice{}, fmt.Errorf("its deadline was %v", r.Deadline)
	case busy != "":
		return drain.Choice{}, fmt.Errorf("%w: its group is being changed: %s", pools.ErrRefused, busy)
	case r.Mend == nil && n.Protected:
		return drain.Choice{}, fmt.Errorf("%w: it is protected from termination", pools.ErrRefused)
	case r.Mend != nil && r.Hold:
		return drain.Choice{}, errors.New("it is repaired in place, and nothing takes its place")
	case r.Mend != nil && !mends(group, r.Mend.Kind):
		return drain.Choice{}, fmt.Errorf("%w: group %s has no %s", pools.ErrRefused, n.Group, r.Mend.Kind)
	}
	return drain.Choice{
		Node: n.ID, Group: n.Group, Weight: n.Weight, Reason: drain.Repair,
		Attempt: r.Attempt, Hold: r.Hold, Mend: r.Mend, Deadline: r.Deadline, Why: r.Why,
	}, nil
}

// room is the weight by which the groups can be raised now, but for what is owed.
func (l *Loop) room(v *snapshot.Snapshot) float64 {
	held := plan.Held(l.state.Quarantines, l.state.Clock)
	sum := -l.account(v).Owed()
	for _, g := range v.Groups {
		if _, aside := held[g.ID]; !aside && !g.Stale && g.Busy == "" {
			sum += max(0, float64(g.Max)-max(float64(l.tally.target(g.ID)), g.Fulfilled()))
		}
	}
	return sum
}

// full reports whether every group that is not set aside has what it is asked for, up
// and joined, without the nodes that are on their way out. Nodes that are sick, or
// repaired in place, do not count, nor are those of them waited for that were there at
// that time: what has come since is to be fit. What is owed is waited for, too.
func (l *Loop) full(v *snapshot.Snapshot, account resolve.Account, since time.Time) bool {
	held, leaving, mending := plan.Held(l.state.Quarantines, l.state.Clock), leavingNodes(l.drains.Records()), mendingNodes(l.drains.Records())
	counts := map[string]bool{}
	need, have := account.Owed(), 0.0
	for _, g := range account.Groups {
		if _, aside := held[g.ID]; aside || g.Stale {
			continue
		}
		counts[g.ID] = true
		need += float64(g.Share() + g.Surge)
	}
	for _, n := range v.Nodes {
		i, unfit := n.Instance, n.Unhealthy || mending[n.Instance.ID]
		switch {
		case !counts[i.Group] || leaving[i.ID] || i.State == pools.InstanceTerminating:
		case !unfit:
			have += n.JoinedWeight()
		case !i.Launched.After(since):
			need -= i.Weight
		}
	}
	return have >= need-resolve.Slack
}
