package ask

import (
	"context"
	"errors"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/shadow"
)

// Shadows are the requests of one tick to shadow candidates. They stay open while the loop decides
// and acts.
type Shadows struct{ moment *moment }

// candidateRequest is one request to a candidate, in progress or ended.
type candidateRequest struct {
	signal   Signal
	moment   *moment
	round    *round
	own      *evaluation // the signal's evaluation, to compare with; nil: a probe
	response response    // valid when done is closed
	cancel   context.CancelFunc
	done     chan struct{}
}

// over reports whether the request ended.
func (x *candidateRequest) over() bool { return x != nil && isClosed(x.done) }

// errNoRequest means that the signal itself got no request, so its shadow gets none.
var errNoRequest = errors.New("the signal gets no request")

// shadow sends the first of requests to the shadow of s, beside evaluation e of s.
func (p *Panel) shadow(e *evaluation, s *signalState, requests <-chan request) {
	p.request(&candidateRequest{moment: e.moment, round: e.round, own: e}, s, func(ctx context.Context) (request, error) {
		select {
		case q, ok := <-requests:
			if ok {
				return q, nil
			}
		case <-ctx.Done():
		}
		return request{}, errNoRequest
	})
}

// request starts x, a request to the candidate of s, as soon as prepare returns it. x has the
// client of the candidate until x ends.
func (p *Panel) request(x *candidateRequest, s *signalState, prepare func(context.Context) (request, error)) {
	ctx, cancel := x.moment.context(s.Signal)
	x.signal, x.cancel, x.done = s.Signal, cancel, make(chan struct{})
	to := s.candidate.connection
	s.candidate.client, s.candidate.request = nil, x
	if x.round == nil {
		x.round = x.moment.roundOf(ctx, s.Signal)
	}
	p.running.Go(func() {
		defer p.announce(x)
		defer close(x.done)
		defer cancel()
		q, err := prepare(ctx)
		if err != nil {
			x.response = unsent(to, err)
			return
		}
		limited, end := x.round.ports.Limit(ctx, x.round.config.limit(x.signal))
		defer end()
		x.response = x.round.ports.send(limited, to, q)
	})
}

// announce reports the end of a probe that Follow may not have waited for.
func (p *Panel) announce(x *candidateRequest) {
	if x.own == nil && !x.response.unsent && x.round.config.outlasts(x.signal) {
		select {
		case p.probed <- struct{}{}:
		default: // the Follow that is due handles this probe too
		}
	}
}

// compare compares the finished responses of the shadows whose signal has its opinion.
func (p *Panel) compare() (results []Result, records []api.ShadowRecord) {
	for _, s := range p.signals {
		x := s.candidate.request
		if !x.over() || x.own == nil || s.inProgress == x.own {
			continue
		}
		s.candidate.takeBack()
		if !x.response.unsent {
			result, record := x.compare(s.candidate.tolerance)
			results, records = append(results, result), append(records, record)
		}
	}
	return results, records
}

func (x *candidateRequest) compare(tolerance float64) (Result, api.ShadowRecord) {
	o, own := x.round.opinion(x.signal, x.response), x.own.opinion
	result := resultOf(x.signal, x.response, o)
	result.Candidate = true
	responded := o.Verdict != api.VerdictFailed && own.Verdict != api.VerdictFailed
	valued := o.Verdict == api.VerdictValue || own.Verdict == api.VerdictValue
	if result.Compared = responded && valued && x.response.spec.equal(x.own.own.spec); result.Compared {
		result.Difference = shadow.Compare(
			shadow.Response{Verdict: string(own.Verdict), Request: own.Request},
			shadow.Response{Verdict: string(o.Verdict), Request: o.Request}, tolerance)
	}
	return result, api.ShadowRecord{
		App: x.signal.App, Opinion: o, Tolerance: tolerance, Compared: result.Compared, Difference: result.Difference,
	}
}
