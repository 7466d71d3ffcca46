package tsdbstore

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Default bounds. A series takes about 1.5 kB of memory while it receives samples, and up to three hours longer.
const (
	defaultMaxSeries = 200_000
	defaultMaxOfApp  = 20_000
)

const (
	// recountEvery is the minimum time between two counts. Series without new samples leave the memory when a block is
	// written.
	recountEvery = time.Minute
	// idleAfter is how long a series has no sample before it gives way to a new one.
	idleAfter = 10 * time.Minute
	// inMemory bounds the series in memory, idle ones too, as a multiple of the bound of all applications.
	inMemory = 2
)

// bounds limits the series that applications start. Metrics of weir itself have no bound.
type bounds struct {
	mu      sync.Mutex
	active  active
	memory  int // series in memory, at the latest count and since then
	counted time.Time
}

func newBounds(c Config) *bounds {
	return &bounds{active: active{all: cmp.Or(c.MaxSeries, defaultMaxSeries), ofApp: cmp.Or(c.MaxOfApp, defaultMaxOfApp), sweep: map[string]time.Time{}}}
}

// admit counts the series of a sample. Beyond a bound it returns metrics.ErrTooManySeries.
func (b *bounds) admit(ctx context.Context, db *tsdb.DB, appender storage.Appender, sample metrics.Sample, series labels.Labels) error {
	if sample.Type != metrics.App {
		return nil
	}
	known, hash := false, series.Hash()
	if all, ok := appender.(storage.GetRef); ok {
		ref, _ := all.GetRef(series, hash)
		known = ref != 0
	}
	app, now := metrics.AppOf(sample.Name), time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	most := inMemory * b.active.all
	if b.active.of == nil || b.memory >= most && now.Sub(b.counted) >= recountEvery {
		if err := b.count(ctx, db, now); err != nil {
			return fmt.Errorf("count the series in memory: %w", err)
		}
	}
	if !known && b.memory >= most {
		return fmt.Errorf("%w: all applications have %d in memory, the bound", metrics.ErrTooManySeries, b.memory)
	}
	if err := b.active.touch(now, app, hash); err != nil {
		return err
	}
	if !known {
		b.memory++
	}
	return nil
}

// count counts the series in memory. The first count makes all of them active.
func (b *bounds) count(ctx context.Context, db *tsdb.DB, now time.Time) error {
	index, err := db.Head().Index()
	if err != nil {
		return err
	}
	defer index.Close()
	found, err := index.Postings(ctx, typeLabel, string(metrics.App))
	if err != nil {
		return err
	}
	first, memory := b.active.of == nil, 0
	if first {
		b.active.of = map[string]map[uint64]time.Time{}
	}
	var builder labels.ScratchBuilder
	var unused []chunks.Meta
	for found.Next() {
		if err := index.Series(found.At(), &builder, &unused); err != nil {
			continue // it has just left the memory
		}
		memory++
		if series := builder.Labels(); first {
			b.active.add(now, metrics.AppOf(series.Get(nameLabel)), series.Hash())
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	b.memory, b.counted = memory, now
	return nil
}

// active are the series of applications with a recent sample. Beyond a bound, those without a sample for idleAfter give way.
type active struct {
	all, ofApp int

	of    map[string]map[uint64]time.Time // app -> hash of a series -> time of its latest sample
	sum   int
	sweep map[string]time.Time // app -> when its series are counted again; missing: now
}

// touch records a sample of a series. For a new series beyond a bound it returns metrics.ErrTooManySeries.
func (a *active) touch(now time.Time, app string, series uint64) error {
	own := a.of[app]
	if _, known := own[series]; known {
		own[series] = now
		return nil
	}
	if len(own) >= a.ofApp && !a.giveWay(now, app) {
		return fmt.Errorf("%w: app %.100q has %d with samples of the last %v, the bound: use fewer names and dimensions",
			metrics.ErrTooManySeries, app, len(own), idleAfter)
	}
	if a.sum >= a.all {
		idle := false
		for other := range a.of {
			idle = a.giveWay(now, other) || idle
		}
		if !idle {
			return fmt.Errorf("%w: all applications have %d with samples of the last %v, the bound", metrics.ErrTooManySeries, a.sum, idleAfter)
		}
	}
	a.add(now, app, series)
	return nil
}

func (a *active) add(now time.Time, app string, series uint64) {
	if a.of[app] == nil {
		a.of[app] = map[uint64]time.Time{}
	}
	a.of[app][series] = now
	a.sum++
}

// giveWay removes the idle series of an app, and reports whether there were any.
func (a *active) giveWay(now time.Time, app string) bool {
	if now.Before(a.sweep[app]) {
		return false
	}
	own := a.of[app]
	before := len(own)
	for series, last := range own {
		if now.Sub(last) >= idleAfter {
			delete(own, series)
		}
	}
	a.sum -= before - len(own)
	if len(own) == 0 {
		delete(a.of, app)
		delete(a.sweep, app)
		return before > 0
	}
	a.sweep[app] = now.Add(recountEvery)
	return len(own) < before
}
