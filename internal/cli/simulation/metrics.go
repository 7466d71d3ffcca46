package simulation

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/record"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// metricDemand returns the demand that metrics show, from the output of "weir metrics get --output json". names has the metric of each
// kind of resource, without its app. The errors name the file.
func metricDemand(name string, data []byte, names map[string]string, scale map[string]float64) (*simulate.Series, error) {
	points, read := map[string]map[int64]resource.Request{}, map[string]bool{}
	for w, err := range record.Read(bytes.NewReader(data)) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w; want a line of \"weir metrics get --output json\"", name, err)
		}
		app := cmp.Or(metrics.AppOf(w.Name), w.Dimensions["app"], "all")
		for _, kind := range resource.Kinds() {
			if metric := names[kind.String()]; metric == "" || strings.TrimPrefix(w.Name, metrics.AppName(app, "")) != metric {
				continue
			}
			if key := app + " " + kind.String(); read[key] {
				return nil, fmt.Errorf("%s: metric %s of app %s has two series: record one, such as their sum", name, names[kind.String()], app)
			} else {
				read[key] = true
			}
			if points[app] == nil {
				points[app] = map[int64]resource.Request{}
			}
			for i, at := range w.Times {
				points[app][at] = points[app][at].With(kind, w.Values[i]*cmp.Or(scale[kind.String()], 1))
			}
		}
	}
	out := simulate.NewSeries()
	for _, app := range slices.Sorted(maps.Keys(points)) {
		var need resource.Vector // a kind without a sample at a time keeps its value
		for _, at := range slices.Sorted(maps.Keys(points[app])) {
			for _, kind := range resource.Kinds() {
				if x, known := points[app][at].Get(kind); known {
					need[kind] = x
				}
			}
			if err := out.Add(app, time.Unix(at, 0).UTC(), need); err != nil {
				return nil, fmt.Errorf("%s: app %s at %s: %w", name, app, time.Unix(at, 0).UTC().Format(time.RFC3339), err)
			}
		}
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("%s: it has no sample of %s: record them with \"weir metrics get --output json\"", name, strings.Join(slices.Sorted(maps.Values(names)), ", "))
	}
	return out, nil
}
