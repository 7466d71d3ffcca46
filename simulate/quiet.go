package simulate

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/signals/forecast"
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

// The advisors that a simulation evaluates.
const (
	nameCalendar = "calendar"
	nameForecast = "forecast"
)

// advises reports whether a simulation evaluates an advisor. The shipped ones know the work, and have no Windows.
func advises(a ask.Signal) bool {
	return a.Version == "" && (a.Name == nameCalendar || a.Name == nameForecast)
}

// WithoutReleases returns a policy without the advisors that a simulation cannot evaluate, and a text about each of those.
func WithoutReleases(p Policy) (_ Policy, left []string) {
	p.Apps = slices.Clone(p.Apps)
	for i := range p.Apps {
		p.Apps[i].Raise = slices.DeleteFunc(slices.Clone(p.Apps[i].Raise), func(a ask.Signal) bool {
			if !advises(a) {
				left = append(left, a.App+" is "+a.Namespace+"/"+a.Name)
			}
			return !advises(a)
		})
	}
	return p, left
}

// advisor is a shipped advisor of an app.
type advisor struct {
	direct
	signal signals.Signal
	name   string // APP~NAME
	spec   ask.RequestSpec
}

func (a advisor) Evaluate(ctx context.Context, e sigproto.Evaluation) (sigproto.Response, error) {
	if a.world.silent {
		return sigproto.Response{}, errSilent
	}
	pool := a.world.scenario.Pool
	return signals.Answer(ctx, a.signal, a.name, sigproto.Hello{
		Cluster: pool.Cluster, Pool: pool.Pool, Parameters: a.spec.Parameters, Setpoint: a.spec.Setpoint, Launch: a.spec.Launch,
	}, e)
}

// schedule is a calendar. Its windows have the newest need of its app.
type schedule struct{ advisor }

func (s schedule) Evaluate(ctx context.Context, e sigproto.Evaluation) (sigproto.Response, error) {
	of, now := s.world.scenario, s.world.now
	need := of.Work.Requests(now.Add(-of.Delay), s.app)
	for _, k := range resource.Kinds() {
		if x, requested := need.Get(k); requested {
			e.Series = append(e.Series, sigproto.Series{Name: k.String() + "_expected", Times: []int64{now.Unix()}, Values: []float64{x}})
		}
	}
	return s.advisor.Evaluate(ctx, e)
}

// forecaster is a forecast. Its metric is the need of its app, in its unit, from History on. It answers anew when the need of a slot is
// known.
type forecaster struct {
	advisor
	slots  signals.Series
	answer *sigproto.Response // the latest
}

func (f *forecaster) Evaluate(ctx context.Context, e sigproto.Evaluation) (sigproto.Response, error) {
	p, err := builtin.DecodeForecast(f.spec.Parameters)
	if err != nil || f.world.silent {
		return sigproto.Response{}, cmp.Or(err, errSilent)
	}
	if grown := f.grow(p.Unit); grown || f.answer == nil {
		e.Series = []sigproto.Series{{Name: cmp.Or(p.Metric, "need"), Times: f.slots.Times, Values: f.slots.Values}}
		answer, err := f.advisor.Evaluate(ctx, e)
		if err != nil {
			return answer, err
		}
		f.answer = &answer
	}
	return *f.answer, nil
}

// grow adds the slots whose need is known now, and reports whether there is one.
func (f *forecaster) grow(unit resource.Request) (grown bool) {
	s := f.world.scenario
	known := f.world.now.Add(-s.Delay)
	next := maxTime(cmp.Or(s.History, s.Start), s.Start.Add(-forecast.MostHistory)).Truncate(forecast.Step)
	if n := len(f.slots.Times); n > 0 {
		next = time.Unix(f.slots.Times[n-1], 0).Add(forecast.Step)
	}
	for ; !next.Add(forecast.Step).After(known); next = next.Add(forecast.Step) {
		const parts = 5
		mean := 0.0
		for i := range parts {
			need, highest := s.Work.Requests(next.Add(forecast.Step*time.Duration(2*i+1)/(2*parts)), f.app), 0.0
			for _, k := range resource.Kinds() {
				if one, counts := unit.Get(k); counts {
					x, _ := need.Get(k)
					highest = max(highest, x/one)
				}
			}
			mean += highest / parts
		}
		f.slots.Times, f.slots.Values, grown = append(f.slots.Times, next.Unix()), append(f.slots.Values, mean), true
	}
	old := max(0, len(f.slots.Times)-int(forecast.MostHistory/forecast.Step))
	f.slots.Times, f.slots.Values = f.slots.Times[old:], f.slots.Values[old:]
	return grown
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
