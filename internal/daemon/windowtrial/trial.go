// Package windowtrial reads the windows of a pool's signals once, as the autoscaler reads them at a tick. Commands print what
// the signals would receive, or why they would not be evaluated.
//
// [New] selects the windows of an app, or of all, and opens the sources of the service file. [Trial.Run] reads them one after
// the other, with the time that each took. It changes nothing, and keeps nothing between two calls. A Trial is not safe for
// concurrent use.
package windowtrial

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	app string
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
		for _, w := range signal.Windows {
			t.windows = append(t.windows, window{signal.App, w})
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
	ports := ask.Ports{Metrics: source.Router{Store: own, Sources: t.sources}, Limit: context.WithTimeout}
	out := []api.MetricTrial{}
	for _, w := range t.windows {
		began := time.Now()
		one := t.config.Try(ctx, ports, sigproto.AppOf(w.app), w.Window, began)
		one.App, one.Took = w.app, time.Since(began)
		out = append(out, one)
	}
	return out
}
