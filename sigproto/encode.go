package sigproto

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// pointRoom is more than any encoded point takes, its comma included: a time of
// 20 bytes, a value of at most 26.
const pointRoom = 64

// appendBody writes the body of an evaluation.
func appendBody(dst []byte, e Evaluation) ([]byte, error) {
	dst = append(dst, `{"metrics":{`...)
	for i, s := range e.Series {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendSeries(dst, s); err != nil {
			return dst, fieldError("metrics."+s.Name, err)
		}
	}
	dst = append(dst, `},"timestamp":`...)
	dst = strconv.AppendInt(dst, e.Timestamp, 10)
	return append(dst, '}'), nil
}

// appendSeries writes one series, name and points. Nothing in it depends on
// where in a body it stands.
func appendSeries(dst []byte, s Series) ([]byte, error) {
	if len(s.Times) != len(s.Values) {
		return dst, fmt.Errorf("has %d times and %d values", len(s.Times), len(s.Values))
	}
	dst = append(appendName(dst, s.Name), ':', '[')
	if len(s.Times) == 0 {
		return append(dst, ']'), nil
	}
	var stamp timeWriter
	last := int64(math.MinInt64)
	for i, t := range s.Times {
		if t < last {
			return dst, fmt.Errorf("point %d is older than the one before it", i)
		}
		last = t
		if cap(dst)-len(dst) < pointRoom {
			dst = slices.Grow(dst, pointRoom)
		}
		w := dst[len(dst) : len(dst)+pointRoom]
		n := stamp.put(w, t)
		size := putValue(w[n:], s.Values[i])
		if size == 0 {
			return dst, fmt.Errorf("point %d is %v, want a finite number", i, s.Values[i])
		}
		n += size
		w[n], w[n+1] = ']', ','
		dst = dst[:len(dst)+n+2]
	}
	dst[len(dst)-1] = ']' // in place of the last comma
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
