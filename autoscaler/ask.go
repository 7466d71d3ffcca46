package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// source is one signal between two ticks: its socket and its last answer.
type source struct {
	signal   Signal
	endpoint Endpoint // to which asker leads
	asker    Asker    // nil until first used
	opinion  decide.Opinion
	short    string    // which window of usage it was asked with misses its beginning
	next     time.Time // when it is due
}

// ask brings all opinions up to date, those that are due at the same time.
func (l *Loop) ask(ctx context.Context, now time.Time) {
	r := newReading(l.world.Metrics)
	var wg sync.WaitGroup
	for _, s := range l.sources {
		if s.signal.Name == "" || now.Before(s.next) {
			continue
		}
		l.redial(s)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, l.config.askTimeout())
			defer cancel()
			s.opinion = l.opinion(ctx, r, s, now)
		})
	}
	wg.Wait()
	for _, s := range l.sources {
		if !now.Before(s.next) {
			s.schedule(now)
		}
	}
}

// schedule sets when the signal is due again: after its period, or at the next
// tick if it has no opinion now.
func (s *source) schedule(now time.Time) {
	if s.opinion.Verdict != decide.Value {
		s.next = now
		return
	}
	// A tick that comes a little early still finds the signal due.
	s.next = now.Add(s.signal.Period - s.signal.Period/20)
}

// redial drops the socket of a signal that has moved.
func (l *Loop) redial(s *source) {
	e := l.world.Directory.Endpoint(s.signal.App)
	if s.asker != nil && e.Address == s.endpoint.Address && e.Group == s.endpoint.Group {
		s.endpoint = e
		return
	}
	s.close()
	s.endpoint, s.asker = e, l.world.Dial(e, s.signal)
}

func (s *source) close() {
	if s.asker != nil {
		s.asker.Close()
		s.asker = nil
	}
}

// opinion reads the windows and asks; whatever goes wrong becomes a verdict.
func (l *Loop) opinion(ctx context.Context, r *reading, s *source, now time.Time) decide.Opinion {
	o := decide.Opinion{
		Signal:  s.signal.Namespace + "/" + s.signal.Name,
		Version: s.endpoint.Version,
		Verdict: decide.Failed,
		At:      now,
	}
	if o.Version == "" { // nothing of it runs: the one that should
		o.Version = s.signal.Version
	}
	if s.endpoint.Down != "" {
		o.Why = s.endpoint.Down
		return o
	}
	series, short, err := l.windows(ctx, r, s.signal, now)
	s.short = short
	if err != nil {
		o.Why = err.Error()
		if _, ok := errors.AsType[*staleError](err); ok {
			o.Verdict = decide.Stale
		}
		return o
	}
	began := time.Now()
	response, err := s.asker.Evaluate(ctx, sigproto.Evaluation{Timestamp: now.Unix(), Series: series})
	o.Latency = time.Since(began)
	if err != nil {
		o.Why = err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			o.Why = fmt.Sprintf("no answer within %v: %v", l.config.askTimeout(), err)
		}
		return o
	}
	if len(response.Unknown) > 0 {
		l.log.Warn("signal answers with unknown keys", "signal", o.Signal, "app", s.signal.App, "keys", response.Unknown)
	}
	o.Request = requestOf(response)
	o.Verdict = decide.Value
	if o.Request.IsEmpty() {
		o.Verdict, o.Why = decide.NoOpinion, "every resource is null"
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
