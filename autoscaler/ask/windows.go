package ask

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// query turns a window of a signal into a question to the store.
func (c Config) query(app string, w Window, now time.Time) metrics.Query {
	q := metrics.Query{Type: w.Type, Name: w.Name, From: now.Add(-w.Range), To: now, Regex: w.Regex}
	if w.Regex {
		q.Prefix = metrics.AppName(app, "")
		return q
	}
	q.Name, q.Dimensions = splitName(w.Name)
	if w.Type == metrics.App {
		q.Name = metrics.AppName(app, q.Name)
		return q
	}
	if q.Dimensions == nil {
		q.Dimensions = metrics.Dimensions{}
	}
	q.Dimensions["cluster"], q.Dimensions["pool"] = c.Cluster, c.Pool
	if w.App != "" {
		q.Dimensions["app"] = w.App
	}
	return q
}

// splitName takes the dimensions out of a configured name, as "boost|zone=a". A
// name in which they cannot be read has none.
func splitName(configured string) (name string, d metrics.Dimensions) {
	name, list, found := strings.Cut(configured, "|")
	if !found {
		return configured, nil
	}
	d = metrics.Dimensions{}
	for pair := range strings.SplitSeq(list, ",") {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return configured, nil
		}
		d[k] = v
	}
	return name, d
}

// answer is what the store said to one question.
type answer struct {
	series []metrics.Series
	err    error
}

// reading asks each question of a tick once, however many signals have it.
type reading struct {
	store metrics.Store
	mu    sync.Mutex
	asked map[string]func() answer
}

func newReading(store metrics.Store) *reading {
	return &reading{store: store, asked: map[string]func() answer{}}
}

// window returns the series that answer q; it waits for whoever asked first.
func (r *reading) window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	key := fmt.Sprintf("%s|%t|%s|%s|%d", q.Type, q.Regex, q.Prefix, metrics.Key(q.Name, q.Dimensions), q.From.UnixNano())
	r.mu.Lock()
	once, ok := r.asked[key]
	if !ok {
		once = sync.OnceValue(func() answer {
			series, err := r.store.Window(ctx, q)
			return answer{series, err}
		})
		r.asked[key] = once
	}
	r.mu.Unlock()
	a := once()
	return a.series, a.err
}

// windows reads all that a signal wants. A window that cannot be read, that is
// empty (a regular expression that matches nothing, too), or whose newest point is
// too old, is an error: what is unknown is not empty. short says which window of
// usage does not reach back to its beginning, if one does not. Of two windows that
// give a series of one name, the later one counts.
func (p *Panel) windows(ctx context.Context, r *reading, s Signal, now time.Time) (out []sigproto.Series, short string, err error) {
	places := map[string]int{} // of the series in out, by name
	for _, w := range s.Windows {
		series, err := r.window(ctx, p.config.query(s.App, w, now))
		if err != nil {
			return nil, "", fmt.Errorf("window of %s is unknown: %w", w.Name, err)
		}
		if err := fresh(series, w, now); err != nil {
			return nil, "", err
		}
		if short == "" && w.Type == metrics.System {
			short = p.tooShort(series, w, now)
		}
		before := len(out)
		for _, one := range series {
			shown := sigproto.Series{Name: w.shownName(s.App, one), Times: one.Times, Values: one.Values, Lineage: one.Lineage}
			if i, ok := places[shown.Name]; ok && i < before {
				out[i] = shown
				continue
			}
			places[shown.Name] = len(out)
			out = append(out, shown)
		}
	}
	return out, short, nil
}

// tooShort says by how much a window of usage misses its beginning, which is
// what the pool used before somebody measured; empty if it does not.
func (p *Panel) tooShort(series []metrics.Series, w Window, now time.Time) string {
	oldest := now
	for _, s := range series {
		if len(s.Times) > 0 && time.Unix(s.Times[0], 0).Before(oldest) {
			oldest = time.Unix(s.Times[0], 0)
		}
	}
	reach := now.Sub(oldest)
	if reach+2*p.config.Tick+time.Second >= w.Range {
		return ""
	}
	return fmt.Sprintf("%s reaches back %v of %v: what was used before is unknown", w.Name, reach.Round(time.Second), w.Range)
}

// staleError says which window is too old to be acted on.
type staleError struct {
	metric string
	newest time.Time // zero: no point at all
	window Window
	now    time.Time
}

func (e *staleError) Error() string {
	if e.newest.IsZero() {
		return fmt.Sprintf("%s has no point in the last %v", e.metric, e.window.Range)
	}
	age := e.now.Sub(e.newest).Round(time.Second)
	return fmt.Sprintf("newest point of %s is %v old, at most %v is allowed", e.metric, age, e.window.MaxAge)
}

// fresh returns a staleError unless every series has a point that is new enough.
// Of instance counts one is enough: they are written all together, and those of
// a deleted app end.
func fresh(series []metrics.Series, w Window, now time.Time) error {
	var newest time.Time
	for _, s := range series {
		t, ok := s.Newest()
		if !ok {
			continue
		}
		if newest.IsZero() || (w.Type == metrics.InstanceCounts) == t.After(newest) {
			newest = t
		}
	}
	// A point's time has lost its fraction of a second.
	if newest.IsZero() || now.Sub(newest) > w.MaxAge+time.Second {
		return &staleError{metric: w.Name, newest: newest, window: w, now: now}
	}
	return nil
}

// shownName is a series' name as its signal sees it: without the app's prefix and
// without the cluster and the pool, unless these stand in the configured name. A
// regular expression is looked for in whole keys, so that whole keys are shown.
func (w Window) shownName(app string, s metrics.Series) string {
	name := strings.TrimPrefix(s.Name, metrics.AppName(app, ""))
	if w.Regex {
		return metrics.Key(name, s.Dimensions)
	}
	_, written := splitName(w.Name)
	d := maps.Clone(s.Dimensions)
	for _, k := range []string{"cluster", "pool"} {
		if _, ok := written[k]; !ok {
			delete(d, k)
		}
	}
	return metrics.Key(name, d)
}
