package nodehealth

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// EventMissed is the event of a Told about rounds that were left out.
const EventMissed judge.FindingEvent = "round.missed"

// round is something that is observed again and again.
type round struct {
	name  string
	modes []judge.ModeType
	every time.Duration
	run   func(ctx context.Context) error
}

// plan returns the rounds of the policy. The provider's modes that have the interval
// of the detection share its round, which reads the pool.
func (l *Loop) plan() []round {
	d := l.policy.Detection
	interval := time.Duration(*d.Interval)
	pool := round{name: "pool", every: interval}
	var others []round
	for _, m := range d.Modes {
		switch m.Type {
		case judge.NodeStatus, judge.HypervisorStatus, judge.LBStatus:
			if every(m) == interval {
				pool.modes = append(pool.modes, m.Type)
				continue
			}
			modes := []judge.ModeType{m.Type}
			others = append(others, round{name: string(m.Type), modes: modes, every: every(m), run: func(ctx context.Context) error {
				return l.inspect(ctx, modes, nil)
			}})
		case judge.PollURL:
			others = append(others, round{name: string(m.Type), modes: []judge.ModeType{m.Type}, every: every(m), run: func(ctx context.Context) error {
				return l.probe(ctx, nil)
			}})
		case judge.AgentHeartbeat:
			others = append(others, l.beats(m)...)
		}
	}
	pool.run = func(ctx context.Context) error { return l.readPool(ctx, pool.modes) }
	return append([]round{pool}, others...)
}

// beats are the rounds of the heartbeats: twice in their interval, so that the silence
// of a node is found on time.
func (l *Loop) beats(m judge.DetectionMode) []round {
	expected := time.Duration(*m.Options.ExpectedInterval)
	var out []round
	if l.world.Facts != nil {
		hear := l.hearing(expected)
		out = append(out, round{name: string(m.Type), modes: []judge.ModeType{m.Type}, every: max(expected/2, time.Second), run: hear})
	}
	if l.world.Bus != nil {
		out = append(out, round{name: "canary", every: max(expected/2, time.Second), run: func(context.Context) error { return l.world.Bus.Canary() }})
	}
	return out
}

// due is when a round begins, after the first one: its turn, and up to a tenth of the
// interval more, so that pools do not keep step.
func (r round) due(pool string, k uint64) time.Duration {
	if k == 0 {
		return 0
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%s/%d", pool, r.name, k)
	jitter := time.Duration(float64(r.every) / 10 * float64(h.Sum32()) / math.MaxUint32)
	return time.Duration(k)*r.every + jitter
}

// repeat runs a round until ctx ends, one at a time, each until the next one is due at
// the latest. Those that one that did not heed that has left no time for are left out,
// and told.
func (l *Loop) repeat(ctx context.Context, r round) {
	began := l.world.Now()
	since := func() time.Duration { return l.world.Now().Sub(began) }
	for k := uint64(0); wait(ctx, r.due(l.config.Pool, k)-since()); {
		at := since()
		status := RoundStatus{Lag: max(0, at-r.due(l.config.Pool, k))}
		try, cancel := context.WithTimeout(ctx, r.due(l.config.Pool, k+1)-at)
		err := r.run(try)
		cancel()
		status.Took = since() - at
		for k++; r.due(l.config.Pool, k) < since(); k++ {
			status.Missed++
		}
		if l.mail.send(ctx, func(now time.Time, _ *judge.Judge) []judge.Event { l.roundEnded(now, r, status, err); return nil }) != nil {
			return
		}
	}
}

func (l *Loop) roundEnded(now time.Time, r round, last RoundStatus, err error) {
	s := l.rounds[r.name]
	s.At, s.Took, s.Lag = now, last.Took, last.Lag
	s.Missed += last.Missed
	l.announcer.counts.round(r.name, last.Took)
	if last.Missed > 0 {
		why := fmt.Sprintf("%s: %d rounds were left out, as one took %v", r.name, last.Missed, last.Took.Round(time.Millisecond))
		l.log.Warn("rounds were left out", "round", r.name, "missed", last.Missed, "took", last.Took)
		l.announcer.publish(Told{At: now, Finding: judge.Finding{Event: EventMissed, Why: why}})
	}
	text := ""
	if err != nil {
		text = cut(err.Error())
		l.announcer.counts.roundErrors[r.name]++
	}
	if text != s.Err && text != "" {
		l.log.Warn("round came to nothing", "round", r.name, "err", err)
	}
	s.Err = text
}
