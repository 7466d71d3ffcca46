// Instance_count is a signal as a program of its own: it asks for what the
// pool's applications should have running, from the instance counts of the
// harmonizer.
//
//	go build ./examples/signals/instance_count
//	./instance_count NAMESPACE NAME APP
//
// listens on the abstract Unix socket {NAMESPACE}-{NAME}-{APP}-socket, and answers
// every autoscaler that connects, until SIGTERM. A pool file asks it so:
//
//	autoscale_signals:
//	  - app: APP
//	    namespace: NAMESPACE
//	    name: NAME
//	    version: v1.0.0
//	    period_minutes: 1
//	    required_metrics:
//	      - {name: cpus_expected, type: instance_counts, minute_range: 10}
//	      - {name: mem_expected, type: instance_counts, minute_range: 10}
//	      - {name: disk_expected, type: instance_counts, minute_range: 10}
//	    parameters: {headroom: 1.2}
package main

import (
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
)

// A signal of your own has its own type here, with the one method
//
//	Value(ctx context.Context, in signals.Input) (resource.Request, error)
//
// The package comment of signals shows a whole one.
func main() { signals.Main(builtin.InstanceCount{}) }
