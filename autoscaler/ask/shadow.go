package ask

import (
	"context"
	"sync"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/shadow"
)

// Shadows are the requests of one round to shadow candidates. They stay open while
// the loop decides and acts.
type Shadows struct {
	round  *round
	trials []*trial // by signal; nil: no request to a shadow
	open   sync.WaitGroup
	end    context.CancelFunc // of all requests of the round
}

// trial is one request to a shadow.
type trial struct {
	signal   *signalState
	response response // when open is done
}

// start sends to the shadow of signal number i, if it has one, the request that the
// signal gets.
func (s *Shadows) start(ctx context.Context, i int, signal *signalState, q request) {
	if !signal.candidate.shadows() {
		return
	}
	t, to := &trial{signal: signal}, signal.candidate.connection
	s.trials[i] = t
	s.open.Go(func() { t.response = s.round.ports.send(ctx, to, q) })
}

// compare waits for the responses, and compares them with those of the signals.
func (s *Shadows) compare() (results []Result, records []ShadowRecord) {
	s.open.Wait()
	s.end()
	for _, t := range s.trials {
		if t != nil {
			result, record := t.compare(s.round)
			results, records = append(results, result), append(records, record)
		}
	}
	return results, records
}

// ShadowRecord is the opinion of a shadow candidate in a tick, and how it differs from
// the opinion of its app's signal, which is in the Case. No rule reads it.
type ShadowRecord struct {
	App string `json:"app"`
	decide.Opinion
	Tolerance float64 `json:"tolerance"` // as a fraction of the signal's own response
	// Compared: as of a Result.
	Compared   bool   `json:"compared,omitempty"`
	Difference string `json:"difference,omitempty"` // as of shadow.Compare; empty if they agree
}

func (t *trial) compare(r *round) (Result, ShadowRecord) {
	s := t.signal
	s.candidate.connection = t.response.connection
	o := r.opinion(s.Signal, t.response)
	result := resultOf(s.Signal, t.response, o)
	result.Candidate = true
	responded := o.Verdict != decide.Failed && s.opinion.Verdict != decide.Failed
	valued := o.Verdict == decide.Value || s.opinion.Verdict == decide.Value
	if result.Compared = responded && valued && t.response.spec.equal(s.evaluated.spec); result.Compared {
		own := shadow.Answer{Verdict: string(s.opinion.Verdict), Request: s.opinion.Request}
		candidate := shadow.Answer{Verdict: string(o.Verdict), Request: o.Request}
		result.Difference = shadow.Compare(own, candidate, s.candidate.tolerance)
	}
	return result, ShadowRecord{
		App: s.App, Opinion: o, Tolerance: s.candidate.tolerance, Compared: result.Compared, Difference: result.Difference,
	}
}
