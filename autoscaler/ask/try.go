package ask

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Try reads a window of an app at a moment, as a tick does, and describes it. The error is that of a window that is unknown
// or stale. Of the ports it uses Metrics and Limit.
func (c Config) Try(ctx context.Context, ports Ports, app string, w Window, now time.Time) (api.MetricTrial, error) {
	r := newWindowReader(ctx, c, ports, now)
	out := api.MetricTrial{App: app, Metric: w.Name, Source: w.Source, Query: w.Query, Range: w.Range, Series: []api.TriedSeries{}}
	found, err := r.window(c.query(app, w, now))
	if err == nil {
		err = fresh(found, w, now)
	}
	if err != nil {
		out.Problem = err.Error()
	}
	for _, one := range found {
		out.Series = append(out.Series, tried(sigproto.Series{Name: w.shownName(app, one), Times: one.Times, Values: one.Values}, max(w.Step, w.Resolution)))
	}
	return out, err
}

// tried describes a series with points at a distance; 0: unknown.
func tried(s sigproto.Series, distance time.Duration) api.TriedSeries {
	out := api.TriedSeries{Name: s.Name, Points: len(s.Times)}
	n := len(s.Times)
	if n == 0 {
		return out
	}
	out.Oldest, out.Newest, out.Last = time.Unix(s.Times[0], 0).UTC(), time.Unix(s.Times[n-1], 0).UTC(), s.Values[n-1]
	if step := int64(distance / time.Second); step > 0 {
		out.Gaps = new(int((s.Times[n-1]-s.Times[0])/step) + 1 - n)
	}
	return out
}
