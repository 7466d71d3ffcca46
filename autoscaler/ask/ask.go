package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/shadow"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// ShadowRecord is what a shadow candidate said in a tick, and how that differs
// from what its app's signal said, whose opinion is in the Case. No rule reads it.
type ShadowRecord struct {
	App string `json:"app"`
	decide.Opinion
	Tolerance float64 `json:"tolerance"` // as a fraction of the signal's own answer
	// Compared: as of a Result.
	Compared   bool   `json:"compared,omitempty"`
	Difference string `json:"difference,omitempty"` // as of shadow.Compare; empty if they agree
}

// asking is one round of questions. The shadows are still at theirs while the loop
// decides and acts.
type asking struct {
	reading *reading
	now     time.Time
	heard   [][]Result // by source
	trials  []*trial   // by source; nil: nobody is asked beside it
	shadows sync.WaitGroup
	end     func() // of the time that all have
}

// trial is a shadow that is asked what its signal is.
type trial struct {
	source *source
	reply  reply // once the shadows are waited for
}

// Evaluate brings all opinions up to date, those that are due at the same time. It waits
// for the signals and not for their shadows: Compare does, and has to be called.
func (p *Panel) Evaluate(ctx context.Context, now time.Time) *asking {
	a := &asking{
		reading: newReading(p.ports.Metrics), now: now,
		heard: make([][]Result, len(p.sources)), trials: make([]*trial, len(p.sources)),
	}
	limited, end := context.WithTimeout(ctx, p.config.Timeout())
	a.end = end
	var wg sync.WaitGroup
	for i, s := range p.sources {
		if s.due(now) {
			wg.Go(func() {
				a.heard[i] = p.consult(limited, a, i)
				s.asked = line{endpoint: s.own.endpoint, question: s.own.question}
				s.schedule(now)
			})
		}
	}
	wg.Wait()
	if ctx.Err() == nil { // else the tick was broken off, and they are not to blame
		p.heard = append(p.heard, slices.Concat(a.heard...)...)
	}
	return a
}

// consult reads the windows and asks; whatever goes wrong becomes a verdict. A
// shadow is asked beside the signal, and changes nothing of its opinion.
func (p *Panel) consult(ctx context.Context, a *asking, number int) []Result {
	s := p.sources[number]
	if down := s.own.endpoint.Down; down != "" && (!s.answers() || p.listing.Changed == nil) {
		s.opinion = p.opinionOf(s.signal, s.own.endpoint, a.now)
		s.opinion.Why = down
		return nil
	}
	first := s.own.question
	i, err := p.inquire(ctx, a.reading, s.signal.asked(first), a.now)
	s.short = i.short
	if err != nil {
		s.opinion = p.judge(s.signal, reply{line: s.own, err: err, unasked: true}, a.now)
		return nil
	}
	if s.rival.shadows() {
		t, signal, at := &trial{source: s}, s.signal, s.rival.line
		a.trials[number] = t
		a.shadows.Go(func() { t.reply = p.evaluate(ctx, signal, at, i) })
	}
	return p.listen(s, p.hear(ctx, s, func(q RequestSpec) (inquiry, error) {
		if q.equal(first) {
			return i, nil
		}
		return p.inquire(ctx, a.reading, s.signal.asked(q), a.now)
	}), a.now)
}

// listen makes the opinion of s of what its processes replied.
func (p *Panel) listen(s *source, replies []reply, now time.Time) []Result {
	var heard []Result
	o := p.opinionOf(s.signal, s.own.endpoint, now)
	o.Why = cmp.Or(s.own.endpoint.Down, "its process is gone") // if nobody was asked
	for _, r := range replies {
		o = p.judge(s.signal, r, now)
		s.short = r.short
		if !r.unasked {
			heard = append(heard, heardOf(s.signal, r, o))
		}
	}
	s.opinion = o
	return heard
}

// Compare waits for the shadows, no longer than for a signal, and sets what they
// replied against the opinions of their signals.
func (p *Panel) Compare(ctx context.Context, a *asking) []ShadowRecord {
	a.shadows.Wait()
	a.end()
	var records []ShadowRecord
	for _, t := range a.trials {
		if t == nil {
			continue
		}
		answer, record := p.compareOne(t, a.now)
		records = append(records, record)
		if ctx.Err() == nil {
			p.heard = append(p.heard, answer)
		}
	}
	return records
}

func (p *Panel) compareOne(t *trial, now time.Time) (Result, ShadowRecord) {
	s := t.source
	s.rival.line = t.reply.line
	o := p.judge(s.signal, t.reply, now)
	a := heardOf(s.signal, t.reply, o)
	a.Candidate = true
	answered := o.Verdict != decide.Failed && s.opinion.Verdict != decide.Failed
	valued := o.Verdict == decide.Value || s.opinion.Verdict == decide.Value
	if a.Compared = answered && valued && t.reply.line.question.equal(s.asked.question); a.Compared {
		own := shadow.Answer{Verdict: string(s.opinion.Verdict), Request: s.opinion.Request}
		candidate := shadow.Answer{Verdict: string(o.Verdict), Request: o.Request}
		a.Difference = shadow.Compare(own, candidate, s.rival.tolerance)
	}
	return a, ShadowRecord{
		App: s.signal.App, Opinion: o, Tolerance: s.rival.tolerance, Compared: a.Compared, Difference: a.Difference,
	}
}

func heardOf(s Signal, r reply, o decide.Opinion) Result {
	return Result{
		App: s.App, Version: r.line.endpoint.Version, Address: r.line.endpoint.Address, Group: r.line.endpoint.Group,
		Verdict: o.Verdict, Why: o.Why, Silent: r.silent(),
	}
}

// opinionOf returns an opinion that has failed for no reason yet.
func (p *Panel) opinionOf(s Signal, at Endpoint, now time.Time) decide.Opinion {
	return decide.Opinion{
		Signal: s.Namespace + "/" + s.Name, Version: cmp.Or(at.Version, s.Version), // that runs, else that should
		Verdict: decide.Failed, At: now,
	}
}

// judge makes an opinion of a reply.
func (p *Panel) judge(s Signal, r reply, now time.Time) decide.Opinion {
	o := p.opinionOf(s, r.line.endpoint, now)
	o.Latency = r.latency
	if r.err != nil {
		o.Why = r.err.Error()
		if _, ok := errors.AsType[*staleError](r.err); ok {
			o.Verdict = decide.Stale
		}
		if errors.Is(r.err, context.DeadlineExceeded) && !r.unasked {
			o.Why = fmt.Sprintf("no answer within %v: %v", p.config.Timeout(), r.err)
		}
		return o
	}
	if len(r.response.Unknown) > 0 {
		p.log.Warn("signal answers with unknown keys", "signal", o.Signal, "app", s.App, "keys", r.response.Unknown)
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
