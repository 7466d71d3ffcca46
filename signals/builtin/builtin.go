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

// Shipped is a signal that weir ships, with its name in the files and commands.
type Shipped struct {
	Name   string
	Signal signals.Signal
}

// All returns the shipped signals, in order of name.
func All() []Shipped {
	return []Shipped{
		{"default", Default{}},
		{"instance_count", InstanceCount{}},
		{"pending", Pending{}},
	}
}

// Names returns the names of all signals, in order.
func Names() []string {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return names
}

// Named returns the signal of that name.
func Named(name string) (signals.Signal, error) {
	for _, s := range All() {
		if s.Name == name {
			return s.Signal, nil
		}
	}
	return nil, fmt.Errorf("no signal %q is built in: want one of %s", name, strings.Join(Names(), ", "))
}

// Default asks for what was allocated lately: for cpus, mem and disk
//
//	request = headroom * max(window of {kind}_allocated)
//
// It follows Clusterman's default signal, which asks for the recent allocation.
// The maximum over the window lets a short dip not shrink the pool; the window's
// range says how long demand must be lower before it does. The parameter headroom
// is a factor above 0, by default 1.
type Default struct{}

// Value implements [signals.Signal].
func (Default) Value(ctx context.Context, in signals.Input) (resource.Request, error) {
	return answer(ctx, in, func(k resource.Kind) (need, error) {
		name := k.String() + "_allocated"
		x, ok := in.Metrics[name].Max()
		return need{value: x, why: fmt.Sprintf("max(%s) = %.6g", name, x), known: ok}, nil
	})
}

// InstanceCount asks for what applications should have running: for cpus, mem and
// disk
//
//	request = max(min_{kind}, headroom * last(window of {kind}_expected))
//
// The harmonizer writes these metrics: the expected instances of each app times
// the footprint of one, and under the bare name their sum over the pool. It writes
// nothing while it does not know the counts, so a last point is a known one.
//
// The parameter app names one app, of which alone is asked: its window is
// {kind}_expected|app=NAME. Without it the pool's sum is taken or, if the windows
// are of a single app, that app's. The parameter headroom is a factor above 0, by
// default 1; min_cpus, min_mem and min_disk are what is asked for at least of a
// kind that is known, by default 0.
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

// expected returns the key of the window that tells of a kind.
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
	return "", fmt.Errorf(`windows of %d apps and none of the pool, the first is %s: name an app in the parameter "app"`, len(keys), keys[0])
}

// Pending asks for what is allocated and, doubled, for what waits for room: for
// cpus, mem and disk
//
//	request = headroom * (last({kind}_allocated) + pending_multiplier * last({kind}_pending))
//
// It is Clusterman's PendingPods, version 1: the sum of the pending requests times
// a multiplier, plus the allocation. Both are of now, so the last points count.
// The placer or whoever schedules writes {kind}_pending, zero too; without a point
// of both, it is unknown what is needed of that kind. The parameters are factors
// above 0: pending_multiplier by default 2, headroom by default 1.
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
