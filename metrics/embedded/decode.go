package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// ErrBadAnswer: the store's response is invalid; the window is unknown.
var ErrBadAnswer = errors.New("invalid response of the metrics store")

// minPoint is the minimum size of a point in a page, in bytes: one for its time, eight for its value.
const minPoint = 9

// decodePage decodes a page. All errors are ErrBadAnswer.
func decodePage(data []byte) (Page, error) {
	d := pageDecoder{rest: data}
	p := d.page()
	if d.err != nil {
		return Page{}, fmt.Errorf("%w: page of %d bytes, at byte %d: %w", ErrBadAnswer, len(data), len(data)-len(d.rest), d.err)
	}
	return p, nil
}

// pageDecoder decodes from the front of rest. After an error its methods return zero values. A count is refused if
// the remaining bytes cannot hold it.
type pageDecoder struct {
	rest   []byte
	err    error
	counts bool // its series have counts
}

func (d *pageDecoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

func (d *pageDecoder) page() Page {
	version := d.byte()
	if d.counts = version == countsVersion; version != pageVersion && !d.counts {
		d.fail("version %d, want %d or %d", version, pageVersion, countsVersion)
	}
	var p Page
	switch more := d.byte(); more {
	case 0:
	case 1:
		p.Next = &Cursor{Name: d.string(), Dimensions: d.dimensions(), Second: d.second(0, d.varint())}
	default:
		d.fail("%d instead of 0 or 1", more)
	}
	const minSeries = 1 + 1 + 1 + minPoint
	for range d.count(minSeries) {
		s := d.series()
		if d.err != nil {
			return Page{}
		}
		p.Series = append(p.Series, s)
	}
	if len(d.rest) > 0 {
		d.fail("%d bytes follow", len(d.rest))
	}
	return p
}

func (d *pageDecoder) series() metrics.Series {
	s := metrics.Series{Name: d.string(), Dimensions: d.dimensions()}
	n := d.count(minPoint)
	if n == 0 {
		d.fail("a series without points")
		return s
	}
	s.Times, s.Values = make([]int64, n), make([]float64, n)
	s.Times[0] = d.second(0, d.varint())
	for i := 1; i < n; i++ {
		delta := d.uvarint()
		if delta > maxSecond-minSecond {
			d.fail("a step of %d seconds", delta)
			return s
		}
		s.Times[i] = d.second(s.Times[i-1], int64(delta))
	}
	for i := range n {
		s.Values[i] = d.float()
		if i > 0 && s.Times[i] == s.Times[i-1] && s.Values[i] < s.Values[i-1] {
			d.fail("values of second %d are not in order", s.Times[i])
		}
	}
	if d.counts {
		s.Counts = make([]float64, n)
	}
	for i := range s.Counts {
		count := d.uvarint()
		if count < 1 || count > maxPoints {
			d.fail("a count of %d points", count)
		}
		s.Counts[i] = float64(count)
	}
	return s
}

func (d *pageDecoder) dimensions() metrics.Dimensions {
	n := d.count(2)
	if n == 0 {
		return nil
	}
	if n > metrics.MaxDimensions {
		d.fail("%d dimensions, at most %d", n, metrics.MaxDimensions)
		return nil
	}
	dimensions := make(metrics.Dimensions, n)
	for range n {
		key := d.string()
		if _, twice := dimensions[key]; twice {
			d.fail("dimension %.100q twice", key)
		}
		dimensions[key] = d.string()
	}
	return dimensions
}

// count reads a number of items of at least size bytes each.
func (d *pageDecoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.rest)/size) {
		d.fail("a count of %d, with %d bytes left", n, len(d.rest))
		return 0
	}
	return int(n)
}

// second returns base+delta if both are within bounds.
func (d *pageDecoder) second(base, delta int64) int64 {
	if delta < minSecond || delta > maxSecond-minSecond {
		d.fail("second %d", delta)
		return 0
	}
	if sum := base + delta; sum >= minSecond && sum <= maxSecond {
		return sum
	}
	d.fail("second %d", base+delta)
	return 0
}

func (d *pageDecoder) float() float64 {
	b := d.bytes(8)
	if b == nil {
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(b))
	if math.IsNaN(v) || math.IsInf(v, 0) {
		d.fail("value %v", v)
	}
	return v
}

func (d *pageDecoder) string() string { return string(d.bytes(d.count(1))) }

func (d *pageDecoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *pageDecoder) bytes(n int) []byte {
	if d.err != nil || n > len(d.rest) {
		d.fail("it ends too early")
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *pageDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *pageDecoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

// skip skips a number of n bytes, as package binary returns n.
func (d *pageDecoder) skip(n int) {
	if n <= 0 {
		d.fail("not a number")
		return
	}
	d.bytes(n)
}
