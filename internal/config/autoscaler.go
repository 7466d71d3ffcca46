package config

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// defaultPeriod is the period of a signal whose file names none.
const defaultPeriod = 10 * time.Minute

// holdPeriods is how many of its periods an app's last good answer may stand in.
const holdPeriods = 3

// defaultOrphan is how long a machine may be up without its node having joined.
const defaultOrphan = 1800

// defaultLease is how long a pool's lease lasts after its last renewal.
const defaultLease = 15 * time.Second

// longestCall bounds each call that changes something; callsInLease is how many of
// them a lease outlasts.
const (
	longestCall  = 5 * time.Second
	callsInLease = 3
)

// longestScaleInUptime caps min_node_scalein_uptime_seconds, as Clusterman does.
const longestScaleInUptime = 900

// Autoscaler returns the loop that the two files describe. Both are valid.
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
		Drain:   Drain(p),
		Drift:   autoscaler.Drift(firstOf(p.Autoscaling.Drift, s.Autoscaling.Drift, DriftObey)),

		OrphansAfter: time.Duration(orphan) * time.Second,
		Default: ask.Signal{
			App: sigproto.DefaultApp, Namespace: defaultRole(s, p), Name: s.AutoscaleSig.Name, Version: s.AutoscaleSig.Pin(),
			Period: s.AutoscaleSig.Every(defaultPeriod), TimeLimit: s.AutoscaleSig.TimeLimit, Windows: windows(s.AutoscaleSig.Metrics),
			Parameters: s.AutoscaleSig.Parameters,
		},
	}
	for _, signal := range p.Signals {
		period := signal.Every(defaultPeriod)
		if signal.Name == "" { // the default signal's app, and asked with it
			period = c.Default.Period
		}
		c.Apps = append(c.Apps, ask.Signal{
			App: signal.App, Namespace: signal.Namespace, Name: signal.Name, Version: signal.Pin(),
			Period: period, TimeLimit: signal.TimeLimit, HoldFor: signal.hold(period),
			MaxRequest: signal.MaxRequest.request(), Windows: windows(signal.Metrics), Parameters: signal.Parameters,
		})
	}
	c.Tick = firstOf(p.Autoscaling.Tick, s.Autoscaling.Tick, c.Policy.Period)
	if lease := Lease(s, p); lease < callsInLease*longestCall {
		c.CallTimeout = lease / callsInLease
	}
	return c
}

// Lease is how long the pool's lease lasts after its last renewal: so long at least
// nobody else takes over from a holder that is silent.
func Lease(s Service, p Pool) time.Duration {
	return firstOf(p.Autoscaling.Lease, s.Autoscaling.Lease, defaultLease)
}

// hold is how long the app's last good answer may stand in.
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

// either returns what the pool's file says or, if it says nothing, the service's.
func either[T any](s Service, p Pool, choose func(Autoscaling) *T) *T {
	if x := choose(p.Autoscaling); x != nil {
		return x
	}
	return choose(s.Autoscaling)
}

func pruneLimits(s Service, p Pool) plan.Limits {
	l := plan.Limits{
		MaxWeight: float64(*p.Limits.MaxRemove), MaxTasks: p.Limits.MaxTasks.N,
		MinUptime: time.Duration(min(p.Limits.MinUptimeS, longestScaleInUptime)) * time.Second,
	}
	if p.Limits.MaxTasks.Unlimited {
		l.MaxTasks = pools.Unlimited
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

func policy(s Service, p Pool) decide.Policy {
	margin := *either(s, p, func(a Autoscaling) *float64 { return a.Margin })
	d := decide.Policy{
		Setpoint:   *either(s, p, func(a Autoscaling) *float64 { return a.Setpoint }),
		MarginUp:   margin,
		MarginDown: margin,
		Combine:    decide.Sum,
		Limits: decide.Limits{
			Min: float64(*p.Limits.Min), Max: float64(*p.Limits.Max),
			MaxAdd: float64(*p.Limits.MaxAdd), MaxRemove: float64(*p.Limits.MaxRemove),
		},
		Period: shortestPeriodOf(s, p),
		Cooldown: decide.Cooldown{
			Up:   firstOf(p.Autoscaling.Cooldown.Up, s.Autoscaling.Cooldown.Up),
			Down: firstOf(p.Autoscaling.Cooldown.Down, s.Autoscaling.Cooldown.Down),
		},
		IgnoranceMax:  firstOf(p.Autoscaling.IgnoranceMax, s.Autoscaling.IgnoranceMax),
		LossThreshold: firstOf(p.Autoscaling.LossThreshold, s.Autoscaling.LossThreshold),
	}
	if x := either(s, p, func(a Autoscaling) *bool { return a.LossBrake }); x != nil {
		d.LossBrake = *x
	}
	if x := either(s, p, func(a Autoscaling) *float64 { return a.MarginUp }); x != nil {
		d.MarginUp = *x
	}
	if x := either(s, p, func(a Autoscaling) *float64 { return a.MarginDown }); x != nil {
		d.MarginDown = *x
	}
	if c := firstOf(p.Autoscaling.Combine, s.Autoscaling.Combine); c != "" {
		d.Combine = decide.Combine(c)
	}
	budgets, excluded := p.Autoscaling.Budgets, p.Autoscaling.Excluded
	if budgets == nil {
		budgets = s.Autoscaling.Budgets
	}
	for _, b := range budgets {
		d.Budgets = append(d.Budgets, decide.Budget{
			Direction: decide.Direction(b.Direction), Within: b.Within, Weight: b.AtMost.Weight, Share: b.AtMost.Share,
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

func windows(list []Metric) []ask.Window {
	var out []ask.Window
	for _, m := range list {
		out = append(out, ask.Window{
			Name: m.Name, Type: metrics.Type(m.Type), App: m.App, Regex: m.Regex,
			Range: m.Window(), MaxAge: m.Age(),
		})
	}
	return out
}

// firstOf returns the first that is not zero.
func firstOf[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}

// Bootstrap returns the processes that the two files ask for.
func Bootstrap(s Service, p Pool) bootstrap.Plan {
	loop := Autoscaler(s, p)
	plan := bootstrap.Plan{Cluster: p.Cluster, Pool: p.Name, Tick: loop.Tick}
	standIn := bootstrap.NewSignalPlan(sigproto.DefaultApp, loop.Default.Namespace, loop.Default.Name, loop.Default.Version)
	if standIn.Shipped() {
		standIn.Kind = bootstrap.KindPlugin
	}
	standIn.Question, standIn.TimeLimit = encodeRequestSpec(loop.Default), loop.Default.TimeLimit
	standIn.Limits, standIn.Environment = s.AutoscaleSig.Limits.limits(), variables(s.AutoscaleSig.Environment)
	plan.Signals = append(plan.Signals, standIn)
	for i, signal := range p.Signals {
		if signal.Name == "" {
			continue
		}
		one := signal.plan()
		one.Question, one.TimeLimit = encodeRequestSpec(loop.Apps[i]), loop.Apps[i].TimeLimit
		plan.Signals = append(plan.Signals, one)
	}
	return plan
}

// encodeRequestSpec returns the request of a signal as JSON. It travels to the
// autoscaler beside the address of the signal.
func encodeRequestSpec(s ask.Signal) string {
	text, err := json.Marshal(ask.RequestSpec{Windows: s.Windows, Parameters: s.Parameters})
	if err != nil {
		return "" // Validate has encoded the parameters; without it, those of the files count
	}
	return string(text)
}

// DecodeRequestSpec decodes what encodeRequestSpec encoded. Of an empty text it is nil.
func DecodeRequestSpec(text string) (*ask.RequestSpec, error) {
	if text == "" {
		return nil, nil
	}
	var spec ask.RequestSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return nil, fmt.Errorf("read what a signal is asked with: %w", err)
	}
	return &spec, nil
}

// Drain returns how long the pool's nodes may take to leave.
func Drain(p Pool) drain.Config {
	return drain.Config{Threshold: time.Duration(p.Draining.ThresholdS) * time.Second, Force: p.Draining.Force}
}
