package builtin

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
)

// Shipped is a signal that weir ships. Name is used in files and commands.
type Shipped struct {
	Name   string
	Signal signals.Signal
}

// All returns the shipped signals, sorted by name.
func All() []Shipped {
	return []Shipped{
		{"calendar", Calendar{}},
		{"default", Default{}},
		{"forecast", &Forecast{}},
		{"instance_count", InstanceCount{}},
		{"pending", Pending{}},
	}
}

// Names returns the sorted names of all signals.
func Names() []string {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return names
}

// Named returns the signal with a name.
func Named(name string) (signals.Signal, error) {
	for _, s := range All() {
		if s.Name == name {
			return s.Signal, nil
		}
	}
	return nil, fmt.Errorf("no signal %q is built in: want one of %s", name, strings.Join(Names(), ", "))
}

// Default requests the recent allocation of cpus, mem and disk:
//
//	request = headroom * max(window of {kind}_allocated)
//
// It follows Clusterman's default signal. Because of the maximum, a short dip does not shrink the pool. The window's
// range defines how long demand must be lower before the request falls. The parameter headroom is a factor above 0, by
// default 1.
type Default struct{}

// Value implements [signals.Signal].
func (Default) Value(ctx context.Context, in signals.Input) (resource.Request, error) {
	return answer(ctx, in, func(k resource.Kind) (need, error) {
		name := k.String() + "_allocated"
		x, ok := in.Metrics[name].Max()
		return need{value: x, why: fmt.Sprintf("max(%s) = %.6g", name, x), known: ok}, nil
	})
}

// InstanceCount requests the resources of the expected instances, for cpus, mem and disk:
//
//	request = max(min_{kind}, headroom * last(window of {kind}_expected))
//
// The harmonizer writes these metrics: for each app, the number of expected instances times the resources of one, and
// without an app their sum over the pool. It writes no point while the counts are unknown, so the last point is valid.
//
// If the parameter app is set, only that app counts: its window is {kind}_expected|app=NAME. Otherwise the pool's sum
// counts or, if there are only windows of a single app, that app's. The parameter headroom is a factor above 0, by
// default 1. min_cpus, min_mem and min_disk are lower bounds of the request for a known kind, by default 0.
type InstanceCount struct{}

// Value implements [signals.Signal].
func (InstanceCount) Value(ctx context.Context, in signals.Input) (resource.Request, error) {
	app, err := in.Parameters.String("app", "")
	if err != nil {
		return resource.Request{}, err
	}
	return answer(ctx, in, func(k resource.Kind) (need, error) {
		name, err := expected(in, k, app)
		if err != nil {
			return need{}, err
		}
		least, err := in.Parameters.Float("min_"+k.String(), 0)
		if err != nil {
			return need{}, err
		}
		if !(least >= 0) || math.IsInf(least, 0) {
			return need{}, fmt.Errorf("parameter \"min_%s\" is %v, want a number of at least 0", k, least)
		}
		x, ok := in.Metrics[name].Last()
		return need{value: x, least: least, why: fmt.Sprintf("last(%s) = %.6g", name, x), known: ok}, nil
	})
}

// expected returns the key of the window for a kind.
func expected(in signals.Input, k resource.Kind, app string) (string, error) {
	pool := k.String() + "_expected"
	if app != "" {
		return pool + "|app=" + app, nil
	}
	if _, ok := in.Metrics[pool]; ok {
		return pool, nil
	}
	var keys []string
	for key := range maps.Keys(in.Metrics) {
		if strings.HasPrefix(key, pool+"|app=") {
			keys = append(keys, key)
		}
	}
	switch len(keys) {
	case 0:
		return pool, nil
	case 1:
		return keys[0], nil
	}
	slices.Sort(keys)
	return "", fmt.Errorf(`windows of %d apps but not of the pool, the first is %s: name an app in the parameter "app"`, len(keys), keys[0])
}

// Pending requests the allocation plus a multiple of the pending requests, for cpus, mem and disk:
//
//	request = headroom * (last({kind}_allocated) + pending_multiplier * last({kind}_pending))
//
// It is Clusterman's PendingPods, version 1. Both values are current, so the last points count. The placer or another
// scheduler writes {kind}_pending, including zeros. Without a point of both, the need for that kind is unknown. The
// parameters are factors above 0: pending_multiplier by default 2, headroom by default 1.
type Pending struct{}

// Value implements [signals.Signal].
func (Pending) Value(ctx context.Context, in signals.Input) (resource.Request, error) {
	multiplier, err := factor(in, "pending_multiplier", 2)
	if err != nil {
		return resource.Request{}, err
	}
	return answer(ctx, in, func(k resource.Kind) (need, error) {
		allocated, known := in.Metrics[k.String()+"_allocated"].Last()
		pending, knownToo := in.Metrics[k.String()+"_pending"].Last()
		why := fmt.Sprintf("(%.6g allocated + %.6g * %.6g pending)", allocated, multiplier, pending)
		return need{value: allocated + multiplier*pending, why: why, known: known && knownToo}, nil
	})
}
