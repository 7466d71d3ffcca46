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

// helloBytes is the first message, as the autoscaler sends it.
func helloBytes(t Target) []byte { return helloWith(t, nil) }

// helloWith is a hello with more keys at the top level.
func helloWith(t Target, more map[string]any) []byte {
	parameters := maps.Clone(t.Hello.Parameters)
	if parameters == nil {
		parameters = map[string]any{}
	}
	parameters["cluster"], parameters["pool"] = t.Hello.Cluster, t.Hello.Pool
	hello := map[string]any{"parameters": parameters, "cluster": t.Hello.Cluster, "pool": t.Hello.Pool}
	maps.Copy(hello, more)
	data, err := json.Marshal(hello)
	if err != nil {
		// Refused by Validate where a target comes from outside; an empty hello is
		// what is left.
		return []byte("{}")
	}
	return data
}

// sample returns the target's question, or one about metrics that many signals
// know.
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

// sampleTime is the moment of the question, on a whole minute.
func sampleTime(t Target) int64 {
	if t.Sample.Timestamp != 0 {
		return t.Sample.Timestamp
	}
	return time.Now().Unix() / 60 * 60
}

// line makes a series with a point a minute, the last one now, whose values have
// at most three decimals and lie between base and 2*base.
func line(name string, now int64, points int, base float64) sigproto.Series {
	s := sigproto.Series{Name: name, Times: make([]int64, points), Values: make([]float64, points)}
	for i := range points {
		s.Times[i] = now - int64(60*(points-1-i))
		s.Values[i] = math.Round(base*(1000+float64(i*7919%1000))) / 1000
	}
	return s
}

// withValues returns the question with other values in each series, and with at
// least one point.
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

// grown returns the question with at least so many series of so many points: its
// own, filled up, and others.
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

// emptied returns the question with the same series, without points.
func emptied(e sigproto.Evaluation) sigproto.Evaluation {
	out := sigproto.Evaluation{Timestamp: e.Timestamp}
	for _, s := range e.Series {
		out.Series = append(out.Series, sigproto.Series{Name: s.Name})
	}
	return out
}

// sampleBody is the body of the target's question.
func sampleBody(t Target) []byte { return body(sample(t), "") }

// body writes a question as JSON; more is put behind its last key, as `,"x":1`.
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
		name, _ := json.Marshal(s.Name) // of a string, it cannot fail
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
