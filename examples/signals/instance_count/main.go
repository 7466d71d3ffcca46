// Instance_count is a signal in a program of its own. It requests the resources of the pool's
// expected applications, from the instance counts of the harmonizer.
//
//	go build ./examples/signals/instance_count
//	./instance_count NAMESPACE NAME APP
//
// The program listens on the abstract Unix socket {NAMESPACE}-{NAME}-{APP}-socket. It responds to
// every autoscaler that connects, until SIGTERM. If bootstrap starts it, it is also a go-plugin
// that describes its metrics and parameters. An entry in a pool file:
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

// instanceCount has its one method from a signal that weir ships. A signal of your own has it here:
//
//	Value(ctx context.Context, in signals.Input) (resource.Request, error)
//
// The package comment of signals shows a complete one.
type instanceCount struct{ builtin.InstanceCount }

// About is optional. It describes the metrics and parameters to bootstrap.
func (instanceCount) About() plugin.About {
	const window = 10 * time.Minute
	return plugin.About{
		Metrics: []plugin.Metric{
			{Name: "cpus_expected", Type: plugin.InstanceCounts, Range: window},
			{Name: "mem_expected", Type: plugin.InstanceCounts, Range: window},
			{Name: "disk_expected", Type: plugin.InstanceCounts, Range: window},
		},
		Parameters: []plugin.Parameter{
			{Name: "headroom", Type: plugin.Number, Default: 1, About: "factor on the resources of the expected instances"},
			{Name: "app", Type: plugin.Text, Default: "", About: "count only the instances of this application"},
			{Name: "min_cpus", Type: plugin.Number, Default: 0, About: "the least cores"},
			{Name: "min_mem", Type: plugin.Number, Default: 0, About: "the least megabytes of memory"},
			{Name: "min_disk", Type: plugin.Number, Default: 0, About: "the least megabytes of disk"},
		},
	}
}

func main() { plugin.Main(instanceCount{}) }
