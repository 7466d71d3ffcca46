package nodehealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	// checkTimeout bounds the observing that an operator asks for.
	checkTimeout = 30 * time.Second
)

// Order implements Ear. What an operator orders is durable when the answer comes.
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

// obey carries an order out: for the pool where it names no node.
func (l *Loop) obey(now time.Time, o Order) Answer {
	a := Answer{OK: true}
	if len(o.Nodes) == 0 {
		why, ok := l.obeyNode(now, o, "")
		if !ok {
			a.OK, a.Error = false, why
		}
		return a
	}
	for _, id := range o.Nodes {
		if _, known := l.judge.Explain(now, id); !known {
			a.OK = false
			a.Nodes = append(a.Nodes, NodeAnswer{Node: id, Why: "the pool has no such node"})
			continue
		}
		why, ok := l.obeyNode(now, o, id)
		a.Nodes = append(a.Nodes, NodeAnswer{Node: id, OK: ok, Why: why})
		a.OK = a.OK && ok
	}
	if o.Op == OpRecover {
		l.step(now, judge.Tick{}) // through the gates, at once
	}
	for i := range a.Nodes {
		l.complete(now, o, &a.Nodes[i])
		a.OK = a.OK && a.Nodes[i].OK
	}
	return a
}

// ownerOf names the pauses of an operator.
func ownerOf(by string) string {
	if by == "" {
		return "operator"
	}
	return "operator " + by
}

func (l *Loop) obeyNode(now time.Time, o Order, id string) (why string, ok bool) {
	owner := ownerOf(o.By)
	switch o.Op {
	case OpPause:
		if _, renewed := l.judge.Paused(id, owner); !renewed && l.operatorPauses() >= MaxPauses {
			return fmt.Sprintf("operators have %d pauses already, as many as they may: end some, or pause the pool", MaxPauses), false
		}
		ttl := cmp.Or(o.For, judge.DefaultPause)
		l.step(now, judge.Pause{Node: id, Owner: owner, TTL: ttl, Why: o.Why})
		return "paused until " + now.Add(ttl).UTC().Format(time.RFC3339), true
	case OpResume:
		if _, paused := l.judge.Paused(id, owner); !paused {
			return "there is no pause of " + owner + l.otherPauses(id), false
		}
		l.step(now, judge.Resume{Node: id, Owner: owner})
		return "resumed" + l.otherPauses(id), true
	case OpRelease:
		return l.releaseNode(now, o, id)
	case OpRecover:
		return l.recoverNode(now, o, id)
	}
	return "", false
}

// operatorPauses counts those that operators have taken.
func (l *Loop) operatorPauses() (n int) {
	for _, p := range l.judge.State().Pauses {
		if p.Owner != drainOwner && p.Owner != poolOwner {
			n++
		}
	}
	return n
}

func (l *Loop) recoverNode(now time.Time, o Order, id string) (string, bool) {
	switch known, _ := l.judge.Explain(now, id); {
	case known.State == judge.Quarantined:
		return "it is in quarantine: release it first", false
	case known.State == judge.FenceFailed:
		return "it could not be fenced: release it once you know what it does", false
	case known.Attempt != "" || known.State == judge.Claimed:
		return "it is being repaired already", true
	}
	l.step(now, judge.Recover{Node: id, By: cmp.Or(o.By, "an operator")})
	return "", true
}

// otherPauses names who else has a node paused.
func (l *Loop) otherPauses(id string) string {
	var text strings.Builder
	for _, p := range l.judge.State().Pauses {
		if p.Node == id {
			fmt.Fprintf(&text, "; %s pauses it until %s", p.Owner, p.Until.UTC().Format(time.RFC3339))
		}
	}
	return cut(text.String())
}

func (l *Loop) releaseNode(now time.Time, o Order, id string) (string, bool) {
	if id == "" {
		open := slices.ContainsFunc(l.judge.State().Breakers, func(b judge.Breaker) bool { return b.Open })
		l.step(now, judge.Release{By: o.By})
		if !open {
			return "the breaker is closed", false
		}
		l.step(now, judge.Tick{})
		return "", true
	}
	known, _ := l.judge.Explain(now, id)
	if known.Asked != "" {
		l.step(now, judge.Release{Node: id, By: cmp.Or(o.By, "an operator")})
		return "the wish of " + known.Asked + " to have it repaired is withdrawn", true
	}
	if known.State != judge.Quarantined && known.State != judge.FenceFailed {
		return "it is not held: it is " + string(known.State), false
	}
	l.step(now, judge.Release{Node: id, By: cmp.Or(o.By, "an operator")})
	return "released", true
}

// complete adds how a node stands, and of a recovery what came of it.
func (l *Loop) complete(now time.Time, o Order, a *NodeAnswer) {
	s, known := l.nodeStatus(now, a.Node)
	if !known {
		return
	}
	a.Status = &s
	if o.Op != OpRecover || !a.OK || a.Why != "" {
		return
	}
	switch {
	case s.Attempt != "" || s.State == judge.Claimed:
		a.Why = "its repair has begun: " + string(s.Action)
	case s.Gate != "":
		a.OK, a.Why = false, cut(fmt.Sprintf("gate %s refuses now%s: it is repaired once that opens", s.Gate, l.gateWhy(a.Node)))
	case l.policy.Mode != judge.Act:
		a.Why = "the policy observes: what would be done was told, and nothing is"
	default:
		a.OK, a.Why = false, "it is "+string(s.State)
	}
}

// gateWhy is what the gate said of a node last.
func (l *Loop) gateWhy(node string) string {
	if why := l.announcer.counts.refusals[node]; why != "" {
		return ": " + why
	}
	return ""
}

// check observes nodes now, and answers how they stand.
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
