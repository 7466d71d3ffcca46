package nodehealth

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// hearing returns a round that tells the heartbeats that came since the round before. One
// that is older than two intervals is told no more: it would prove a path by what is
// remembered of it.
func (l *Loop) hearing(expected time.Duration) func(context.Context) error {
	told := map[string]time.Time{} // of the round's goroutine alone
	return func(ctx context.Context) error {
		now := l.world.Now()
		facts := l.world.Facts(now)
		news := make([]judge.Observation, 0, len(facts))
		heard := make(map[string]time.Time, len(facts))
		for _, f := range facts[:min(len(facts), maxNodes)] {
			heard[f.ID] = f.At
			if f.At.After(told[f.ID]) && now.Sub(f.At) <= 2*expected {
				news = append(news, beat(f))
			}
		}
		told = heard
		return l.mail.send(ctx, func(now time.Time, _ *judge.Judge) []judge.Event { l.observe(now, news); return nil })
	}
}

// beat is what a heartbeat says: the node is there, and what its agent found of its
// machine. Another boot, or that it is drained, is no failure.
func beat(f pools.NodeFacts) judge.Observation {
	o := judge.Observation{Node: f.ID, Mode: judge.AgentHeartbeat, Verdict: judge.OK}
	failed, why := 0, ""
	for _, c := range f.Conditions[:min(len(f.Conditions), pools.MaxConditions)] {
		if !c.Failed {
			continue
		}
		if failed++; failed > 1 {
			why += "; "
		}
		if why = cut(why + cut(c.Type)); c.Why != "" {
			why = cut(why + ": " + cut(c.Why))
		}
	}
	if failed > 0 {
		o.Verdict, o.Reason = judge.Fail, why
	}
	return o
}
