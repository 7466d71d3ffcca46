package simulate

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// The types below are the ports of a world with one process, which never starts again: no other process takes its lease or reads
// what it saves.

type lease struct{}

func (lease) Left() time.Duration { return math.MaxInt64 }
func (lease) Epoch() uint64       { return 1 }

type forgetful struct{}

func (forgetful) Load(context.Context) (apply.Saved, bool, error) { return apply.Saved{}, false, nil }
func (forgetful) Save(context.Context, apply.Saved) error         { return nil }

type records struct{}

func (records) Load(context.Context) ([]api.Drain, error) { return nil, nil }
func (records) Put(context.Context, api.Drain) error      { return nil }
func (records) Delete(context.Context, string) error      { return nil }

// orders are the operators' orders of the events.
type orders struct{ now *api.Orders }

func (o *orders) Read(_ context.Context, now time.Time) (api.Orders, error) {
	if o.now == nil {
		return api.Orders{}, nil
	}
	return o.now.InForce(now), nil
}

func (o *orders) Removed(_ context.Context, node string) error {
	all := *o.now
	all.Removals = nil
	for _, r := range o.now.Removals {
		if r.Node != node {
			all.Removals = append(all.Removals, r)
		}
	}
	o.now = &all
	return nil
}

func (o *orders) Rolled(_ context.Context, group string) error {
	all := *o.now
	all.Stale = nil
	for _, m := range o.now.Stale {
		if m.Group != group {
			all.Stale = append(all.Stale, m)
		}
	}
	o.now = &all
	return nil
}

// directory lists a process for each signal, whose address is the app.
type directory struct{ listing ask.Listing }

func (d directory) Listing() ask.Listing { return d.listing }
func (directory) Report(ask.Report)      {}
func (directory) Alive()                 {}

// direct is a signal that requests what the work of an app needs, as of Delay ago.
type direct struct {
	world *world
	app   string // empty: all
}

func (d direct) Evaluate(context.Context, sigproto.Evaluation) (sigproto.Response, error) {
	s := d.world.scenario
	if s.past != nil {
		return s.past.answer(d.app)
	}
	if d.world.silent {
		return sigproto.Response{}, errSilent
	}
	need := s.Work.Requests(d.world.now.Add(-s.Delay), d.app)
	factor := s.Headroom
	if factor == 0 {
		factor = 1
	}
	return sigproto.Response{Verdict: sigproto.VerdictValue, Resources: resources(need, factor)}, nil
}

func (direct) Close() error { return nil }

var errSilent = errors.New("the scenario lets the signals fail")

// program is a real signal. It receives no request while the scenario lets the signals fail.
type program struct {
	world *world
	Client
}

func (p program) Evaluate(ctx context.Context, e sigproto.Evaluation) (sigproto.Response, error) {
	if p.world.silent {
		return sigproto.Response{}, errSilent
	}
	return p.Client.Evaluate(ctx, e)
}

// schedule is an advisor that is a calendar. Its windows have the newest need of its app.
type schedule struct {
	direct
	spec ask.RequestSpec
}

func (s schedule) Evaluate(ctx context.Context, _ sigproto.Evaluation) (sigproto.Response, error) {
	now := s.world.now
	in := signals.Input{Now: now, Parameters: s.spec.Parameters, Setpoint: s.spec.Setpoint, Metrics: map[string]signals.Series{}}
	need := s.world.scenario.Work.Requests(now.Add(-s.world.scenario.Delay), s.app)
	for _, k := range resource.Kinds() {
		if x, requested := need.Get(k); requested {
			in.Metrics[k.String()+"_expected"] = signals.Series{Times: []int64{now.Unix()}, Values: []float64{x}}
		}
	}
	ctx, explanation := signals.WithExplanation(ctx)
	request, err := builtin.Calendar{}.Value(ctx, in)
	switch {
	case errors.Is(err, signals.ErrNoOpinion):
		return sigproto.Response{Verdict: sigproto.VerdictNoOpinion, Explanation: strings.TrimSuffix(err.Error(), ": "+signals.ErrNoOpinion.Error())}, nil
	case err != nil:
		return sigproto.Response{}, err
	}
	return sigproto.Response{Verdict: sigproto.VerdictValue, Resources: resources(request, 1), Explanation: explanation()}, nil
}

// resources returns a request times a factor, as on the wire.
func resources(r resource.Request, factor float64) (out sigproto.Resources) {
	for k, to := range map[resource.Kind]**float64{resource.CPUs: &out.CPUs, resource.Mem: &out.Mem, resource.Disk: &out.Disk, resource.GPUs: &out.GPUs} {
		if x, requested := r.Get(k); requested {
			*to = new(x * factor)
		}
	}
	return out
}

// unlimited is a Limit under virtual time, in which nothing takes time.
func unlimited(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}
