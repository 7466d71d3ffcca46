package autoscalerd

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	remote "github.com/weirkeeper/weirkeeper/metrics/prometheus"
)

// remoteWriter sends the samples of each tick to the server of telemetry.remote_write. nil sends nothing.
type remoteWriter struct {
	*remote.Writer
	url    string
	labels map[string]string // of all series
}

// openRemoteWriter returns the writer of a pool; nil: weir.yaml has no server.
func openRemoteWriter(of config.Telemetry, cluster, pool string, log *slog.Logger) *remoteWriter {
	if of.RemoteWrite == nil {
		return nil
	}
	return &remoteWriter{of.RemoteWrite.Open(log), of.RemoteWrite.URL, map[string]string{"cluster": cluster, "pool": pool}}
}

// exemplary are the samples that have an exemplar of their tick.
var exemplary = [...]string{"target_capacity", "joined_capacity", "pool_request", "pool_request_bytes", "unmet_request", "unmet_request_bytes", "weir_pool_cost_per_hour"}

// add queues the samples of a tick.
func (w *remoteWriter) add(set *metric.Set, r api.TickRecord, all []sample) {
	if w == nil {
		return
	}
	tick := [][2]string{{"tick", r.At.UTC().Format(time.RFC3339Nano)}}
	out := make([]remote.Sample, 0, len(all))
	for _, s := range all {
		if math.IsNaN(s.value) {
			continue
		}
		one := remote.Sample{Labels: set.Labels(s.name, w.labels, s.labels...), Value: s.value}
		if slices.Contains(exemplary[:], s.name) {
			one.Exemplar = tick
		}
		out = append(out, one)
	}
	w.Add(r.At, out)
}

// collect sends the metrics of the writer.
func (w *remoteWriter) collect(set *metric.Set, ch chan<- prometheus.Metric) {
	if w == nil {
		return
	}
	s, failing := w.Status(), 0.0
	if !s.Since.IsZero() {
		failing = time.Since(s.Since).Seconds()
	}
	set.Emit(ch, "weir_remote_write_queued_ticks", float64(s.Queued))
	set.Emit(ch, "weir_remote_write_sent_total", float64(s.Sent))
	set.Emit(ch, "weir_remote_write_dropped_total", float64(s.Dropped), "full")
	set.Emit(ch, "weir_remote_write_dropped_total", float64(s.Rejected), "rejected")
	set.Emit(ch, "weir_remote_write_failing_seconds", failing)
}

// check returns the check of readiness. A server that fails does not make the process unready.
func (w *remoteWriter) check() admin.Check {
	return admin.Check{Name: "remote write", Read: func(context.Context) admin.Result {
		s := w.Status()
		detail := fmt.Sprintf("%d ticks sent to %s, %d wait, %d dropped", s.Sent, w.url, s.Queued, s.Dropped+s.Rejected)
		if s.Since.IsZero() {
			return admin.Result{State: admin.OK, Detail: detail}
		}
		return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("%s; fails since %s: %v", detail, s.Since.UTC().Format(time.RFC3339), s.Err),
			Remedy: `check telemetry.remote_write of weir.yaml with "weir doctor"; the pool scales meanwhile`}
	}}
}
