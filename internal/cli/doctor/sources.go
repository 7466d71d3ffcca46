package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/daemon/windowtrial"
	"github.com/weirkeeper/weirkeeper/metrics/prometheus"
)

// remoteWrite sends a request without samples to the server of telemetry.remote_write.
func remoteWrite(ctx context.Context, r *prometheus.RemoteWrite) []Finding {
	if err := r.Open(slog.New(slog.DiscardHandler)).Try(ctx); err != nil {
		return []Finding{{Result: Failed, Detail: fmt.Sprintf("%s accepts no series: %v", r.URL, err),
			Fix: "correct telemetry.remote_write in weir.yaml, or the server; the pool scales meanwhile, and the oldest of 60 waiting ticks is dropped"}}
	}
	return []Finding{{Result: OK, Detail: r.URL + " accepts series"}}
}

// sourceWindows reads each window of the pool that comes from a source, as a tick does.
func sourceWindows(ctx context.Context, s Site) []Finding {
	trial, err := windowtrial.New(s.Service, s.Pool, "")
	if err != nil {
		return []Finding{{Result: Failed, Detail: err.Error(), Fix: "correct the key sources of weir.yaml"}}
	}
	trial.OfSources()
	var bad []Finding
	all := trial.Run(ctx, nil)
	for _, one := range all {
		if one.Problem != "" {
			bad = append(bad, Finding{Result: Failed, Detail: fmt.Sprintf("%s of %s: %s", one.Metric, one.App, one.Problem),
				Fix: `compare with "weir metrics try"; until it is read, the pool does not shrink`})
		}
	}
	if len(all) == 0 || len(bad) > 0 {
		return bad
	}
	var took time.Duration
	points := 0
	for _, one := range all {
		took += one.Took
		for _, s := range one.Series {
			points += s.Points
		}
	}
	return []Finding{{Result: OK, Detail: fmt.Sprintf("the sources answer %d windows of the pool's signals: %d points in %d ms", len(all), points, took.Milliseconds())}}
}
