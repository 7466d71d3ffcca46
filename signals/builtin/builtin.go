package builtin

import (
	"context"
	"fmt"
	"math"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
)

// Default asks for what was allocated lately: for cpus, mem and disk
//
//	request = headroom * max(window of cpus_allocated, mem_allocated, disk_allocated)
//
// It follows Clusterman's default signal, which asks for the recent allocation.
// The maximum over the window lets a short dip not shrink the pool; the window's
// range says how long demand must be lower before it does. An empty window has
// no opinion on its kind, and there is none on gpus. The parameter headroom is a
// factor above 0, by default 1.
type Default struct{}

// Value implements [signals.Signal].
func (Default) Value(_ context.Context, in signals.Input) (resource.Request, error) {
	return fromWindows(in, "_allocated", signals.Series.Max)
}

// InstanceCount asks for what the pool's applications should have running: for
// cpus, mem and disk
//
//	request = headroom * last(window of cpus_expected, mem_expected, disk_expected)
//
// The harmonizer writes these metrics: the expected instances of each app times
// the footprint of one, under the bare name summed over the pool. It writes
// nothing while it does not know the counts, so a last point is a known one, and
// an empty window has no opinion on its kind. There is none on gpus. The
// parameter headroom is a factor above 0, by default 1.
type InstanceCount struct{}

// Value implements [signals.Signal].
func (InstanceCount) Value(_ context.Context, in signals.Input) (resource.Request, error) {
	return fromWindows(in, "_expected", signals.Series.Last)
}

// fromWindows asks, for each kind whose window "{kind}{suffix}" tells something,
// for that value times the headroom.
func fromWindows(in signals.Input, suffix string, tell func(signals.Series) (float64, bool)) (resource.Request, error) {
	headroom, err := in.Parameters.Float("headroom", 1)
	if err != nil {
		return resource.Request{}, err
	}
	if !(headroom > 0) || math.IsInf(headroom, 0) {
		return resource.Request{}, fmt.Errorf("parameter \"headroom\" is %v, want a factor above 0", headroom)
	}
	var request resource.Request
	for _, kind := range []resource.Kind{resource.CPUs, resource.Mem, resource.Disk} {
		if x, ok := tell(in.Metrics[kind.String()+suffix]); ok {
			request = request.With(kind, headroom*x)
		}
	}
	return request, nil
}
