package autoscaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/shadow"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// hearing is what came of asking one signal and its shadow.
type hearing struct {
	answers []Answer
	shadow  *ShadowRecord // nil: there is none, or it was not asked
}

// ask brings all opinions up to date, those that are due at the same time, and
// returns what their shadows said.
func (l *Loop) ask(ctx context.Context, now time.Time) []ShadowRecord {
	r := newReading(l.world.Metrics)
	heard := make([]hearing, len(l.sources))
	var wg sync.WaitGroup
	for i, s := range l.sources {
		if !s.configured() || now.Before(s.next) {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, l.config.askTimeout())
			defer cancel()
			heard[i] = l.consult(ctx, r, s, now)
		})
	}
	wg.Wait()
	var shadows []ShadowRecord
	for i, s := range l.sources {
		if ctx.Err() == nil { // else the tick was broken off, and they are not to blame
			l.heard = append(l.heard, heard[i].answers...)
		}
		if record := heard[i].shadow; record != nil {
			shadows = append(shadows, *record)
		}
		if !now.Before(s.next) {
			s.schedule(now)
		}
	}
	return shadows
}

// consult reads the windows and asks; whatever goes wrong becomes a verdict. A
// shadow is asked beside the signal, and changes nothing of its opinion.
func (l *Loop) consult(ctx context.Context, r *reading, s *source, now time.Time) hearing {
	o := l.opinionOf(s.signal, s.own.endpoint, now)
	if down := s.own.endpoint.Down; down != "" && (!s.answers() || l.listing.Changed == nil) {
		o.Why = down
		s.opinion = o
		return hearing{}
	}
	series, short, err := l.windows(ctx, r, s.signal, now)
	s.short = short
	if err != nil {
		o.Why = err.Error()
		if _, ok := errors.AsType[*staleError](err); ok {
			o.Verdict = decide.Stale
		}
		s.opinion = o
		return hearing{}
	}
	e := sigproto.Evaluation{Timestamp: now.Unix(), Series: series}
	var beside reply
	var wg sync.WaitGroup
	if s.rival.shadows() {
		wg.Go(func() { beside = l.evaluate(ctx, s.signal, s.rival.line, e) })
	}
	replies := l.hear(ctx, s, e)
	wg.Wait()
	h := l.listen(s, replies, now)
	if s.rival.shadows() {
		answer, record := l.compare(s, beside, now)
		h.answers, h.shadow = append(h.answers, answer), &record
	}
	return h
}

// listen makes the opinion of s of what its processes replied.
func (l *Loop) listen(s *source, replies []reply, now time.Time) hearing {
	var h hearing
	o := l.opinionOf(s.signal, s.own.endpoint, now)
	o.Why = cmp.Or(s.own.endpoint.Down, "its process is gone") // if nobody was asked
	for _, r := range replies {
		o = l.judge(s.signal, r, now)
		h.answers = append(h.answers, answerOf(s.signal, r, o))
	}
	s.opinion = o
	return h
}

// compare sets what the shadow of s replied against the signal's opinion.
func (l *Loop) compare(s *source, r reply, now time.Time) (Answer, ShadowRecord) {
	s.rival.line = r.line
	o := l.judge(s.signal, r, now)
	a := answerOf(s.signal, r, o)
	a.Candidate = true
	if a.Compared = o.Verdict != decide.Failed && s.opinion.Verdict != decide.Failed; a.Compared {
		own := shadow.Answer{Verdict: string(s.opinion.Verdict), Request: s.opinion.Request}
		candidate := shadow.Answer{Verdict: string(o.Verdict), Request: o.Request}
		a.Difference = shadow.Compare(own, candidate, s.rival.tolerance)
	}
	return a, ShadowRecord{
		App: s.signal.App, Opinion: o, Tolerance: s.rival.tolerance, Compared: a.Compared, Difference: a.Difference,
	}
}

func answerOf(s Signal, r reply, o decide.Opinion) Answer {
	return Answer{
		App: s.App, Version: r.line.endpoint.Version, Address: r.line.endpoint.Address,
		Verdict: o.Verdict, Why: o.Why, Silent: r.silent(),
	}
}

// opinionOf returns an opinion that has failed for no reason yet.
func (l *Loop) opinionOf(s Signal, at Endpoint, now time.Time) decide.Opinion {
	return decide.Opinion{
		Signal: s.Namespace + "/" + s.Name, Version: cmp.Or(at.Version, s.Version), // that runs, else that should
		Verdict: decide.Failed, At: now,
	}
}

// judge makes an opinion of a reply.
func (l *Loop) judge(s Signal, r reply, now time.Time) decide.Opinion {
	o := l.opinionOf(s, r.line.endpoint, now)
	o.Latency = r.latency
	if r.err != nil {
		o.Why = r.err.Error()
		if errors.Is(r.err, context.DeadlineExceeded) {
			o.Why = fmt.Sprintf("no answer within %v: %v", l.config.askTimeout(), r.err)
		}
		return o
	}
	if len(r.response.Unknown) > 0 {
		l.log.Warn("signal answers with unknown keys", "signal", o.Signal, "app", s.App, "keys", r.response.Unknown)
	}
	o.Explanation = decide.OneLine(r.response.Explanation)
	switch r.response.Verdict {
	case sigproto.VerdictNoOpinion:
		o.Verdict, o.Why = decide.NoOpinion, cmp.Or(o.Explanation, "it says so")
	case sigproto.VerdictStale:
		o.Verdict, o.Why = decide.Stale, cmp.Or(o.Explanation, "it says so")
	case sigproto.VerdictValue:
		o.Verdict, o.Request = decide.Value, requestOf(r.response)
		if o.Request.IsEmpty() {
			o.Verdict, o.Why = decide.NoOpinion, "every resource is null"
		}
	default:
		o.Why = fmt.Sprintf("gave the verdict %q", decide.OneLine(string(r.response.Verdict)))
	}
	return o
}

func requestOf(r sigproto.Response) resource.Request {
	var out resource.Request
	for k, v := range map[resource.Kind]*float64{
		resource.CPUs: r.Resources.CPUs, resource.Mem: r.Resources.Mem,
		resource.Disk: r.Resources.Disk, resource.GPUs: r.Resources.GPUs,
	} {
		if v != nil {
			out = out.With(k, *v)
		}
	}
	return out
}
