package forecast

import (
	"math"
	"time"
)

// Step is the length of a slot.
const Step = 5 * time.Minute

const (
	stepSeconds = int64(Step / time.Second)
	inHour      = int(time.Hour / Step)
	inDay       = 24 * inHour
	inWeek      = 7 * inDay
)

// MostHistory is how much of a window counts: older points are not read.
const MostHistory = 28 * 24 * time.Hour

// Window is a window of a metric, oldest point first. Times are unix seconds. Values are finite.
type Window struct {
	Times  []int64
	Values []float64
}

// grid is a window in slots of Step, of which the last one is complete. A missing value is NaN.
type grid struct {
	first int64     // its first slot, in slots since 1970
	raw   []float64 // mean of the points of a slot
	y     []float64 // raw without the slots in which the metric was stuck
	of    []uint16  // slot of the local week, from Sunday 00:00; it goes on for ahead slots after the last value
	reach []float64 // highest raw value of ten minutes, the latest known one where all are missing
}

// fold returns the slots of a window that are complete at now.
func (r Rule) fold(w Window, now time.Time, ahead int) grid {
	g := grid{}
	end := floorDiv(now.Unix(), stepSeconds)
	if len(w.Times) == 0 {
		return g
	}
	// From the first local midnight: else the first slot's weight differs from tick to tick.
	g.first = r.midnight(max(w.Times[0], now.Add(-MostHistory).Unix()))
	n := int(end - g.first)
	if n <= 0 || n > int(MostHistory/Step) { // the second if times overflow
		return grid{}
	}
	g.raw = make([]float64, n)
	count := make([]int32, n)
	for i, t := range w.Times {
		if slot := floorDiv(t, stepSeconds) - g.first; slot >= 0 && slot < int64(n) {
			g.raw[slot] += w.Values[i]
			count[slot]++
		}
	}
	for i, c := range count {
		if c == 0 {
			g.raw[i] = math.NaN()
		} else {
			g.raw[i] /= float64(c)
		}
	}
	g.y = withoutStuck(g.raw)
	g.of = r.slots(g.first, n+ahead)
	g.reach = reach(g.raw)
	return g
}

// at returns the begin of a slot, in UTC.
func (g grid) at(slot int) time.Time {
	return time.Unix((g.first+int64(slot))*stepSeconds, 0).UTC()
}

// floorDiv is a / b for a positive b, rounded down.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// midnight returns the slot of the first local midnight at or after t, or the slot of t if no midnight is within a day.
func (r Rule) midnight(t int64) int64 {
	first := floorDiv(t+stepSeconds-1, stepSeconds)
	for i, of := range r.slots(first, inDay+inHour) {
		if int(of)%inDay == 0 {
			return first + int64(i)
		}
	}
	return first
}

// slots returns the slot of the local week for n slots.
func (r Rule) slots(first int64, n int) []uint16 {
	like := make(map[int64]bool, len(r.LikeWeekend))
	for _, d := range r.LikeWeekend {
		like[floorDiv(d.Unix(), 86400)] = true
	}
	of := make([]uint16, n)
	var offset int64
	var until int64 // in unix seconds: the offset is valid before it
	for i := range of {
		t := (first + int64(i)) * stepSeconds
		if i == 0 || t >= until {
			at := time.Unix(t, 0).In(r.Zone)
			_, seconds := at.Zone()
			offset, until = int64(seconds), math.MaxInt64
			if _, end := at.ZoneBounds(); !end.IsZero() {
				until = end.Unix()
			}
		}
		local := t + offset
		date := floorDiv(local, 86400)
		weekday := (date%7 + 7 + 4) % 7 // 1970-01-01 was a Thursday
		if like[date] {
			weekday = 0
		}
		of[i] = uint16(weekday*int64(inDay) + (local-date*86400)/stepSeconds)
	}
	return of
}

// withoutStuck returns the values without those of a stuck metric: at least an hour of exactly equal values, at a time of the
// day that had different values a day and a week before. A slot that was stuck then counts as different.
func withoutStuck(raw []float64) []float64 {
	y := append([]float64(nil), raw...)
	stuck := make([]bool, len(raw))
	varied := varied(raw)
	for i := 0; i < len(raw); {
		end := i + 1
		for end < len(raw) && raw[end] == raw[i] {
			end++
		}
		if end-i >= inHour {
			for j := i; j < end; j++ {
				if day, week := j-inDay, j-inWeek; week >= 0 && (varied[day] || stuck[day]) && (varied[week] || stuck[week]) {
					stuck[j], y[j] = true, math.NaN()
				}
			}
		}
		i = end
	}
	return y
}

// stuck returns since which slot the metric is stuck, and false if its latest value counts.
func (g grid) stuck() (since int, stuck bool) {
	since = len(g.raw) - 1
	if since < 0 || known(g.y[since]) || !known(g.raw[since]) {
		return 0, false
	}
	for since > 0 && g.raw[since-1] == g.raw[since] {
		since--
	}
	return since, true
}

// zero reports whether the load is known, and at most 0 in all slots.
func (g grid) zero() bool {
	has := false
	for _, x := range g.raw {
		if x > 0 {
			return false
		}
		has = has || known(x)
	}
	return has
}

// varied reports for each slot whether the values of the hour around it differ.
func varied(raw []float64) []bool {
	all := make([]bool, len(raw))
	last, changed := math.NaN(), -1 // the latest known value, and the latest slot whose value differs from the one before
	for i, x := range raw {
		if known(x) {
			if known(last) && x != last {
				changed = i
			}
			last = x
		}
		if middle := i - inHour/2; middle >= 0 && changed > i-inHour && changed >= 0 {
			all[middle] = true
		}
	}
	return all
}

// reach returns for each slot the load that a reactive signal requests at its end: the highest of the last ten minutes, which
// touch three slots.
func reach(raw []float64) []float64 {
	all := make([]float64, len(raw))
	latest := math.NaN()
	for i := range raw {
		top := math.Inf(-1)
		for _, x := range raw[max(0, i-2) : i+1] {
			if x > top {
				top = x
			}
		}
		if !math.IsInf(top, -1) {
			latest = top
		}
		all[i] = latest
	}
	return all
}
