// Requests_per_second is a signal for an application that serves requests. It requests enough
// instances for the busiest moment of the window.
//
//	instances = max(min_instances, ceil(headroom * max(window of requests_per_second) / requests_per_instance))
//	cpus      = instances * cpus_per_instance        mem and disk likewise
//
// With the maximum over the window, a short dip does not shrink the pool: the rate must be lower
// for the whole range of the window. Without a point in the window there is no opinion. There is
// also no opinion on a resource that an instance does not use.
//
// It is a go-plugin, and describes its metric and its parameters to bootstrap. If an operator
// starts it with NAMESPACE NAME APP, the same program is a plain signal.
//
//	go build ./examples/signals/requests_per_second
//	weir signal test ./requests_per_second
//	weir release publish shop/requests_per_second@v1.0.0 ./requests_per_second
//
// An entry in a pool file:
//
//	autoscale_signals:
//	  - app: web
//	    namespace: shop
//	    name: requests_per_second
//	    version: v1.0.0
//	    period_minutes: 1
//	    required_metrics:
//	      - {name: requests_per_second, type: app_metrics, minute_range: 20}
//	    parameters: {requests_per_instance: 50, headroom: 1.2, cpus_per_instance: 1, mem_per_instance: 512}
//
// The application writes the metric, a rate, not a counter:
//
//	weir metrics put --app web requests_per_second=130
package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/plugin"
)

func main() { plugin.Main(requestsPerSecond{}) }

type requestsPerSecond struct{}

// settings are the signal's parameters.
type settings struct {
	perInstance float64 // requests a second that one instance serves
	headroom    float64 // factor on the rate
	least       int     // instances
	footprint   resource.Vector
}

// About implements [plugin.Describer].
func (requestsPerSecond) About() plugin.About {
	return plugin.About{
		Metrics: []plugin.Metric{{Name: "requests_per_second", Type: plugin.AppMetrics, Range: 20 * time.Minute}},
		Parameters: []plugin.Parameter{
			{Name: "requests_per_instance", Type: plugin.Number, Default: 100, About: "requests a second that one instance serves"},
			{Name: "headroom", Type: plugin.Number, Default: 1.2, About: "factor on the rate"},
			{Name: "min_instances", Type: plugin.Integer, Default: 0, About: "minimum number of instances"},
			{Name: "cpus_per_instance", Type: plugin.Number, Default: 1, About: "shares of a core"},
			{Name: "mem_per_instance", Type: plugin.Number, Default: 512, About: "megabytes"},
			{Name: "disk_per_instance", Type: plugin.Number, Default: 0, About: "megabytes"},
		},
	}
}

// Value implements [signals.Signal].
func (requestsPerSecond) Value(_ context.Context, in signals.Input) (resource.Request, error) {
	s, err := newSettings(in.Parameters)
	if err != nil {
		return resource.Request{}, err
	}
	rate, ok := in.Metrics["requests_per_second"].Max()
	if !ok {
		return resource.Request{}, nil
	}
	return s.request(rate), nil
}

// request computes the request from the rate.
func (s settings) request(rate float64) resource.Request {
	// Subtract a small number, so that rounding does not add an instance.
	instances := max(float64(s.least), math.Ceil(s.headroom*max(rate, 0)/s.perInstance-1e-9), 0)
	var request resource.Request
	for _, kind := range []resource.Kind{resource.CPUs, resource.Mem, resource.Disk} {
		if s.footprint[kind] > 0 {
			request = request.With(kind, instances*s.footprint[kind])
		}
	}
	return request
}

func newSettings(p signals.Parameters) (settings, error) {
	var s settings
	for _, parameter := range []struct {
		name     string
		value    *float64
		fallback float64
	}{
		{"requests_per_instance", &s.perInstance, 100},
		{"headroom", &s.headroom, 1.2},
		{"cpus_per_instance", &s.footprint[resource.CPUs], 1},
		{"mem_per_instance", &s.footprint[resource.Mem], 512},
		{"disk_per_instance", &s.footprint[resource.Disk], 0},
	} {
		x, err := p.Float(parameter.name, parameter.fallback)
		if err != nil {
			return s, err
		}
		if !(x >= 0) || math.IsInf(x, 0) {
			return s, fmt.Errorf("parameter %q is %v, want a number of at least 0", parameter.name, x)
		}
		*parameter.value = x
	}
	if s.perInstance == 0 {
		return s, fmt.Errorf("parameter %q is 0, want the requests a second that one instance serves", "requests_per_instance")
	}
	var err error
	s.least, err = p.Int("min_instances", 0)
	return s, err
}
