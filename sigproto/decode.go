package sigproto

import (
	"encoding/binary"
)

const (
	// lookahead is the maximum length that the fast path reads for a point without bounds checks. Every buffer given to
	// a decoder must have that many bytes after its end.
	lookahead = 48
	// maxIncomplete is how much of one element (a name, a point) may be incomplete before the slow decoder reads the
	// body. It bounds repeated reading.
	maxIncomplete = 64 << 10
	// firstPoints is the initial capacity of a column.
	firstPoints = 1024
)

// decoder reads a body in its usual form while it arrives. For any unusual form, [decodeAny] reads the whole body
// again. It decides what is an error. Columns are not reused, because the receiver keeps them. Their size is estimated
// from the previous evaluation.
type decoder struct {
	state state
	pos   int // everything before it is decoded
	out   Evaluation
	names map[string]bool
	// Columns of points. Those from start on belong to the current series.
	times  []int64
	values []float64
	start  int
	points int // in this body
	before int // points of the previous body
}

// state is the next element at pos.
//
//	inHead ──► inName ──► inFirst ──► inPoints ──► inNext ──► inTail ──► done
//	  │          ▲           │ (empty)                ▲ │        ▲
//	  │          └───────────┼────────────────────────┼─┘ ','    │
//	  └──────────────────────┼────────────────────────┼──────────┘ no series
//	                         └────────────────────────┘
//	any ──► unusual
type state uint8

const (
	inHead   state = iota // {"metrics":{
	inName                // "name":[
	inFirst               // a point, or the ] of an empty series
	inPoints              // a point
	inNext                // , or } after a series
	inTail                // ,"timestamp":0}
	done
	unusual // unusual form: decodeAny must read it
)

// reset prepares for a new body.
func (d *decoder) reset() {
	*d = decoder{before: d.points, names: d.names}
	if d.names == nil {
		d.names = make(map[string]bool)
	}
	clear(d.names)
}

// feed decodes as much of the body as possible. b is the part that has arrived, with room for lookahead bytes after it.
// Each call gets all bytes of the previous calls and more.
func (d *decoder) feed(b []byte) {
	for d.state < done {
		before := d.state
		c := cursor{b: b, p: d.pos}
		ok := d.step(&c)
		switch {
		case ok:
			d.pos = c.p
		case !c.short || len(b)-d.pos > maxIncomplete:
			d.state = unusual
		default:
			d.state = before
			return
		}
	}
}

// finish returns the evaluation. b is the complete body, as given to feed.
func (d *decoder) finish(b []byte) (Evaluation, error) {
	if d.state == done {
		c := cursor{b: b, p: d.pos}
		c.space()
		if c.p == len(b) {
			return d.out, nil
		}
	}
	return decodeAny(b)
}

// step reads one element and reports whether it is complete and in the usual form.
func (d *decoder) step(c *cursor) bool {
	switch d.state {
	case inHead:
		return d.head(c)
	case inName:
		return d.name(c)
	case inFirst:
		d.state = inPoints
		if c.take(']') {
			return d.endSeries()
		}
		return !c.short
	case inPoints:
		return d.pointRun(c)
	case inNext:
		d.state = inName
		if c.take(',') {
			return true
		}
		d.state = inTail
		return c.take('}')
	default:
		return d.tail(c)
	}
}

func (d *decoder) head(c *cursor) bool {
	if !(c.take('{') && c.word("metrics") && c.take(':') && c.take('{')) {
		return false
	}
	d.state = inName
	if c.take('}') {
		d.state = inTail
		return true
	}
	return !c.short
}

func (d *decoder) name(c *cursor) bool {
	text, ok := c.text()
	if !ok || !c.take(':') || !c.take('[') {
		return false
	}
	if d.names[string(text)] {
		return false
	}
	name := string(text)
	d.names[name] = true
	d.out.Series = append(d.out.Series, Series{Name: name})
	d.state = inFirst
	return true
}

// pointRun reads points until the end of the series or the buffer.
func (d *decoder) pointRun(c *cursor) bool {
	last := int64(-1 << 63)
	if len(d.times) > d.start {
		last = d.times[len(d.times)-1]
	}
	for {
		if len(d.times) == cap(d.times) {
			d.grow()
		}
		room := c.b[c.p : c.p+lookahead]
		t, v, size := point((*[lookahead]byte)(room))
		if size == 0 || c.p+size >= len(c.b) {
			var ok bool
			if t, v, ok = c.point(); !ok {
				return false
			}
		} else {
			c.p += size
		}
		if t < last {
			return false
		}
		last = t
		separator, ok := c.separator()
		if !ok || separator != ',' && separator != ']' {
			return false
		}
		d.times, d.values = append(d.times, t), append(d.values, v)
		d.points++
		if separator == ']' {
			return d.endSeries()
		}
		d.pos = c.p
	}
}

// grow allocates columns with room for another point, and moves the current series to them. The size is at most about
// twice the number of points in this or the previous body, so a wrong length has no effect.
func (d *decoder) grow() {
	size := max(2*(len(d.times)-d.start), d.points, d.before-d.points, firstPoints)
	d.times = append(make([]int64, 0, size), d.times[d.start:]...)
	d.values = append(make([]float64, 0, size), d.values[d.start:]...)
	d.start = 0
}

func (d *decoder) endSeries() bool {
	end := len(d.times)
	s := &d.out.Series[len(d.out.Series)-1]
	if end > d.start {
		s.Times, s.Values = d.times[d.start:end:end], d.values[d.start:end:end]
	}
	d.start = end
	d.state = inNext
	return true
}

func (d *decoder) tail(c *cursor) bool {
	if !(c.take(',') && c.word("timestamp") && c.take(':')) {
		return false
	}
	t, ok := c.integer()
	if !ok || !c.take('}') {
		return false
	}
	d.out.Timestamp = t
	d.state = done
	return true
}

// point reads a point in the form that encoders write: without white space and with a time of ten digits. It returns
// its length without what follows, or 0 for another form. It may read bytes after the end of the buffer.
func point(w *[lookahead]byte) (t int64, v float64, size int) {
	first := binary.LittleEndian.Uint64(w[1:9]) ^ asciiZeros
	tens, ones := w[9]-'0', w[10]-'0'
	if w[0] != '[' || notDigits(first) != 0 || byte(first) == 0 || tens > 9 || ones > 9 || w[11] != ',' {
		return 0, 0, 0
	}
	v, size = shortValue(binary.LittleEndian.Uint64(w[12:20]))
	if size == 0 {
		v, size = number(w[12:])
		if size == 0 || 12+size >= lookahead || w[12+size] != ']' {
			return 0, 0, 0
		}
	}
	return int64(number8(first))*100 + int64(tens)*10 + int64(ones), v, 12 + size + 1
}
