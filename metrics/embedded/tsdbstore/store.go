package tsdbstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"

	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
)

// DefaultRetention is the default of Config.Retention.
const DefaultRetention = 31 * 24 * time.Hour

const (
	blockSpan = 2 * time.Hour // of the newest samples in memory and in the write-ahead log
	stripes   = 1 << 10       // of the series map; a power of two
)

// Config of a Store.
type Config struct {
	Retention time.Duration // at least two hours; 0 is DefaultRetention
	// MaxSeries bounds the series of all application metrics in memory, and MaxOfApp those of one application. 0 is
	// defaultMaxSeries and defaultMaxOfApp.
	MaxSeries int
	MaxOfApp  int
	Log       *slog.Logger // lines of level info from the database are logged as debug
}

// Validate returns every problem, joined.
func (c Config) Validate() error {
	var problems []error
	if c.Retention != 0 && c.Retention < blockSpan {
		problems = append(problems, fmt.Errorf("metrics: retention is %v: want at least %v", c.Retention, blockSpan))
	}
	if c.MaxSeries < 0 || c.MaxOfApp < 0 {
		problems = append(problems, fmt.Errorf("metrics: at most %d series, %d of an application: want at least 0", c.MaxSeries, c.MaxOfApp))
	}
	if c.Log == nil {
		problems = append(problems, errors.New("metrics: no logger"))
	}
	return errors.Join(problems...)
}

// Store is a metrics.Store in a folder. Acknowledged writes survive the death of the process.
type Store struct {
	log    *slog.Logger
	lock   *flock.File
	bounds *bounds
	newest *newest

	writing sync.Mutex // of one writer; taken after mu

	mu     sync.RWMutex // only Close locks it for writing
	db     *tsdb.DB
	closed bool
}

// Open opens the store of that folder and creates a missing folder. A folder has one owner: a second Open returns a
// *flock.HeldError. It moves damaged files aside with a warning.
func Open(dir string, c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the metrics: %w", err)
	}
	lock, err := flock.Lock(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, fmt.Errorf("open metrics: %w", err)
	}
	db, err := openDatabase(dir, c)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open metrics in %s: %w", dir, err), lock.Unlock())
	}
	return &Store{log: c.Log, lock: lock, db: db, bounds: newBounds(c), newest: newNewest()}, nil
}

func (c Config) options() *tsdb.Options {
	retention := cmp.Or(c.Retention, DefaultRetention)
	o := tsdb.DefaultOptions()
	o.NoLockfile = true // our lock has the holder's id
	o.WALCompression = compression.Snappy
	o.StripeSize = stripes
	o.RetentionDuration = retention.Milliseconds()
	o.MaxBlockDuration = max(blockSpan, retention/10).Milliseconds()
	o.OutOfOrderTimeWindow = retention.Milliseconds() // accept late samples
	return o
}

// Close writes data in memory to disk and frees the folder. Later calls of other methods return embedded.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := errors.Join(s.db.Close(), s.lock.Unlock()); err != nil {
		return fmt.Errorf("close metrics: %w", err)
	}
	return nil
}

// Write stores the samples; see metrics.Store.
func (s *Store) Write(ctx context.Context, samples []metrics.Sample) error {
	_, err := s.Put(ctx, samples)
	return err
}

// Put is Write that also returns the number of dropped samples: those older than the retention, and those of a
// millisecond that was rewritten too often. If samples would start more series than the bounds allow, it stores nothing and
// returns metrics.ErrTooManySeries.
func (s *Store) Put(ctx context.Context, samples []metrics.Sample) (dropped int, err error) {
	if err := embedded.CheckSamples(time.Now(), samples); err != nil {
		return 0, fmt.Errorf("write metrics: %w", err)
	}
	if err := ctx.Err(); err != nil || len(samples) == 0 {
		return 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, embedded.ErrClosed
	}
	if dropped, err = s.append(ctx, oldestFirst(samples)); err != nil {
		return 0, fmt.Errorf("write metrics: %w", err)
	}
	return dropped, nil
}

// append writes all samples in one transaction and returns how many it dropped.
func (s *Store) append(ctx context.Context, samples []metrics.Sample) (dropped int, err error) {
	all := make([]labels.Labels, len(samples))
	for i, sample := range samples {
		all[i] = toLabels(sample)
	}
	s.writing.Lock() // two writers must not choose the same rewrite
	defer s.writing.Unlock()
	rewrites, err := s.newest.rewrites(ctx, s.db, samples, all)
	if err != nil {
		return 0, err
	}
	transaction := s.db.Appender(ctx)
	for i, sample := range samples {
		switch rewrites[i] {
		case same:
			continue
		case full:
			dropped++
			continue
		}
		series := rewrites[i].labelsOf(all[i])
		if err := s.bounds.admit(ctx, s.db, transaction, sample, series); err != nil {
			return 0, errors.Join(err, transaction.Rollback())
		}
		_, err := transaction.Append(0, series, sample.Time.UnixMilli(), sample.Value)
		if isLate(err) {
			dropped++
			continue
		}
		if err != nil {
			return 0, errors.Join(err, transaction.Rollback())
		}
	}
	if dropped > 0 {
		s.log.Debug("metrics dropped, too old or rewritten too often", "samples", dropped)
	}
	if err := transaction.Commit(); err != nil {
		return dropped, err
	}
	s.newest.addSamples(samples, all)
	return dropped, nil
}

// isLate reports whether the database drops a sample as too old or duplicate. The contract of metrics.Store does not
// count that as an error.
func isLate(err error) bool {
	return errors.Is(err, storage.ErrTooOldSample) || errors.Is(err, storage.ErrOutOfBounds) ||
		errors.Is(err, storage.ErrOutOfOrderSample) || errors.Is(err, storage.ErrDuplicateSampleForTimestamp)
}

// oldestFirst returns the samples in order of time, so that samples of one call do not make each other late. It does
// not change the caller's slice.
func oldestFirst(samples []metrics.Sample) []metrics.Sample {
	byTime := func(a, b metrics.Sample) int { return a.Time.Compare(b.Time) }
	if slices.IsSortedFunc(samples, byTime) {
		return samples
	}
	sorted := slices.Clone(samples)
	slices.SortStableFunc(sorted, byTime)
	return sorted
}

// Labels of a series. Dimensions have a prefix, so they cannot clash with our labels.
const (
	nameLabel       = "__name__"
	typeLabel       = "weir_type"
	dimensionPrefix = "d."
)

func toLabels(s metrics.Sample) labels.Labels {
	b := labels.NewScratchBuilder(2 + len(s.Dimensions))
	b.Add(model.MetricNameLabel, s.Name)
	b.Add(typeLabel, string(s.Type))
	for k, v := range s.Dimensions {
		if v != "" {
			b.Add(dimensionPrefix+k, v)
		}
	}
	b.Sort()
	return b.Labels()
}

// quiet forwards a library's log lines and lowers level info to debug.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, demoted(level))
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demoted(r.Level)
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

func demoted(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}
