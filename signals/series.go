package signals

import (
	"math"
	"slices"
	"sort"
	"time"
)

// Series is a window of one metric, oldest point first. Times and Values have the same length. Values are finite. The
// zero Series is empty.
//
// With a resolution in the pool's file, a point is a slot of that length: its time is the first second of the slot, its value
// the mean of the slot's values, and its count their number. The newest slot has ended. A slot without a value is missing.
type Series struct {
	Times  []int64 // unix seconds
	Values []float64
	Counts []float64 // of the length of Values; nil: without a resolution
}

// Len returns the number of points.
func (s Series) Len() int { return len(s.Values) }

// Newest returns the time of the last point, and whether there is one.
func (s Series) Newest() (time.Time, bool) {
	if len(s.Times) == 0 {
		return time.Time{}, false
	}
	return time.Unix(s.Times[len(s.Times)-1], 0).UTC(), true
}

// Last returns the value of the last point, and whether there is one.
func (s Series) Last() (float64, bool) {
	if len(s.Values) == 0 {
		return 0, false
	}
	return s.Values[len(s.Values)-1], true
}

// Mean returns the unweighted arithmetic mean of the values, and whether there are any.
func (s Series) Mean() (float64, bool) {
	if len(s.Values) == 0 {
		return 0, false
	}
	n := float64(len(s.Values))
	var mean float64
	for _, v := range s.Values {
		mean += v / n // divided first: the sum may overflow
	}
	return mean, true
}

// Max returns the largest value, and whether there is one.
func (s Series) Max() (float64, bool) {
	if len(s.Values) == 0 {
		return 0, false
	}
	return slices.Max(s.Values), true
}

// Quantile returns the q-quantile of the values, from 0 (smallest) to 1 (largest), with linear interpolation (type 7 of
// Hyndman and Fan, the most common one). ok is false if there are no values or q is not in [0, 1].
func (s Series) Quantile(q float64) (float64, bool) {
	if len(s.Values) == 0 || !(q >= 0 && q <= 1) {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(s.Values))
	rank := q * float64(len(sorted)-1)
	below := int(rank)
	above := min(below+1, len(sorted)-1)
	part := rank - math.Floor(rank)
	return sorted[below]*(1-part) + sorted[above]*part, true
}

// Rate returns the increase per second of a counter over the window. A decrease counts as a restart of the counter at
// 0. ok is false without two points at different times.
func (s Series) Rate() (float64, bool) {
	if len(s.Times) < 2 {
		return 0, false
	}
	seconds := s.Times[len(s.Times)-1] - s.Times[0]
	if seconds <= 0 {
		return 0, false
	}
	var increase float64
	for i, v := range s.Values[1:] {
		if before := s.Values[i]; v >= before {
			increase += v - before
		} else {
			increase += v
		}
	}
	return increase / float64(seconds), true
}

// Since returns the points at t or later. It shares the memory of s.
func (s Series) Since(t time.Time) Series {
	first := sort.Search(len(s.Times), func(i int) bool { return !time.Unix(s.Times[i], 0).Before(t) })
	since := Series{Times: s.Times[first:], Values: s.Values[first:]}
	if s.Counts != nil {
		since.Counts = s.Counts[first:]
	}
	return since
}
