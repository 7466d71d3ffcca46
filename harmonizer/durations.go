package harmonizer

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
)

// durations are the times that the machine took for each event.
type durations struct {
	histogram prometheus.Histogram
	longest   atomic.Int64 // nanoseconds
	pass      atomic.Int64 // nanoseconds; 0: no pass is complete
}

func newDurations() *durations {
	return &durations{histogram: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    metric.HarmonizerPrefix + "step_seconds",
		Help:    "Time that the state machine took for one event.",
		Buckets: []float64{1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1},
	})}
}

// observe adds one duration. Only the loop calls it.
func (d *durations) observe(took time.Duration) {
	d.histogram.Observe(took.Seconds())
	if int64(took) > d.longest.Load() {
		d.longest.Store(int64(took))
	}
}
