// Queue_depth is a signal for an application whose workers process jobs from a queue. It requests
// enough workers to empty the queue in time.
//
//	workers = ceil(last(window of queue_depth) / (jobs_per_worker * drain_within in seconds))
//	cpus    = workers * cpus_per_worker          mem likewise
//
// jobs_per_worker is the number of jobs that a worker processes in a second. An empty queue
// requests zero. Without a point in the window there is no opinion.
//
// It is a plain signal: a program that listens on its socket. It uses only the standard library and
// packages of the SDK without other dependencies.
//
//	go build ./examples/signals/queue_depth
//	weir signal test ./queue_depth
//	weir release publish shop/queue_depth@v1.0.0 ./queue_depth
//
// An entry in a pool file:
//
//	autoscale_signals:
//	  - app: mailer
//	    namespace: shop
//	    name: queue_depth
//	    version: v1.0.0
//	    kind: exec
//	    period_minutes: 1
//	    required_metrics:
//	      - {name: queue_depth, type: app_metrics, minute_range: 10}
//	    parameters: {jobs_per_worker: 2.5, drain_within: 10m, cpus_per_worker: 1, mem_per_worker: 256}
//
// The application writes the metric:
//
//	weir metrics put --app mailer queue_depth=4200
package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
)

func main() { signals.Main(queueDepth{}) }

type queueDepth struct{}

// Value implements [signals.Signal].
func (queueDepth) Value(_ context.Context, in signals.Input) (resource.Request, error) {
	perWorker, err := positive(in.Parameters, "jobs_per_worker", 1)
	if err != nil {
		return resource.Request{}, err
	}
	within, err := in.Parameters.Duration("drain_within", 10*time.Minute)
	if err != nil {
		return resource.Request{}, err
	}
	if within <= 0 {
		return resource.Request{}, fmt.Errorf("parameter %q is %v, want more than 0", "drain_within", within)
	}
	cpus, err := positive(in.Parameters, "cpus_per_worker", 1)
	if err != nil {
		return resource.Request{}, err
	}
	mem, err := positive(in.Parameters, "mem_per_worker", 256)
	if err != nil {
		return resource.Request{}, err
	}
	depth, ok := in.Metrics["queue_depth"].Last()
	if !ok {
		return resource.Request{}, nil
	}
	// Subtract a small number, so that rounding of a division does not add a worker.
	workers := max(math.Ceil(depth/(perWorker*within.Seconds())-1e-9), 0)
	return resource.Request{}.With(resource.CPUs, workers*cpus).With(resource.Mem, workers*mem), nil
}

func positive(p signals.Parameters, name string, fallback float64) (float64, error) {
	x, err := p.Float(name, fallback)
	if err != nil {
		return 0, err
	}
	if !(x > 0) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("parameter %q is %v, want more than 0", name, x)
	}
	return x, nil
}
