package localworld

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// stableAfter is the run time after which the pauses between restarts start again from the shortest.
const stableAfter = time.Minute

// runner is a part that can run once.
type runner interface {
	Run(ctx context.Context) error
}

// latest collects the metrics of the present harmonizer, which is a new one after each restart.
type latest struct {
	atomic.Pointer[prometheus.Collector]
}

// of returns the collector with the label of the cluster. A harmonizer is there.
func (l *latest) of(cluster string) prometheus.Collector {
	return prometheus.WrapCollectorWith(prometheus.Labels{"cluster": cluster}, l)
}

// Describe implements prometheus.Collector.
func (l *latest) Describe(ch chan<- *prometheus.Desc) { (*l.Load()).Describe(ch) }

// Collect implements prometheus.Collector.
func (l *latest) Collect(ch chan<- prometheus.Metric) { (*l.Load()).Collect(ch) }

// restartable returns a part for keep. It runs first, and a new runner after each end.
func restartable(first runner, another func(ctx context.Context) (runner, error)) func(ctx context.Context) error {
	return func(ctx context.Context) (err error) {
		part := first
		if first = nil; part == nil {
			if part, err = another(ctx); err != nil {
				return err
			}
		}
		return part.Run(ctx)
	}
}

// keep returns a part that never fails: it restarts part after a pause, until ctx ends. So one part never ends the
// others.
func (r reporter) keep(name string, part func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		pauses := retry.Policy{First: time.Second, Longest: 30 * time.Second}.Pauses()
		for {
			began := time.Now()
			err := part(ctx)
			if ctx.Err() != nil {
				return err
			}
			if err == nil {
				err = errors.New("it ended without an error")
			}
			if time.Since(began) >= stableAfter {
				pauses.Reset()
			}
			pause := pauses.NextBackOff()
			r.warn(name, fmt.Sprintf("failed, restart in %v: %v", pause.Round(100*time.Millisecond), err))
			if !retry.Pause(ctx, pause) {
				return err
			}
		}
	}
}
