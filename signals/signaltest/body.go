package signaltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// helloBytes returns the first message, as the autoscaler sends it.
func helloBytes(t Target) []byte { return helloWith(t, nil) }

// helloWith returns a hello with additional keys at the top level.
func helloWith(t Target, more map[string]any) []byte {
	parameters := maps.Clone(t.Hello.Parameters)
	if parameters == nil {
		parameters = map[string]any{}
	}
	parameters["cluster"], parameters["pool"] = t.Hello.Cluster, t.Hello.Pool
	hello := map[string]any{"parameters": parameters, "cluster": t.Hello.Cluster, "pool": t.Hello.Pool, "setpoint": t.Hello.Setpoint}
	maps.Copy(hello, more)
	data, err := json.Marshal(hello)
	if err != nil {
		// Validate rejects such parameters of a target.
		return []byte("{}")
	}
	return data
}

// sample returns the target's request, or one with metrics that many signals use.
func sample(t Target) sigproto.Evaluation {
	if len(t.Sample.Series) > 0 {
		return t.Sample
	}
	e := sigproto.Evaluation{Timestamp: sampleTime(t)}
	for i, name := range []string{"cpus_allocated", "mem_allocated", "disk_allocated", "requests"} {
		e.Series = append(e.Series, line(name, e.Timestamp, 60, float64(10*(i+1))))
	}
	return e
}

// sampleTime returns the time of the request, a whole minute.
func sampleTime(t Target) int64 {
	if t.Sample.Timestamp != 0 {
		return t.Sample.Timestamp
	}
	return time.Now().Unix() / 60 * 60
}

// line returns a series with a point a minute, the last one at now. Values are between base and 2*base, with at most
// three decimals.
func line(name string, now int64, points int, base float64) sigproto.Series {
	s := sigproto.Series{Name: name, Times: make([]int64, points), Values: make([]float64, points)}
	for i := range points {
		s.Times[i] = now - int64(60*(points-1-i))
		s.Values[i] = math.Round(base*(1000+float64(i*7919%1000))) / 1000
	}
	return s
}

// withValues returns the request with other values in each series, and at least one point each.
func withValues(e sigproto.Evaluation, values []float64) sigproto.Evaluation {
	out := sigproto.Evaluation{Timestamp: e.Timestamp}
	for _, s := range e.Series {
		n := max(len(s.Values), len(values))
		filled := line(s.Name, e.Timestamp, n, 1)
		for i := range n {
			filled.Values[i] = values[i%len(values)]
		}
		out.Series = append(out.Series, filled)
	}
	return out
}

// grown returns the request with at least this number of series and points: its own series, extended, and others.
func grown(e sigproto.Evaluation, series, points int) sigproto.Evaluation {
	out := sigproto.Evaluation{Timestamp: e.Timestamp}
	for _, s := range e.Series {
		base := 1.0
		if len(s.Values) > 0 {
			base = s.Values[len(s.Values)-1]
		}
		out.Series = append(out.Series, line(s.Name, e.Timestamp, points, base))
	}
	for i := len(out.Series); i < series; i++ {
		out.Series = append(out.Series, line(fmt.Sprintf("signaltest_%03d", i), e.Timestamp, points, 100))
	}
	return out
}

// emptied returns the request with the same series, without points.
func emptied(e sigproto.Evaluation) sigproto.Evaluation {
	out := sigproto.Evaluation{Timestamp: e.Timestamp}
	for _, s := range e.Series {
		out.Series = append(out.Series, sigproto.Series{Name: s.Name})
	}
	return out
}

// sampleBody returns the body of the target's request.
func sampleBody(t Target) []byte { return body(sample(t), "") }

// body encodes a request as JSON. more is appended after its last key, for example `,"x":1`.
func body(e sigproto.Evaluation, more string) []byte {
	size := 64 + len(more)
	for _, s := range e.Series {
		size += 16 + len(s.Name) + 32*len(s.Times)
	}
	b := append(make([]byte, 0, size), `{"metrics":{`...)
	for i, s := range e.Series {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(s.Name) // cannot fail for a string
		b = append(append(b, name...), `:[`...)
		b = appendPoints(b, s)
		b = append(b, ']')
	}
	b = strconv.AppendInt(append(b, `},"timestamp":`...), e.Timestamp, 10)
	return append(append(b, more...), '}')
}

func appendPoints(b []byte, s sigproto.Series) []byte {
	for i, t := range s.Times {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '['), t, 10)
		b = strconv.AppendFloat(append(b, ','), s.Values[i], 'g', -1, 64)
		b = append(b, ']')
	}
	return b
}
