package sigproto

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Limits of the columnar body.
const (
	columnarMark = 0xC1
	maxSeries    = 1 << 20
	maxName      = 1<<16 - 1 // bytes
	maxTime      = 1e15 - 1  // seconds before and after 1970; also for JSON bodies
)

// keptBody is the largest columnar body whose memory is reused. Larger ones, with complete windows, are released.
const keptBody = 256 << 10

// columnarWriter encodes evaluations as columnar bodies. Its state mirrors the receiver's, so it belongs to one
// connection. It must be reset if a body was not accepted.
type columnarWriter struct {
	series seriesTable[sentSeries]
	next   uint64 // of the next body
	body   []byte
}

// reset makes the next body a complete one.
func (c *columnarWriter) reset() { *c = columnarWriter{} }

// encode returns the body of e. It is valid until the next call.
func (c *columnarWriter) encode(e Evaluation) ([]byte, error) {
	if cap(c.body) > keptBody {
		c.body = nil
	}
	if len(e.Series) > maxSeries {
		return nil, fieldError("metrics", fmt.Errorf("has %d series, want at most %d", len(e.Series), maxSeries))
	}
	if err := checkTime(e.Timestamp); err != nil {
		return nil, fieldError("timestamp", err)
	}
	c.body = append(c.body[:0], columnarMark)
	c.body = binary.AppendUvarint(c.body, c.next)
	c.body = binary.AppendVarint(c.body, e.Timestamp)
	c.body = binary.AppendUvarint(c.body, uint64(len(e.Series)))
	c.series.begin()
	if c.next == 0 {
		c.body = slices.Grow(c.body, sizeHint(e.Series))
	}
	for _, s := range e.Series {
		known, err := c.series.next(s.Name)
		if err == nil {
			err = c.append(known, s)
		}
		if err != nil {
			return nil, fieldError("metrics."+s.Name, err)
		}
	}
	c.series.end()
	c.next++
	return c.body, nil
}

// sizeHint estimates the size of a complete body. Adjacent points are usually less than 8192 seconds apart.
func sizeHint(all []Series) (size int) {
	for _, s := range all {
		size += len(s.Name) + 10*len(s.Times) + 4*binary.MaxVarintLen16
	}
	return size
}

func (c *columnarWriter) append(known *sentSeries, s Series) error {
	if err := checkShape(s); err != nil {
		return err
	}
	if len(s.Name) > maxName {
		return fmt.Errorf("has a name of %d bytes, want at most %d", len(s.Name), maxName)
	}
	dropped, kept := known.since(s)
	if err := checkTimes(s.Times, kept); err != nil {
		return err
	}
	body := binary.AppendUvarint(c.body, uint64(len(s.Name)))
	body = append(body, s.Name...)
	body = binary.AppendUvarint(body, uint64(dropped))
	body = binary.AppendUvarint(body, uint64(len(s.Times)-kept))
	last := int64(0)
	if kept > 0 {
		last = s.Times[kept-1]
	}
	for _, t := range s.Times[kept:] {
		body = binary.AppendVarint(body, t-last)
		last = t
	}
	for i, v := range s.Values[kept:] {
		bits := math.Float64bits(v)
		if !finite(bits) {
			return fmt.Errorf("point %d is %v, want a finite number", kept+i, v)
		}
		body = binary.LittleEndian.AppendUint64(body, bits)
	}
	c.body = body
	known.set(s, dropped, kept)
	return nil
}

// finite reports whether the bits are those of a finite number.
func finite(bits uint64) bool { return bits>>52&0x7ff != 0x7ff }
