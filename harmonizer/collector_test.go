package harmonizer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric/metrictest"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

func TestCollector(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		a := web(2)
		a.Labels = map[string]string{"framework": "rack"}
		r.events <- apps.ExpectedRows{Rows: []api.App{a}}
		r.events <- apps.ExpectedComplete{}
		pass(t, 20*time.Second)
		got := metrictest.Series(t, r.Collector())
		// This world has no polled source, no lease and no shadow mode.
		metrictest.Complete(t, metric.Harmonizer(), got, "weir_harmonizer_total_users", "weir_harmonizer_bulk_update_loop_duration_seconds",
			"weir_harmonizer_lease_epoch", "weir_harmonizer_lease_left_seconds", "weir_harmonizer_shadow_acts_total")
		for key, want := range map[string]float64{
			"weir_harmonizer_leading{}":                               1,
			"weir_harmonizer_complete{}":                              1,
			"weir_harmonizer_limit_held{}":                            0,
			"weir_harmonizer_nodes{}":                                 1,
			"weir_harmonizer_queue_length{starts}":                    0,
			"weir_harmonizer_running_instances{default}":              2,
			"weir_harmonizer_missing_instances{default}":              0,
			"weir_harmonizer_label_running_instances{framework,rack}": 2,
			"weir_harmonizer_events_total{heartbeats}":                got["weir_harmonizer_events_total{heartbeats}"],
			"weir_harmonizer_events_total{probes_published}":          got["weir_harmonizer_events_total{probes_published}"],
		} {
			if v, ok := got[key]; !ok || v != want {
				t.Errorf("%s = %v, %v, want %v", key, v, ok, want)
			}
		}
		if got["weir_harmonizer_step_seconds{}"] < 10 {
			t.Errorf("%v steps observed", got["weir_harmonizer_step_seconds{}"])
		}
	})
}

// countingSource is a polled source that also counts users.
type countingSource struct{ users int }

func (countingSource) Refresh() {}

func (countingSource) Watch(ctx context.Context, enqueue Enqueue) error {
	if enqueue(ctx, apps.ExpectedBegin{}) == nil {
		retry.Pause(ctx, 3*time.Second)
		_ = enqueue(ctx, apps.ExpectedComplete{ValidFor: time.Hour}) // fails only when ctx ends
	}
	<-ctx.Done()
	return nil
}

func (s countingSource) Users(context.Context) (int, error) {
	if s.users < 0 {
		return 0, errAway
	}
	return s.users, nil
}

// TestCollectorReportsSourceAndCauses checks the metrics about the source, and that dropped
// heartbeats have few causes, whatever a sender writes.
func TestCollectorReportsSourceAndCauses(t *testing.T) {
	for _, users := range []int{42, -1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			source := countingSource{users}
			cfg := settings()
			cfg.CloudFoundry.Users = cloudfoundry.NewUsers(source.Users)
			r := w.join("a").start(t, cfg, false, func(p *Ports) { p.Source = source })
			for _, bad := range []string{"x", `{"dea":""}`, `{"dea":"n","droplets":[{"droplet":"a","version":"v","instance":"i","index":-1,"state":"RUNNING"}]}`,
				`{"dea":"n","droplets":[{"droplet":"a","version":"v","instance":"i","index":-2,"state":"RUNNING"}]}`} {
				if err := r.Enqueue(t.Context(), apps.Heartbeat{Data: []byte(bad)}); err != nil {
					t.Fatal(err)
				}
			}
			pass(t, 5*time.Second)
			got := metrictest.Series(t, r.Collector())
			for key, want := range map[string]float64{
				"weir_harmonizer_findings_total{refused,bad_not_json}": 1,
				"weir_harmonizer_findings_total{refused,bad_dea}":      1,
				"weir_harmonizer_findings_total{refused,bad_index}":    2,
				"weir_harmonizer_bulk_update_loop_duration_seconds{}":  3,
				"weir_harmonizer_total_users{}":                        float64(max(users, 0)),
				"weir_harmonizer_events_total{users_failed}":           float64(min(users, 0) * -1),
			} {
				if got[key] != want {
					t.Errorf("%s = %v, want %v", key, got[key], want)
				}
			}
			if _, exported := got["weir_harmonizer_total_users{}"]; exported != (users >= 0) {
				t.Errorf("total_users exported: %v", exported)
			}
			if n := r.status(t).Counters["found_refused.bad_index"]; n != 2 {
				t.Errorf("status counts %d of bad_index, want 2", n)
			}
			r.stop(t)
		})
	}
}
