package tsdbstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// second states whether a series has a value for the time of a sample.
type second int

const (
	first second = iota // it has none
	same                // it has this one
	other               // it has another one
)

// newest is the newest time of each series that samples came of, in milliseconds, by the hash of its
// labels. The database drops a second value of an older time without a word; what is not above
// the newest time is compared with what is stored.
type newest struct {
	mu sync.Mutex
	at map[uint64]int64
}

// maxNewest bounds a newest. One that is full begins anew: then more is compared.
const maxNewest = 2 * DefaultMaxSeries

func newNewest() *newest { return &newest{at: map[uint64]int64{}} }

// add notes samples that were written.
func (n *newest) add(samples []metrics.Sample, series []labels.Labels) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.at)+len(samples) > maxNewest {
		clear(n.at)
	}
	for i, s := range samples {
		hash := series[i].Hash()
		if ms, known := n.at[hash]; !known || s.Time.UnixMilli() > ms {
			n.at[hash] = s.Time.UnixMilli()
		}
	}
}

// moment is one time of one series.
type moment struct {
	hash uint64
	ms   int64
}

// seconds returns for each sample whether it is a second value, of one in the database or of an
// earlier one of the samples.
func (n *newest) seconds(ctx context.Context, db *tsdb.DB, samples []metrics.Sample, series []labels.Labels) ([]second, error) {
	out := make([]second, len(samples))
	given := make(map[moment]float64, len(samples))
	late := map[uint64][]int{} // samples that are to be compared, by series
	head := db.Head().MaxTime()
	n.mu.Lock()
	for i, s := range samples {
		m := moment{series[i].Hash(), s.Time.UnixMilli()}
		if value, twice := given[m]; twice {
			out[i] = compare(value, s.Value)
			continue
		}
		given[m] = s.Value
		last, known := n.at[m.hash]
		if !known {
			last = head
		}
		if m.ms <= last {
			late[m.hash] = append(late[m.hash], i)
		}
	}
	n.mu.Unlock()
	for _, which := range late {
		if err := stored(ctx, db, samples, which, series[which[0]], out); err != nil {
			return nil, fmt.Errorf("compare with what is stored: %w", err)
		}
	}
	return out, nil
}

func compare(stored, value float64) second {
	if math.Float64bits(stored) == math.Float64bits(value) {
		return same
	}
	return other
}

// stored compares samples of one series with the database.
func stored(ctx context.Context, db *tsdb.DB, samples []metrics.Sample, which []int, series labels.Labels, out []second) (err error) {
	slices.SortFunc(which, func(a, b int) int { return samples[a].Time.Compare(samples[b].Time) })
	from, to := samples[which[0]].Time.UnixMilli(), samples[which[len(which)-1]].Time.UnixMilli()
	querier, err := db.Querier(from, to)
	if err != nil {
		return err
	}
	defer querier.Close()
	var exact []*labels.Matcher
	series.Range(func(l labels.Label) { exact = append(exact, equal(l.Name, l.Value)) })
	found := querier.Select(ctx, false, &storage.SelectHints{Start: from, End: to}, exact...)
	var points chunkenc.Iterator
	for found.Next() {
		if !labels.Equal(found.At().Labels(), series) {
			continue // it has more labels
		}
		points = found.At().Iterator(points)
		for _, i := range which {
			ms := samples[i].Time.UnixMilli()
			if points.Seek(ms) == chunkenc.ValNone {
				break
			}
			if at, value := points.At(); at == ms {
				out[i] = compare(value, samples[i].Value)
			}
		}
		if err := points.Err(); err != nil {
			return err
		}
	}
	return found.Err()
}
