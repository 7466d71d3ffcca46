package windows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Config configures a Cache. Its clock is the To of the queries.
type Config struct {
	// Overlap is how far behind the newest point of its series a point may arrive; 0: 5 minutes.
	Overlap time.Duration
	// Full is the interval of reading a whole window, and how long a gap in a series may be filled; 0: 30 minutes.
	Full time.Duration
	Idle time.Duration // a window without queries for that time is dropped; 0: 2 hours
}

// WithDefaults returns c with defaults for zeros.
func (c Config) WithDefaults() Config {
	c.Overlap = cmp.Or(c.Overlap, 5*time.Minute)
	c.Full = cmp.Or(c.Full, 30*time.Minute)
	c.Idle = cmp.Or(c.Idle, 2*time.Hour)
	return c
}

// Validate returns every problem of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	for _, d := range [...]struct {
		name string
		is   time.Duration
	}{{"overlap", c.Overlap}, {"full", c.Full}, {"idle", c.Idle}} {
		if d.is < 0 {
			errs = append(errs, fmt.Errorf("windows: %s is %v: want at least 0", d.name, d.is))
		}
	}
	return errors.Join(errs...)
}

// Cache is a metrics.Store that stores the windows it has read.
type Cache struct {
	store   metrics.Store
	config  Config
	lineage atomic.Uint64 // last assigned lineage

	mu      sync.Mutex
	windows map[key]*window
}

// New returns a Cache of that store.
func New(store metrics.Store, c Config) (*Cache, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Cache{store: store, config: c.WithDefaults(), windows: map[key]*window{}}, nil
}

// Write stores the samples in the store; see metrics.Store.
func (c *Cache) Write(ctx context.Context, samples []metrics.Sample) error {
	return c.store.Write(ctx, samples)
}

// Window returns the matching series; see metrics.Store.
func (c *Cache) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	if q.To.Before(q.From) || q.Whole {
		return c.store.Window(ctx, q)
	}
	w := c.window(q)
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to read %q: %w", q.Name, context.Cause(ctx))
	}
	defer func() { <-w.turn }()
	return c.read(ctx, w, q)
}

// key identifies a query apart from its begin.
type key struct {
	kind       metrics.Type
	name       string
	dimensions string
	regex      bool
	prefix     string
	length     int64 // seconds
	resolution time.Duration

	source, text string
	step, lag    time.Duration
}

func keyOf(q metrics.Query) key {
	var d []byte
	for _, name := range slices.Sorted(maps.Keys(q.Dimensions)) {
		d = strconv.AppendQuote(d, name)
		d = strconv.AppendQuote(d, q.Dimensions[name])
	}
	return key{
		kind: q.Type, name: q.Name, dimensions: string(d), regex: q.Regex, prefix: q.Prefix,
		length: q.To.Unix() - q.From.Unix(), resolution: q.Resolution,
		source: q.Source, text: q.Text, step: q.Step, lag: q.Lag,
	}
}

// window returns the window of a query, and drops idle windows.
func (c *Cache) window(q metrics.Query) *window {
	k, now := keyOf(q), q.To.Unix()
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := int64(c.config.Idle / time.Second)
	maps.DeleteFunc(c.windows, func(_ key, w *window) bool { return w.asked < now-idle })
	w := c.windows[k]
	if w == nil {
		w = &window{turn: make(chan struct{}, 1)}
		c.windows[k] = w
	}
	w.asked = now
	return w
}

// read answers a query that has the window's turn.
func (c *Cache) read(ctx context.Context, w *window, q metrics.Query) ([]metrics.Series, error) {
	// The overlap has at least a slot, so that successive slots have no gap.
	r := reading{lineage: &c.lineage, overlap: int64(max(c.config.Overlap, q.Resolution) / time.Second), full: int64(c.config.Full / time.Second)}
	r.from, r.to = q.Seconds()
	r.since = max(r.from, q.Slots().Begin(w.since(r)))
	earlierUnknown, err := c.readSince(ctx, w, q, r)
	if err == nil && earlierUnknown && !r.whole() {
		r.since = r.from
		_, err = c.readSince(ctx, w, q, r)
	}
	if err != nil {
		return nil, err
	}
	if w.from, w.to, w.answered = r.from, r.to, true; r.whole() {
		w.filled, w.full = true, r.to
	}
	return w.answer(), nil
}

// readSince reads the window from r.since on. Its doubt is that of merge.
func (c *Cache) readSince(ctx context.Context, w *window, q metrics.Query, r reading) (earlierUnknown bool, err error) {
	q.From = time.Unix(r.since, 0)
	got, err := c.store.Window(ctx, q)
	if err != nil {
		w.filled = w.filled && !r.whole() // still read whole next time
		return false, err
	}
	w.drop(r.from)
	return w.merge(got, r), nil
}
