package tsdbstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// rewrite is the place where a value of a moment is stored. A moment is a series and a time in milliseconds. The database keeps
// the first value of a moment, so a later value is stored in a rewrite of the series: the same labels and rewriteLabel
// with a number, the first unused one of this moment. The highest number is the last value.
type rewrite int

const (
	maxRewrites = 4 // of a moment

	original rewrite = 0  // the moment has no value; up to maxRewrites: a rewrite
	same     rewrite = -1 // it is the moment's last value already, or a later sample of the call replaces it
	full     rewrite = -2 // the moment has all rewrites
)

// rewriteLabel is the label of rewrites. Dimensions have a prefix, so none has this name.
const rewriteLabel = "weir_rewrite"

// labelsOf returns the labels of a rewrite of a series.
func (r rewrite) labelsOf(series labels.Labels) labels.Labels {
	if r == original {
		return series
	}
	return labels.NewBuilder(series).Set(rewriteLabel, strconv.Itoa(int(r))).Labels()
}

// rewriteOf returns the series that ls is a rewrite of; ls itself if it is no rewrite. ok is false for an unknown number.
func rewriteOf(ls labels.Labels) (r rewrite, series labels.Labels, ok bool) {
	text := ls.Get(rewriteLabel)
	if text == "" {
		return original, ls, true
	}
	n, err := strconv.Atoi(text)
	return rewrite(n), labels.NewBuilder(ls).Del(rewriteLabel).Labels(), err == nil && n > 0 && n <= maxRewrites
}

// newest is the newest time of each series that samples came of, in milliseconds, by the hash of its
// labels. The database drops a second value of an older time without a word; what is not above
// the newest time is compared with the stored data.
type newest struct {
	mu sync.Mutex
	at map[uint64]int64
}

// maxNewest bounds a newest. One that is full begins anew: then more is compared.
const maxNewest = 2 * defaultMaxSeries

func newNewest() *newest { return &newest{at: map[uint64]int64{}} }

// addSamples notes samples that were written.
func (n *newest) addSamples(samples []metrics.Sample, series []labels.Labels) {
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

// rewrites returns where each sample is stored. Samples are in the order in which they were given; of several values of
// one moment the last one counts.
func (n *newest) rewrites(ctx context.Context, db *tsdb.DB, samples []metrics.Sample, series []labels.Labels) ([]rewrite, error) {
	out := make([]rewrite, len(samples))
	last := make(map[moment]int, len(samples))
	for i, s := range samples {
		m := moment{series[i].Hash(), s.Time.UnixMilli()}
		if earlier, twice := last[m]; twice {
			out[earlier] = same
		}
		last[m] = i
	}
	for _, which := range n.late(db.Head().MaxTime(), last) {
		if err := stored(ctx, db, samples, which, series[which[0]], out); err != nil {
			return nil, fmt.Errorf("compare with the stored values: %w", err)
		}
	}
	return out, nil
}

// late returns the samples that are to be compared with stored values, by series.
func (n *newest) late(head int64, samples map[moment]int) map[uint64][]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	late := map[uint64][]int{}
	for m, i := range samples {
		newest, known := n.at[m.hash]
		if !known {
			newest = head
		}
		if m.ms <= newest {
			late[m.hash] = append(late[m.hash], i)
		}
	}
	return late
}

// value is the last stored value of a moment.
type value struct {
	found bool
	at    rewrite
	value float64
}

// next returns where another value of the moment is stored.
func (v value) next(another float64) rewrite {
	switch {
	case !v.found:
		return original
	case math.Float64bits(v.value) == math.Float64bits(another):
		return same
	case v.at == maxRewrites:
		return full
	}
	return v.at + 1
}

// stored sets where samples of one series are stored, by the values that the moments have.
func stored(ctx context.Context, db *tsdb.DB, samples []metrics.Sample, which []int, series labels.Labels, out []rewrite) (err error) {
	slices.SortFunc(which, func(a, b int) int { return samples[a].Time.Compare(samples[b].Time) })
	from, to := samples[which[0]].Time.UnixMilli(), samples[which[len(which)-1]].Time.UnixMilli()
	querier, err := db.Querier(from, to)
	if err != nil {
		return err
	}
	defer querier.Close() // only read
	var exact []*labels.Matcher
	series.Range(func(l labels.Label) { exact = append(exact, equal(l.Name, l.Value)) })
	found := querier.Select(ctx, false, &storage.SelectHints{Start: from, End: to}, exact...)
	values := make([]value, len(which))
	var points chunkenc.Iterator
	for found.Next() {
		at, of, ok := rewriteOf(found.At().Labels())
		if !ok || !labels.Equal(of, series) {
			continue // it has more labels
		}
		points = found.At().Iterator(points)
		for i, sample := range which {
			ms := samples[sample].Time.UnixMilli()
			if points.Seek(ms) == chunkenc.ValNone {
				break
			}
			if t, v := points.At(); t == ms && (!values[i].found || at > values[i].at) {
				values[i] = value{true, at, v}
			}
		}
		if err := points.Err(); err != nil {
			return err
		}
	}
	for i, sample := range which {
		out[sample] = values[i].next(samples[sample].Value)
	}
	return found.Err()
}
