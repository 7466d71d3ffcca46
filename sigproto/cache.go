package sigproto

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// pointRoom is larger than any encoded point with its comma: a time of 20 bytes and a value of at most 26.
const pointRoom = 64

// bodyCache encodes evaluations as JSON, each point once. Encoded points stay, new points are appended, and old points
// are cut off.
type bodyCache struct {
	series  seriesTable[encodedSeries]
	scratch []byte // new points of a series
	head    []byte // before the first series
	tail    []byte // after the last
}

// encode appends the body of e to vector, as pieces that are valid until the next call.
func (c *bodyCache) encode(vector [][]byte, e Evaluation) ([][]byte, error) {
	if err := checkTime(e.Timestamp); err != nil {
		return vector, fieldError("timestamp", err)
	}
	c.head = append(c.head[:0], `{"metrics":{`...)
	vector = append(vector, c.head)
	c.series.begin()
	for i, s := range e.Series {
		one, err := c.series.next(s.Name)
		if err == nil {
			c.scratch, err = one.update(c.scratch, s)
		}
		if err != nil {
			return vector, fieldError("metrics."+s.Name, err)
		}
		vector = append(vector, one.view(i == 0))
	}
	c.series.end()
	c.tail = append(c.tail[:0], `},"timestamp":`...)
	c.tail = append(strconv.AppendInt(c.tail, e.Timestamp, 10), '}')
	return append(vector, c.tail), nil
}

// encodedSeries is one series in its encoded form:
//
//	dead bytes ... ,"name":[ [time,value],[time,value]...]
//	                         ^ live
//
// The header is written into the dead bytes when the body is built. So a series is one piece of memory, however much
// was cut off before it.
type encodedSeries struct {
	sentSeries sentSeries // the content of buf
	header     []byte     // ,"name":[
	buf        []byte     // with room for the header before live
	live       int
}

// update brings the series up to s, and returns scratch for the next one. After an error the series is empty.
func (es *encodedSeries) update(scratch []byte, s Series) ([]byte, error) {
	if err := checkShape(s); err != nil {
		*es = encodedSeries{}
		return scratch, err
	}
	dropped, kept := es.sentSeries.since(s)
	scratch, err := appendPoints(scratch[:0], s, kept)
	if err != nil {
		*es = encodedSeries{}
		return scratch, err
	}
	if es.header == nil {
		es.header = append(appendName([]byte{','}, s.Name), ':', '[')
	}
	if kept == 0 {
		es.empty(len(scratch))
	} else {
		es.drop(dropped)
	}
	es.add(scratch)
	es.sentSeries.set(s, dropped, kept)
	return scratch, nil
}

// empty removes all points and makes room for size bytes.
func (es *encodedSeries) empty(size int) {
	need := len(es.header) + max(size, 1)
	if cap(es.buf) < need || cap(es.buf) > 2*(need+slack(need)) {
		es.buf = make([]byte, 0, need+slack(need))
	}
	es.live = len(es.header)
	es.buf = append(es.buf[:es.live], ']')
}

// drop removes the first n points. The series has more than n points.
func (es *encodedSeries) drop(n int) {
	for range n {
		es.live += bytes.IndexByte(es.buf[es.live:], ']') + len("],")
	}
}

// add appends points, each followed by a comma.
func (es *encodedSeries) add(points []byte) {
	es.makeRoom(len(points))
	if len(points) == 0 {
		return
	}
	end := len(es.buf) - 1
	if end > es.live { // not the first points
		es.buf[end] = ','
		end++
	}
	es.buf = append(es.buf[:end], points...)
	es.buf[len(es.buf)-1] = ']' // replaces the last comma
}

// makeRoom moves the live bytes to the front if there are too many dead bytes or no room at the end. That is rare.
func (es *encodedSeries) makeRoom(n int) {
	need := len(es.header) + len(es.buf) - es.live + n
	room := slack(need)
	if es.live-len(es.header) <= room && len(es.buf)+n <= cap(es.buf) {
		return
	}
	to := es.buf
	if cap(to) < need+room/2 || cap(to) > 2*(need+room) {
		to = make([]byte, 0, need+room)
	}
	to = to[:need-n]
	copy(to[len(es.header):], es.buf[es.live:])
	es.buf, es.live = to, len(es.header)
}

// slack returns the allowed number of dead and free bytes for a number of live bytes.
func slack(live int) int { return live/8 + 1<<10 }

// view returns the series as part of a body.
func (es *encodedSeries) view(first bool) []byte {
	start := es.live - len(es.header)
	copy(es.buf[start:], es.header)
	if first {
		start++ // without the comma
	}
	return es.buf[start:]
}

// appendPoints encodes the points of s starting at index from, each followed by a comma.
func appendPoints(dst []byte, s Series, from int) ([]byte, error) {
	if err := checkTimes(s.Times, from); err != nil {
		return dst, err
	}
	var stamp timeWriter
	values := s.Values[from:]
	for i, t := range s.Times[from:] {
		if cap(dst)-len(dst) < pointRoom {
			dst = slices.Grow(dst, pointRoom)
		}
		w := dst[len(dst) : len(dst)+pointRoom]
		n := stamp.put(w, t)
		size := putValue(w[n:], values[i])
		if size == 0 {
			return dst, fmt.Errorf("point %d is %v, want a finite number", from+i, values[i])
		}
		n += size
		w[n], w[n+1] = ']', ','
		dst = dst[:len(dst)+n+2]
	}
	return dst, nil
}

func appendName(dst []byte, name string) []byte {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(name) // never fails for a string
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"')
}
