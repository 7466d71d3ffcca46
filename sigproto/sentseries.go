package sigproto

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// sentSeries describes a series as it was last sent, to find out what has changed. A series with a lineage needs no
// copy of its points, because any other change of them changes the lineage.
type sentSeries struct {
	lineage uint64
	points  int
	last    int64   // time of the last point
	ties    int     // points at the end with this time
	value   float64 // of the last point
	times   []int64 // the points, if lineage is 0
	values  []float64
}

// since compares s with the sent data. dropped points were removed at the front; the first kept points of s stayed.
// After any other change the series is sent completely: all points were dropped, and kept is 0.
func (b *sentSeries) since(s Series) (dropped, kept int) {
	if s.Lineage != b.lineage || b.points == 0 {
		return b.points, 0
	}
	if b.lineage == 0 {
		kept = b.compare(s)
	} else {
		kept = b.locate(s)
	}
	return b.points - kept, kept
}

// locate relies on the lineage and finds the end of the sent data. It returns 0 if the end is ambiguous.
func (b *sentSeries) locate(s Series) (kept int) {
	first := firstAt(s.Times, b.last)
	kept = first + b.ties
	// If the window begins among points with the last point's time, some of them may have been removed.
	if first == 0 && b.ties > 1 || kept > len(s.Times) || kept > b.points {
		return 0
	}
	if s.Times[kept-1] != b.last || math.Float64bits(s.Values[kept-1]) != math.Float64bits(b.value) {
		return 0
	}
	return kept
}

// compare compares every point.
func (b *sentSeries) compare(s Series) (kept int) {
	if len(s.Times) == 0 {
		return 0
	}
	start, _ := slices.BinarySearch(b.times, s.Times[0])
	kept = len(b.times) - start
	if kept > len(s.Times) || !slices.Equal(b.times[start:], s.Times[:kept]) {
		return 0
	}
	for i, v := range b.values[start:] {
		if math.Float64bits(v) != math.Float64bits(s.Values[i]) {
			return 0
		}
	}
	return kept
}

// set records that s has been sent. dropped and kept are the results of since.
func (b *sentSeries) set(s Series, dropped, kept int) {
	b.lineage, b.points = s.Lineage, len(s.Times)
	if b.points > 0 {
		b.last, b.value = s.Times[b.points-1], s.Values[b.points-1]
		b.ties = 1
		for b.ties < b.points && s.Times[b.points-1-b.ties] == b.last {
			b.ties++
		}
	}
	if b.lineage != 0 {
		b.times, b.values = nil, nil
		return
	}
	if kept == 0 {
		b.times, b.values = b.times[:0], b.values[:0]
	} else {
		b.times, b.values = b.times[dropped:], b.values[dropped:]
	}
	b.times = append(b.times, s.Times[kept:]...)
	b.values = append(b.values, s.Values[kept:]...)
}

// firstAt returns the index of the first time that is not before t. Usually few times were appended, so it starts at
// the end.
func firstAt(times []int64, t int64) int {
	const near = 8
	n := len(times)
	for range min(near, n) {
		if times[n-1] < t {
			return n
		}
		n--
	}
	first, _ := slices.BinarySearch(times[:n], t)
	return first
}

// checkShape returns an error for a series that cannot be encoded.
func checkShape(s Series) error {
	if len(s.Times) != len(s.Values) {
		return fmt.Errorf("has %d times and %d values", len(s.Times), len(s.Values))
	}
	return nil
}

// checkTimes returns an error for points starting at index from whose times descend or exceed the limit.
func checkTimes(times []int64, from int) error {
	if from == len(times) {
		return nil
	}
	last := times[max(from-1, 0)]
	for i, t := range times[from:] {
		if t < last {
			return fmt.Errorf("point %d %w", from+i, errOlder)
		}
		last = t
	}
	return errors.Join(checkTime(times[from]), checkTime(last))
}

var errOlder = errors.New("is older than the one before it")

func checkTime(t int64) error {
	if t > maxTime || t < -maxTime {
		return fmt.Errorf("time is %d, want unix seconds", t)
	}
	return nil
}
