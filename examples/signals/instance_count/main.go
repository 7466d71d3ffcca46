// Instance_count is a signal as a program of its own: it asks for what the
// pool's applications should have running, from the instance counts of the
// harmonizer.
//
//	go build ./examples/signals/instance_count
//	./instance_count NAMESPACE NAME APP
//
// listens on the abstract Unix socket {NAMESPACE}-{NAME}-{APP}-socket, and answers
// every autoscaler that connects, until SIGTERM. Started by bootstrap it is a
// go-plugin too, which tells what it needs. A pool file asks it so:
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
	"time"

	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/signals/plugin"
)

// instanceCount takes its one method from a signal that weir ships. A signal of
// your own has it here:
//
//	Value(ctx context.Context, in signals.Input) (resource.Request, error)
//
// The package comment of signals shows a whole one.
type instanceCount struct{ builtin.InstanceCount }

// About is optional: it tells bootstrap what the signal needs.
func (instanceCount) About() plugin.About {
	const window = 10 * time.Minute
	return plugin.About{
		Metrics: []plugin.Metric{
			{Name: "cpus_expected", Type: plugin.InstanceCounts, Range: window},
			{Name: "mem_expected", Type: plugin.InstanceCounts, Range: window},
			{Name: "disk_expected", Type: plugin.InstanceCounts, Range: window},
		},
		Parameters: []plugin.Parameter{
			{Name: "headroom", Type: plugin.Number, Default: 1, About: "factor on what the applications should have"},
		},
	}
}

func main() { plugin.Main(instanceCount{}) }
