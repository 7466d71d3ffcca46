package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Window is a metric over its range.
type Window struct {
	// Name may have dimensions, as in "boost|zone=a". Then only series with these match, and the
	// signal gets them in the names.
	Name string
	Type metrics.Type
	App  string // only instance counts of this app
	// Regex is set if Name is a regular expression (RE2) that is searched in the keys
	// "APP,NAME|DIMENSIONS" of the app's own metrics. If nothing matches, the window is stale, as
	// an empty one is. Only for type metrics.App.
	Regex  bool
	Range  time.Duration
	MaxAge time.Duration // of the newest point, or of the end of the newest slot; an older one is stale
	// Resolution is that of metrics.Query. Each series then has another one beside it, with the counts.
	Resolution time.Duration
	// Optional is set if the request is sent without the window while it is stale or unknown.
	Optional bool

	// Source, Query, Step, Lag and Whole are those of metrics.Query. Then Type is empty, and the series have the Name with
	// the dimensions of the answer.
	Source, Query string
	Step, Lag     time.Duration
	Whole         bool
}

// windowReader reads the windows of one moment. It reads each one once, even if several requests
// contain it.
type windowReader struct {
	config Config
	now    time.Time
	read   func(metrics.Query) ([]metrics.Series, error)
	mu     sync.Mutex
	reads  map[string]func() ([]metrics.Series, error)
}

// newWindowReader returns a reader whose reads end with ctx, and after the Timeout. A request does
// not end a shared read.
func newWindowReader(ctx context.Context, c Config, ports Ports, now time.Time) *windowReader {
	return &windowReader{
		config: c, now: now,
		read: func(q metrics.Query) (series []metrics.Series, err error) {
			ctx, end := ports.Trace.Begin(ctx, trace.Window, cmp.Or(q.Name, q.Text))
			defer func() { end(err) }()
			limited, cancel := ports.Limit(ctx, c.Timeout())
			defer cancel()
			return ports.Metrics.Window(limited, q)
		},
		reads: map[string]func() ([]metrics.Series, error){},
	}
}

// series reads the windows of an app. A window that cannot be read, is empty, or has a too old
// newest point is an error, because unknown is not empty; an optional one is left out. A regular expression without a match is
// an empty window. short describes a window of usage that does not reach back to its beginning, if
// there is one. If two windows have a series of the same name, the later one counts.
func (r *windowReader) series(app string, windows []Window) (out []sigproto.Series, short string, err error) {
	defer r.begin(app, windows)()
	places := map[string]int{} // of the series in out, by name
	for _, w := range windows {
		series, err := r.window(r.config.query(app, w, r.now))
		if err != nil {
			err = fmt.Errorf("window of %s is unknown: %w", w.Name, err)
		} else {
			err = fresh(series, w, r.now)
		}
		switch {
		case err != nil && w.Optional:
			continue
		case err != nil:
			return nil, "", err
		}
		if short == "" && w.Type == metrics.System {
			short = r.tooShort(series, w)
		}
		before := len(out)
		add := func(shown sigproto.Series) {
			if i, ok := places[shown.Name]; ok && i < before {
				out[i] = shown
				return
			}
			places[shown.Name] = len(out)
			out = append(out, shown)
		}
		for _, one := range series {
			name := w.shownName(app, one)
			add(sigproto.Series{Name: name, Times: one.Times, Values: one.Values, Lineage: one.Lineage})
			if one.Counts != nil {
				add(sigproto.Series{Name: name + sigproto.CountSuffix, Times: one.Times, Values: one.Counts, Lineage: one.Lineage})
			}
		}
	}
	return out, short, nil
}

// begin starts to read the windows of sources, so that a source receives the queries of a tick at the same time. wait waits
// for the reads.
func (r *windowReader) begin(app string, windows []Window) (wait func()) {
	var reads sync.WaitGroup
	for _, w := range windows {
		if w.Source != "" {
			reads.Go(func() { _, _ = r.window(r.config.query(app, w, r.now)) }) // series has the error
		}
	}
	return reads.Wait
}

// query returns the query of a window to the store.
func (c Config) query(app string, w Window, now time.Time) metrics.Query {
	q := metrics.Query{Type: w.Type, Name: w.Name, From: now.Add(-w.Range), To: now, Regex: w.Regex, Resolution: w.Resolution}
	if w.Source != "" {
		q.Name, q.Source, q.Text, q.Step, q.Lag, q.Whole = "", w.Source, w.Query, w.Step, w.Lag, w.Whole
		q.Dimensions = metrics.VariablesOf(w.Query, map[string]string{"app": app, "cluster": c.Cluster, "pool": c.Pool})
		return q
	}
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

// splitName splits a configured name, such as "boost|zone=a", into the name and its dimensions. If
// the dimensions are invalid, d is nil.
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

// window returns the series that match q. It waits for a read of q in progress.
func (r *windowReader) window(q metrics.Query) ([]metrics.Series, error) {
	key := fmt.Sprintf("%s|%t|%q|%q|%d|%d|%q|%q|%d|%d", q.Type, q.Regex, q.Prefix, metrics.Key(q.Name, q.Dimensions), q.From.UnixNano(), q.Resolution, q.Source, q.Text, q.Step, q.Lag)
	r.mu.Lock()
	once, ok := r.reads[key]
	if !ok {
		once = sync.OnceValues(func() ([]metrics.Series, error) { return r.read(q) })
		r.reads[key] = once
	}
	r.mu.Unlock()
	return once()
}

// fresh returns a staleError unless every series has a fresh point. For instance counts one fresh
// series is enough, because the pool writes them together and the series of a deleted app ends.
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
	if newest.IsZero() || w.age(newest, now) > w.MaxAge+time.Second { // a point's time has no fraction of a second
		return &staleError{metric: w.Name, newest: newest, window: w, now: now}
	}
	return nil
}

// age returns how old the newest point is that could be newer. A slot ends with its last second, and a source answers later.
func (w Window) age(newest, now time.Time) time.Duration {
	return now.Sub(newest) - w.Resolution - w.Lag
}

// staleError is the error of a window whose newest point is too old.
type staleError struct {
	metric string
	newest time.Time // zero: no point
	window Window
	now    time.Time
}

func (e *staleError) Error() string {
	if e.newest.IsZero() {
		text := fmt.Sprintf("%s has no point in the last %v", e.metric, e.window.Range)
		if e.window.Source != "" {
			text += fmt.Sprintf(": source %s has none for %.600s", e.window.Source, e.window.Query)
		}
		return text
	}
	age := e.window.age(e.newest, e.now).Round(time.Second)
	return fmt.Sprintf("newest point of %s is %v old, at most %v is allowed", e.metric, age, e.window.MaxAge)
}

// tooShort describes a window of usage that misses its beginning, when usage was not measured.
// Empty: the window is complete.
func (r *windowReader) tooShort(series []metrics.Series, w Window) string {
	oldest := r.now
	for _, s := range series {
		if len(s.Times) > 0 && time.Unix(s.Times[0], 0).Before(oldest) {
			oldest = time.Unix(s.Times[0], 0)
		}
	}
	reach := r.now.Sub(oldest)
	if reach+2*r.config.Tick+w.Resolution+time.Second >= w.Range {
		return ""
	}
	return fmt.Sprintf("%s reaches back %v of %v: what was used before is unknown", w.Name, reach.Round(time.Second), w.Range)
}

// shownName returns the name of a series in a request. It has no app prefix, and no cluster and
// pool unless the configured name has them. A regular expression matches whole keys, so the request
// has whole keys.
func (w Window) shownName(app string, s metrics.Series) string {
	if w.Source != "" {
		return metrics.Key(w.Name, s.Dimensions)
	}
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
