// Package windowtrial reads the windows of a pool's signals once, as the autoscaler reads them at a tick. Commands print what
// the signals would receive, or why they would not be evaluated.
//
// [Check] reads those of sources for the check of configuration files. [New] selects the windows of an app, or of all, and opens the sources of the service file. [Trial.Run] reads them one after
// the other, with the time that each took. It changes nothing, and keeps nothing between two calls. A Trial is not safe for
// concurrent use.
package windowtrial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Trial has the windows to read.
type Trial struct {
	config  ask.Config
	windows []window
	sources map[string]source.Source
}

// window is one of an app, an advisor or the default signal.
type window struct {
	app   string
	index int // among the metrics of its signal
	ask.Window
}

// New returns a trial of the windows of an app and its advisors; empty: of all. It opens the sources of the service file.
func New(service config.Service, pool config.Pool, app string) (*Trial, error) {
	loop := config.Autoscaler(service, pool)
	t := &Trial{config: ask.Config{Cluster: pool.Cluster, Pool: pool.Name, Tick: loop.Tick}}
	var apps []string
	for _, signal := range loop.Signals() {
		of := sigproto.AppOf(signal.App)
		apps = append(apps, of)
		if app != "" && of != app {
			continue
		}
		for i, w := range signal.Windows {
			t.windows = append(t.windows, window{signal.App, i, w})
		}
	}
	if slices.Sort(apps); app != "" && !slices.Contains(apps, app) {
		apps = slices.Compact(apps)
		return nil, fmt.Errorf("pool %s has no app %q%s; it has %s", pool.Name, app, spelling.DidYouMean(app, apps), strings.Join(apps, ", "))
	}
	var err error
	t.sources, err = service.OpenSources()
	return t, err
}

// OfSources keeps the windows that come from a source.
func (t *Trial) OfSources() {
	t.windows = slices.DeleteFunc(t.windows, func(w window) bool { return w.Source == "" })
}

// NeedsStore reports whether a window comes from the store of the pool.
func (t *Trial) NeedsStore() bool {
	return slices.ContainsFunc(t.windows, func(w window) bool { return w.Source == "" })
}

// Run reads the windows in order. own is the store of the pool; nil if no window comes from it.
func (t *Trial) Run(ctx context.Context, own metrics.Store) []api.MetricTrial {
	out := []api.MetricTrial{}
	for _, w := range t.windows {
		one, _ := t.try(ctx, own, w) // it has the text of the error
		out = append(out, one)
	}
	return out
}

func (t *Trial) try(ctx context.Context, own metrics.Store, w window) (api.MetricTrial, error) {
	began := time.Now()
	ports := ask.Ports{Metrics: source.Router{Store: own, Sources: t.sources}, Limit: context.WithTimeout}
	one, err := t.config.Try(ctx, ports, sigproto.AppOf(w.app), w.Window, began)
	one.App, one.Took = w.app, time.Since(began)
	return one, err
}

// Check reads all windows that come from sources at the same time. The error has the queries that their sources reject. The
// notes say which were not checked, or have no points now.
func Check(ctx context.Context, service config.Service, pool config.Pool) (notes []string, err error) {
	t, err := New(service, pool, "")
	if err != nil {
		return nil, err
	}
	t.OfSources()
	errs := make([]error, len(t.windows))
	var reads sync.WaitGroup
	for i, w := range t.windows {
		reads.Go(func() { _, errs[i] = t.try(ctx, nil, w) })
	}
	reads.Wait()
	var mistakes []error
	for i, w := range t.windows {
		switch err := errs[i]; {
		case errors.Is(err, source.ErrQuery):
			mistakes = append(mistakes, config.QueryMistake(service, pool, w.app, w.index, err.Error()))
		case err != nil:
			notes = append(notes, fmt.Sprintf("the window of %s of %s is unknown or stale now: %v", w.Name, w.app, err))
		}
	}
	return notes, errors.Join(mistakes...)
}
