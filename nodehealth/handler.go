package nodehealth

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// checkTimeout bounds the observing that an operator asks for.
const checkTimeout = 30 * time.Second

// listen passes the messages of the bus to the Loop until ctx ends.
func (l *Loop) listen(ctx context.Context) {
	for {
		err := l.world.Bus.Listen(ctx, l)
		if ctx.Err() != nil {
			return
		}
		l.log.Error("node health does not hear the bus", "err", errors.Join(err, errors.New("it is listened to anew")))
		if !wait(ctx, retryFirst) {
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

// Hint implements Handler. It drops hints about machines that the latest snapshot of the
// pool lacks: the next round finds them.
func (l *Loop) Hint(h judge.Hint) {
	if h.Node == "" || len(h.Node) > MaxNodeID {
		l.mail.lose("hints", 1)
		return
	}
	h.Why = cut(h.Why)
	l.mail.offer("hints", func(time.Time, *judge.Judge) batch {
		if l.inventory.has(h.Node) {
			return of(h)
		}
		return batch{}
	})
}

// Proof implements Handler.
func (l *Loop) Proof(p judge.PathProof) {
	if _, heartbeats := l.policy.Detection.Mode(judge.AgentHeartbeat); !heartbeats {
		return
	}
	p.Why = cut(p.Why)
	l.mail.offer("proofs", func(time.Time, *judge.Judge) batch { return of(p) })
}

// Order implements Handler. The order is durable when the answer arrives.
func (l *Loop) Order(ctx context.Context, o Order) (Answer, error) {
	if err := o.Validate(); err != nil {
		return Answer{}, err
	}
	if !*l.policy.Enabled {
		return Answer{Error: "node health is not enabled for this pool: set health.enabled"}, nil
	}
	o.By, o.Why = cut(o.By), cut(o.Why)
	if o.Op == OpCheck {
		return l.check(ctx, o)
	}
	var a Answer
	var gen uint64
	err := l.mail.ask(ctx, func(now time.Time, _ *judge.Judge) {
		l.log.Info("ordered", "op", o.Op, "nodes", o.Nodes, "by", o.By, "why", o.Why)
		a = l.obey(now, o)
		gen = l.memory.remember(now, l.judge)
		l.publishCondition()
	})
	if err != nil {
		return Answer{}, err
	}
	if err := l.memory.awaitDurable(ctx, gen); err != nil {
		a.OK, a.Error = false, cut(err.Error())
	}
	return a, nil
}

func (l *Loop) obey(now time.Time, o Order) Answer {
	a := Answer{OK: true}
	if len(o.Nodes) == 0 {
		d := decide(now, l.judge, o, "")
		l.step(now, d.events...)
		if !d.ok {
			a.OK, a.Error = false, d.why
		}
		return a
	}
	for _, id := range o.Nodes {
		d := refused("the pool has no such node")
		if _, known := l.judge.Explain(now, id); known {
			d = decide(now, l.judge, o, id)
			l.step(now, d.events...)
		}
		a.Nodes = append(a.Nodes, NodeAnswer{Node: id, OK: d.ok, Why: d.why})
	}
	if o.Op == OpRecover {
		l.step(now, judge.Tick{}) // through the gates, at once
	}
	for i := range a.Nodes {
		if s, known := l.nodeStatus(now, a.Nodes[i].Node); known {
			complete(&a.Nodes[i], l.acts(), o.Op, s, l.announcer.refusals[s.Node])
		}
		a.OK = a.OK && a.Nodes[i].OK
	}
	return a
}

// check observes nodes now, and answers with their status.
func (l *Loop) check(ctx context.Context, o Order) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	select {
	case l.checking <- struct{}{}:
		defer func() { <-l.checking }()
	case <-l.mail.ended:
		return Answer{}, ErrNotRunning
	case <-ctx.Done():
		return Answer{}, errors.Join(errors.New("other checks are under way"), context.Cause(ctx))
	}
	var nodes map[string]bool
	if len(o.Nodes) > 0 {
		nodes = map[string]bool{}
		for _, id := range o.Nodes {
			nodes[id] = true
		}
	}
	seen := l.watcher.observeNow(ctx, nodes)
	a := Answer{OK: seen == nil}
	if seen != nil {
		a.Error = cut(seen.Error())
	}
	err := l.mail.ask(context.WithoutCancel(ctx), func(now time.Time, _ *judge.Judge) {
		list := o.Nodes
		if len(list) == 0 {
			list = l.page("", func(string) bool { return true })
			list = list[:min(len(list), MaxRows)]
		}
		for _, id := range list {
			s, known := l.nodeStatus(now, id)
			if !known {
				a.OK = false
				a.Nodes = append(a.Nodes, NodeAnswer{Node: id, Why: "the pool has no such node"})
				continue
			}
			a.Nodes = append(a.Nodes, NodeAnswer{Node: id, OK: s.Verdict == judge.OK, Why: s.Why, Status: &s})
		}
	})
	return a, err
}

// Status implements Handler.
func (l *Loop) Status(ctx context.Context, q StatusQuery) (Status, error) {
	if err := q.Validate(); err != nil {
		return Status{}, err
	}
	var s Status
	err := l.mail.ask(ctx, func(now time.Time, _ *judge.Judge) { s = l.status(now, q) })
	return s, err
}
