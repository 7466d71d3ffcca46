package config

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// defaultPeriod is the period of a signal without a period in its file.
const defaultPeriod = 10 * time.Minute

// holdPeriods is how many periods an app's last value stays usable.
const holdPeriods = 3

// advisorPeriods is how many periods an advisor's last value counts: until the next one is due, and held for one period more.
const advisorPeriods = 2

// defaultOrphan is how long an instance may run before its node joins, in seconds.
const defaultOrphan = 1800

// defaultFailedBoots is how many machines in a row may fail to join.
const defaultFailedBoots = 3

// defaultInterruptedWork is how much work a copy repeats after an interruption.
const defaultInterruptedWork = time.Hour

// defaultGrace is how long a pool does not shrink after a part of its files left or changed.
const defaultGrace = 5 * time.Minute

// longestCall bounds each call that changes something. A lease outlasts callsInLease such calls.
const (
	longestCall  = 5 * time.Second
	callsInLease = 3
)

// longestScaleInUptime caps min_node_scalein_uptime_seconds, in seconds, as in Clusterman.
const longestScaleInUptime = 900

// Autoscaler returns the loop's configuration from two valid files.
func Autoscaler(s Service, p Pool) autoscaler.Config {
	orphan := defaultOrphan
	if x := either(s, p, func(a Autoscaling) *int { return a.OrphanS }); x != nil {
		orphan = *x
	}
	c := autoscaler.Config{
		Cluster: p.Cluster,
		Pool:    p.Name,
		Policy:  policy(s, p),
		Prune:   pruneLimits(s, p),
		Drain:   drainConfig(p),
		Drift:   autoscaler.Drift(firstOf(p.Autoscaling.Drift, s.Autoscaling.Drift, driftObey)),

		OrphansAfter: time.Duration(orphan) * time.Second,
		Machines:     p.machines(),
		FailedBoots:  orElse(either(s, p, func(a Autoscaling) *int { return a.FailedBoots }), defaultFailedBoots),
		Headroom:     p.headroom(),
		Windows:      p.Windows.Calendar(),
		Rotation:     p.Rotation.autoscaler(time.Duration(orphan) * time.Second),
		Grace:        orElse(either(s, p, func(a Autoscaling) *time.Duration { return a.ConfigurationGrace }), defaultGrace),
		IgnorePlaces: !orElse(either(s, p, func(a Autoscaling) *bool { return a.Places }), true),
		Default: ask.Signal{
			App: sigproto.DefaultApp, Namespace: defaultRole(s, p), Name: s.AutoscaleSig.Name, Version: s.AutoscaleSig.Pin(),
			Period: s.AutoscaleSig.Every(defaultPeriod), TimeLimit: s.AutoscaleSig.TimeLimit, Windows: windows(s, s.AutoscaleSig.Metrics),
			Parameters: s.AutoscaleSig.Parameters, Setpoint: setpoint(s, p),
		},
	}
	for _, signal := range p.Signals {
		one := signal.evaluated(s, c.Default)
		one.HoldFor = signal.hold(one.Period)
		for _, a := range signal.advisors() {
			advisor := a.evaluated(s, c.Default)
			advisor.HoldFor = advisorPeriods * advisor.Period
			one.Raise = append(one.Raise, advisor)
		}
		c.Apps = append(c.Apps, one)
	}
	c.Tick = tickOf(s, p)
	if lease := Lease(s, p); lease != 0 && lease < callsInLease*longestCall {
		c.CallTimeout = lease / callsInLease
	}
	return c
}

// evaluated returns how the loop evaluates a signal or an advisor.
func (s Signal) evaluated(service Service, standby ask.Signal) ask.Signal {
	period := s.Every(defaultPeriod)
	if s.Name == "" { // the app uses the default signal and is evaluated with it
		period = standby.Period
	}
	one := ask.Signal{
		App: s.App, Namespace: s.Namespace, Name: s.Name, Version: s.Pin(), Period: period, TimeLimit: s.TimeLimit,
		MaxRequest: s.MaxRequest.request(), Windows: windows(service, s.Metrics), Parameters: s.Parameters, Setpoint: standby.Setpoint,
	}
	for i := range one.Windows { // at_least of a calendar needs none
		one.Windows[i].Optional = s.isCalendar()
	}
	return one
}

// Lease returns the lifetime of the pool's lease after a renewal. No other process takes over from a silent holder
// before it ends. 0: the files lack it, so the default of the lease applies, which is at least 15 s.
func Lease(s Service, p Pool) time.Duration {
	return firstOf(p.Autoscaling.Lease, s.Autoscaling.Lease)
}

// hold returns how long the app's last value stays usable.
func (s Signal) hold(period time.Duration) time.Duration {
	return firstOf(s.HoldFor, holdPeriods*period)
}

// shortestPeriodOf returns the shortest period of the pool's signals.
func shortestPeriodOf(s Service, p Pool) time.Duration {
	shortest := s.AutoscaleSig.Every(defaultPeriod)
	for _, signal := range p.Signals {
		if signal.Name != "" {
			shortest = min(shortest, signal.Every(defaultPeriod))
		}
	}
	return shortest
}

// tickOf returns the tick of a pool. The files may have mistakes in other values. Advisors count here only: the period of the
// limits is that of the signals, so that an advisor cannot shorten it.
func tickOf(s Service, p Pool) time.Duration {
	shortest := shortestPeriodOf(s, p)
	for _, signal := range p.Signals {
		for _, a := range signal.Raise {
			shortest = min(shortest, a.Every(defaultPeriod))
		}
	}
	return firstOf(p.Autoscaling.Tick, s.Autoscaling.Tick, shortest)
}

// either returns the value from the pool's file or, if it is missing, from the service file.
func either[T any](s Service, p Pool, choose func(Autoscaling) *T) *T {
	if x := choose(p.Autoscaling); x != nil {
		return x
	}
	return choose(s.Autoscaling)
}

func pruneLimits(s Service, p Pool) api.PruneLimits {
	l := api.PruneLimits{
		MaxWeight: float64(*p.Limits.MaxRemove), MaxTasks: p.Limits.MaxTasks.N,
		MinUptime: time.Duration(min(p.Limits.MinUptimeS, longestScaleInUptime)) * time.Second,
	}
	if p.Limits.MaxTasks.Unlimited {
		l.MaxTasks = api.Unbounded
	}
	if x := either(s, p, func(a Autoscaling) *bool { return a.ByPriority }); x != nil {
		l.ByPriority = *x
	}
	return l
}

// defaultRole is the namespace of the default signal.
func defaultRole(s Service, p Pool) string {
	return firstOf(p.Autoscaling.DefaultSignalRole, s.Autoscaling.DefaultSignalRole)
}

func setpoint(s Service, p Pool) float64 {
	return *either(s, p, func(a Autoscaling) *float64 { return a.Setpoint })
}

func policy(s Service, p Pool) api.DecisionPolicy {
	margin := *either(s, p, func(a Autoscaling) *float64 { return a.Margin })
	d := api.DecisionPolicy{
		Setpoint:   setpoint(s, p),
		MarginUp:   margin,
		MarginDown: margin,
		Combine:    api.CombineSum,
		Limits: api.TargetLimits{
			Min: float64(*p.Limits.Min), Max: float64(*p.Limits.Max),
			MaxAdd: float64(*p.Limits.MaxAdd), MaxRemove: float64(*p.Limits.MaxRemove),
		},
		Period: shortestPeriodOf(s, p),
		Cooldown: api.Cooldown{
			Up:   firstOf(p.Autoscaling.Cooldown.Up, s.Autoscaling.Cooldown.Up),
			Down: firstOf(p.Autoscaling.Cooldown.Down, s.Autoscaling.Cooldown.Down),
		},
		UnknownNeedMax: firstOf(p.Autoscaling.IgnoranceMax, s.Autoscaling.IgnoranceMax),
		LossThreshold:  firstOf(p.Autoscaling.LossThreshold, s.Autoscaling.LossThreshold),
	}
	if x := either(s, p, func(a Autoscaling) *bool { return a.LossBrake }); x != nil {
		d.LossLimit = *x
	}
	if x := either(s, p, func(a Autoscaling) *float64 { return a.MarginUp }); x != nil {
		d.MarginUp = *x
	}
	if x := either(s, p, func(a Autoscaling) *float64 { return a.MarginDown }); x != nil {
		d.MarginDown = *x
	}
	d.MaxShare = orElse(either(s, p, func(a Autoscaling) *float64 { return a.MaxShare }), 0)
	work := either(s, p, func(a Autoscaling) *time.Duration { return a.InterruptedWork })
	d.InterruptedWork = orElse(work, 0)
	if firstOf(p.Autoscaling.Distribution, s.Autoscaling.Distribution) == api.DistributeCheapest {
		d.Distribution, d.InterruptedWork = api.DistributeCheapest, orElse(work, defaultInterruptedWork)
	}
	if c := firstOf(p.Autoscaling.Combine, s.Autoscaling.Combine); c != "" {
		d.Combine = api.Combine(c)
	}
	budgets, excluded := p.Autoscaling.Budgets, p.Autoscaling.Excluded
	if budgets == nil {
		budgets = s.Autoscaling.Budgets
	}
	for _, b := range budgets {
		d.Budgets = append(d.Budgets, api.ChangeBudget{
			Direction: api.Direction(b.Direction), Within: b.Within, Weight: b.AtMost.Weight, Share: b.AtMost.Share,
		})
	}
	if excluded == nil {
		excluded = s.Autoscaling.Excluded
	}
	for _, name := range excluded {
		kind, _ := resource.ParseKind(name) // Validate has parsed it
		d.Excluded = append(d.Excluded, kind)
	}
	return d
}

func windows(s Service, list []Metric) []ask.Window {
	var out []ask.Window
	for _, m := range list {
		q := s.query(m)
		out = append(out, ask.Window{
			Source: m.Source, Query: q.Text, Step: q.Step, Lag: q.Lag, Whole: q.Whole,
			Name: m.Name, Type: metrics.Type(m.Type), App: m.App, Regex: m.Regex,
			Range: m.Window(), MaxAge: m.Age(), Resolution: m.Resolution,
		})
	}
	return out
}

// firstOf returns the first value that is not zero.
func firstOf[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}

// Bootstrap returns the bootstrap plan of the two files.
func Bootstrap(s Service, p Pool) bootstrap.Plan {
	loop := Autoscaler(s, p)
	plan := bootstrap.Plan{Cluster: p.Cluster, Pool: p.Name, Tick: loop.Tick}
	fallbackSignal := bootstrap.NewSignalPlan(sigproto.DefaultApp, loop.Default.Namespace, loop.Default.Name, loop.Default.Version)
	if fallbackSignal.Shipped() {
		fallbackSignal.Kind = api.KindPlugin
	}
	fallbackSignal.RequestConfig, fallbackSignal.TimeLimit = encodeRequestSpec(loop.Default), loop.Default.TimeLimit
	fallbackSignal.Limits, fallbackSignal.Environment = s.AutoscaleSig.Limits.limits(), variables(s.AutoscaleSig.Environment)
	plan.Signals = append(plan.Signals, fallbackSignal)
	for _, signal := range p.each() {
		if signal.Name == "" {
			continue
		}
		one := signal.plan()
		one.RequestConfig, one.TimeLimit = encodeRequestSpec(signal.evaluated(s, loop.Default)), signal.TimeLimit
		plan.Signals = append(plan.Signals, one)
	}
	return plan
}

// encodeRequestSpec returns the request of a signal as JSON. It travels to the autoscaler together with the signal's
// address.
func encodeRequestSpec(s ask.Signal) string {
	text, err := json.Marshal(s.Spec())
	if err != nil {
		return "" // Validate has encoded the parameters; an empty text means those of the files
	}
	return string(text)
}

// DecodeRequestSpec reverses encodeRequestSpec. For an empty text it returns nil.
func DecodeRequestSpec(text string) (*ask.RequestSpec, error) {
	if text == "" {
		return nil, nil
	}
	var spec ask.RequestSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return nil, fmt.Errorf("decode request of a signal: %w", err)
	}
	return &spec, nil
}

// drainConfig returns the drain configuration of the pool's nodes.
func drainConfig(p Pool) drain.Config {
	return drain.Config{Threshold: time.Duration(p.Draining.ThresholdS) * time.Second, Force: p.Draining.Force}
}
