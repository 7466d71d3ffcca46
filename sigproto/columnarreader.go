package sigproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// columnarReader decodes the columnar bodies of one connection as they arrive. It holds the windows. Evaluations share
// their memory. That is safe: points are only appended after the part that an evaluation uses, and a full window moves
// to new memory.
type columnarReader struct {
	windows seriesTable[window]
	next    uint64 // valid sequence besides 0; 0: no other

	// State of the current body:
	state  columnarState
	left   int // unread bytes of the body
	series int // remaining series
	window *window
	points int // remaining points of the current series: times, then values
	count  int // points of the current series
	out    Evaluation
	err    error // why the body is invalid
}

// columnarState is the next element of the body.
//
//	inPreamble ──► inSeries ──► inTimes ──► inValues
//	                  ▲                        │
//	                  └────────────────────────┘
//	any ──► inRest (the end, or an error)
type columnarState uint8

const (
	inPreamble columnarState = iota // mark, sequence, now, number of series
	inSeries                        // name, start, count
	inTimes
	inValues
	inRest // ignored bytes
)

// window holds the points of a series.
type window struct {
	times  []int64
	values []float64
}

var errShort = errors.New("is truncated")

// begin prepares for a body of that length.
func (d *columnarReader) begin(length int) {
	d.state, d.left, d.err = inPreamble, length, nil
	d.out = Evaluation{}
}

// feed decodes as much of b as possible, and returns the number of bytes. The next call must start with the rest. b
// must have room for a name.
func (d *columnarReader) feed(b []byte) (used int) {
	for {
		n, err := d.step(b[used:])
		if errors.Is(err, errShort) && d.left > len(b)-used {
			return used // more bytes will arrive
		}
		if err != nil {
			d.err, d.state = err, inRest
			continue
		}
		used += n
		d.left -= n
		if n == 0 { // inRest, and b is consumed
			return used
		}
	}
}

// finish returns the evaluation after the last byte, or the error. After an error it drops all windows.
func (d *columnarReader) finish() (Evaluation, error) {
	if d.err == nil && d.state != inRest {
		d.err = errShort
	}
	out, err := d.out, d.err
	d.out = Evaluation{}
	if err != nil {
		*d = columnarReader{}
		return Evaluation{}, err
	}
	d.windows.end()
	d.next++
	return out, nil
}

// step decodes one element and returns its length, or errShort if it is incomplete.
func (d *columnarReader) step(b []byte) (n int, err error) {
	switch d.state {
	case inPreamble:
		return d.preamble(b)
	case inSeries:
		return d.head(b)
	case inTimes:
		return d.times(b)
	case inValues:
		return d.readValues(b)
	}
	if d.err == nil && len(b) > 0 {
		return 0, errors.New("unexpected data after the last series")
	}
	return len(b), nil
}

func (d *columnarReader) preamble(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, errShort
	}
	r := varints{b: b, p: 1}
	sequence := r.unsigned(math.MaxUint64)
	now := r.signed()
	series := r.unsigned(maxSeries)
	if r.err != nil {
		return 0, r.err
	}
	if sequence != 0 && sequence != d.next {
		return 0, fmt.Errorf("sequence is %d, want %d or 0", sequence, d.next)
	}
	if err := checkTime(now); err != nil {
		return 0, fieldError("timestamp", err)
	}
	if sequence == 0 {
		d.windows, d.next = seriesTable[window]{}, 0
	}
	d.out.Timestamp, d.series = now, int(series)
	d.windows.begin()
	d.nextSeries()
	return r.p, nil
}

// nextSeries sets the state after a series.
func (d *columnarReader) nextSeries() {
	d.state = inSeries
	if d.series == 0 {
		d.state = inRest
	}
}

func (d *columnarReader) head(b []byte) (int, error) {
	r := varints{b: b}
	name := r.bytes(int(r.unsigned(maxName)))
	start := r.unsigned(math.MaxInt64)
	count := r.unsigned(math.MaxInt64)
	if r.err != nil {
		return 0, r.err
	}
	text := d.windows.intern(name)
	held, err := d.windows.next(text)
	switch {
	case err != nil:
		return 0, fieldError("metrics."+text, err)
	case start > uint64(len(held.times)):
		return 0, fieldError("metrics."+text, fmt.Errorf("starts at %d of %d points", start, len(held.times)))
	case count > uint64(d.left-r.p)/9: // minimum size of a point
		return 0, fieldError("metrics."+text, fmt.Errorf("has %d points, which do not fit the body", count))
	}
	held.times, held.values = held.times[start:], held.values[start:]
	d.window, d.count, d.points = held, int(count), int(count)
	d.series--
	d.out.Series = append(d.makeSeries(), Series{Name: text})
	d.state = inTimes
	if count == 0 {
		d.endSeries()
	}
	return r.p, nil
}

// makeSeries allocates all series at once if the remaining bytes can hold them.
func (d *columnarReader) makeSeries() []Series {
	if d.out.Series == nil {
		d.out.Series = make([]Series, 0, min(len(d.windows.byName), d.series+1))
	}
	return d.out.Series
}

func (d *columnarReader) times(b []byte) (int, error) {
	r := varints{b: b}
	times := d.window.times
	last := int64(0)
	if len(times) > 0 {
		last = times[len(times)-1]
	}
	used := 0
	for ; d.points > 0; d.points-- {
		delta := r.signed()
		if r.err != nil {
			break
		}
		// No time exceeds maxTime, so the sum of two cannot overflow.
		switch {
		case delta > 2*maxTime || last+delta > maxTime || len(times) == 0 && delta < -maxTime:
			return 0, d.bad(fmt.Errorf("time of point %d is beyond ±%d", len(times), int64(maxTime)))
		case len(times) > 0 && delta < 0:
			return 0, d.bad(fmt.Errorf("point %d %w", len(times), errOlder))
		}
		last += delta
		times = append(extend(times, d.points), last)
		used = r.p
	}
	d.window.times = times
	if d.points == 0 {
		d.state, d.points = inValues, d.count
		return used, nil
	}
	if used > 0 && errors.Is(r.err, errShort) {
		return used, nil
	}
	return used, r.err
}

func (d *columnarReader) readValues(b []byte) (int, error) {
	n := min(d.points, len(b)/8)
	if n == 0 {
		return 0, errShort
	}
	values := d.window.values
	for i := range n {
		bits := binary.LittleEndian.Uint64(b[8*i:])
		if !finite(bits) {
			return 0, d.bad(fmt.Errorf("point %d is %v, want a finite number", len(values), math.Float64frombits(bits)))
		}
		values = append(extend(values, d.points-i), math.Float64frombits(bits))
	}
	d.window.values = values
	d.points -= n
	if d.points == 0 {
		d.endSeries()
	}
	return 8 * n, nil
}

func (d *columnarReader) endSeries() {
	if n := len(d.window.times); n > 0 {
		s := &d.out.Series[len(d.out.Series)-1]
		s.Times, s.Values = d.window.times[:n:n], d.window.values[:n:n]
	}
	d.nextSeries()
}

// bad adds the name of the current series to an error.
func (d *columnarReader) bad(err error) error {
	return fieldError("metrics."+d.out.Series[len(d.out.Series)-1].Name, err)
}

// extend returns s with room for another element, of at most left. It allocates at most about twice the received size,
// plus some room for the next bodies.
func extend[T any](s []T, left int) []T {
	if len(s) < cap(s) {
		return s
	}
	size := len(s) + min(left, max(len(s), firstPoints))
	return append(make([]T, 0, size+size/8+16), s...)
}

// varints decodes numbers one after another. After an error it stops.
type varints struct {
	b   []byte
	p   int
	err error
}

func (r *varints) unsigned(limit uint64) uint64 {
	if r.err != nil {
		return 0
	}
	x, n := binary.Uvarint(r.b[r.p:])
	switch {
	case n == 0:
		r.err = errShort
	case n < 0:
		r.err = errors.New("has a number of more than 64 bits")
	case x > limit:
		r.err = fmt.Errorf("has a number of %d, want at most %d", x, limit)
	default:
		r.p += n
		return x
	}
	return 0
}

func (r *varints) signed() int64 {
	x := r.unsigned(math.MaxUint64)
	return int64(x>>1) ^ -int64(x&1)
}

func (r *varints) bytes(n int) []byte {
	if r.err == nil && len(r.b)-r.p < n {
		r.err = errShort
	}
	if r.err != nil {
		return nil
	}
	r.p += n
	return r.b[r.p-n : r.p : r.p]
}
