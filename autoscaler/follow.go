package autoscaler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

// settle takes up the newest listing: after it, nobody is asked at a place that
// is not listed any more.
func (l *Loop) settle() {
	l.listing = l.world.Directory.Listing()
	for _, s := range l.sources {
		s.follow(l.listing)
	}
}

// follow takes up the newest listing between two ticks, reports that, probes who is
// to take a signal's place, and reports what they said. The next tick waits for the
// probes, for no longer than it would for a signal.
func (l *Loop) follow(ctx context.Context, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	before := l.listing.Revision
	l.settle()
	if l.listing.Revision != before {
		l.report()
	}
	waiting := slices.DeleteFunc(slices.Clone(l.sources), func(s *source) bool { return !s.rival.waits() })
	if len(waiting) == 0 {
		return
	}
	l.probe(ctx, now.UTC(), waiting)
	if ctx.Err() == nil { // else the end of ctx was theirs, and they are not to blame
		l.report()
	}
}

// probe asks the candidates of these sources on the windows of now, all at the
// same time. What they answer is reported and has no other effect.
func (l *Loop) probe(ctx context.Context, now time.Time, sources []*source) {
	r := newReading(l.world.Metrics)
	answers := make([]Heard, len(sources))
	var wg sync.WaitGroup
	for i, s := range sources {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, l.config.askTimeout())
			defer cancel()
			answers[i] = l.try(ctx, r, s, now)
		})
	}
	wg.Wait()
	l.heard = append(l.heard, answers...)
}

// try asks the candidate of s. If its windows are not good nobody is asked.
func (l *Loop) try(ctx context.Context, r *reading, s *source, now time.Time) Heard {
	at := reply{line: s.rival.line}
	i, err := l.inquire(ctx, r, s.signal.asked(s.rival.question), now)
	o := decide.Opinion{Verdict: decide.Unasked}
	if err != nil {
		o.Why = err.Error()
	} else {
		at = l.evaluate(ctx, s.signal, s.rival.line, i)
		o = l.judge(s.signal, at, now)
		s.rival.line, s.rival.probed = at.line, true
	}
	a := heardOf(s.signal, at, o)
	a.Candidate = true
	return a
}

// aliveEvery is how long the loop is quiet at most while it waits for the next tick.
const aliveEvery = 20 * time.Second

// report tells the directory what is followed and what was heard since the last
// report.
func (l *Loop) report() {
	l.world.Directory.Report(Report{Revision: l.listing.Revision, Answers: l.heard})
	l.heard = nil
}
