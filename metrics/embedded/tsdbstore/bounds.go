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

// recountEvery is the minimum time between two counts. Series without new samples leave the memory when a block is
// written.
const recountEvery = time.Minute

// bounds limits the series that applications start. Metrics of weir itself have no bound.
type bounds struct {
	all, ofApp int

	mu      sync.Mutex
	byApp   map[string]int // series in memory, by application
	sum     int            // of byApp
	counted time.Time
}

func newBounds(c Config) *bounds {
	return &bounds{all: cmp.Or(c.MaxSeries, defaultMaxSeries), ofApp: cmp.Or(c.MaxOfApp, defaultMaxOfApp)}
}

// admit counts the series of a sample that starts one. Beyond a bound it returns metrics.ErrTooManySeries.
func (b *bounds) admit(ctx context.Context, db *tsdb.DB, appender storage.Appender, sample metrics.Sample, series labels.Labels) error {
	if sample.Type != metrics.App {
		return nil
	}
	if known, ok := appender.(storage.GetRef); ok {
		if ref, _ := known.GetRef(series, series.Hash()); ref != 0 {
			return nil
		}
	}
	app := metrics.AppOf(sample.Name)
	b.mu.Lock()
	defer b.mu.Unlock()
	full := b.byApp[app] >= b.ofApp || b.sum >= b.all
	if b.byApp == nil || full && time.Since(b.counted) >= recountEvery {
		if err := b.count(ctx, db); err != nil {
			return fmt.Errorf("count the series in memory: %w", err)
		}
	}
	switch {
	case b.byApp[app] >= b.ofApp:
		return fmt.Errorf("%w: app %.100q has %d, the bound: use fewer names and dimensions", metrics.ErrTooManySeries, app, b.byApp[app])
	case b.sum >= b.all:
		return fmt.Errorf("%w: all applications have %d, the bound", metrics.ErrTooManySeries, b.sum)
	}
	b.byApp[app]++
	b.sum++
	return nil
}

// count counts the series in memory.
func (b *bounds) count(ctx context.Context, db *tsdb.DB) error {
	index, err := db.Head().Index()
	if err != nil {
		return err
	}
	defer index.Close()
	found, err := index.Postings(ctx, typeLabel, string(metrics.App))
	if err != nil {
		return err
	}
	byApp, sum := make(map[string]int), 0
	var builder labels.ScratchBuilder
	var unused []chunks.Meta
	for found.Next() {
		if err := index.Series(found.At(), &builder, &unused); err != nil {
			continue // it has just left the memory
		}
		byApp[metrics.AppOf(builder.Labels().Get(nameLabel))]++
		sum++
	}
	if err := found.Err(); err != nil {
		return err
	}
	b.byApp, b.sum, b.counted = byApp, sum, time.Now()
	return nil
}
