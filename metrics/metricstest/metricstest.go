// Package metricstest is the conformance suite of metrics.Store. Call [Run] in the tests of every implementation. Its
// cases run one after the other. They use samples of the last hour. A case with many samples waits for at most three minutes.
package metricstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// timeout bounds the store calls of one case on a busy machine.
const timeout = 3 * time.Minute

// Run tests a store against the contract of metrics.Store. open returns an empty store for each case and registers
// its end. Samples are of the last hour.
func Run(t *testing.T, open func(t *testing.T) metrics.Store) {
	for name, test := range map[string]func(*testing.T, suite){
		"nothing":             testNothing,
		"round trip":          testRoundTrip,
		"names":               testNames,
		"types":               testTypes,
		"dimensions":          testDimensions,
		"order of series":     testOrderOfSeries,
		"ends are inclusive":  testEnds,
		"equal seconds":       testEqualSeconds,
		"equal milliseconds":  testEqualMilliseconds,
		"not finite":          testNotFinite,
		"values are exact":    testValues,
		"late points":         testLate,
		"large window":        testLargeWindow,
		"many series":         testManySeries,
		"concurrent use":      testConcurrent,
		"ended context":       testEndedContext,
		"arguments are ours":  testArguments,
		"answers are theirs":  testAnswers,
		"a window backwards":  testBackwards,
		"seconds are floored": testFloor,
		"resolution":          testResolution,
		"many slots":          testManySlots,
		"regular expression":  testRegex,
		"bad expression":      testBadRegex,
		"too many matches":    testManyMatches,
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t) // not bounded: the first call may build a server
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			test(t, suite{ctx: ctx, store: store, base: time.Now().Truncate(time.Second).Add(-30 * time.Minute)})
		})
	}
}

// suite has the store and the times of a case.
type suite struct {
	ctx   context.Context
	store metrics.Store
	base  time.Time // a whole second, half an hour ago
}

// sampleAt returns a sample of a system metric at a time after the base.
func (s suite) sampleAt(name string, d metrics.Dimensions, after time.Duration, value float64) metrics.Sample {
	return metrics.Sample{Type: metrics.System, Name: name, Dimensions: d, Time: s.base.Add(after), Value: value}
}

// all returns a query for everything of that name around the base.
func (s suite) all(name string, d metrics.Dimensions) metrics.Query {
	return metrics.Query{Type: metrics.System, Name: name, Dimensions: d, From: s.base.Add(-time.Hour), To: s.base.Add(time.Hour)}
}

func (s suite) write(t *testing.T, samples ...metrics.Sample) {
	t.Helper()
	if err := s.store.Write(s.ctx, samples); err != nil {
		t.Fatalf("Write of %d samples: %v", len(samples), err)
	}
}

func (s suite) window(t *testing.T, q metrics.Query) []metrics.Series {
	t.Helper()
	got, err := s.store.Window(s.ctx, q)
	if err != nil {
		t.Fatalf("Window of %q: %v", q.Name, err)
	}
	return got
}

func (s suite) want(t *testing.T, q metrics.Query, want ...metrics.Series) {
	t.Helper()
	got := s.window(t, q)
	// A diff of large windows takes long, so only a failure computes it.
	if !slices.EqualFunc(want, got, equal) {
		t.Errorf("window of %q %v (-want +got):\n%.4000s", q.Name, q.Dimensions, cmp.Diff(want, got))
	}
}

// equal treats nil dimensions and empty dimensions as equal.
func equal(a, b metrics.Series) bool {
	return a.Name == b.Name && maps.Equal(a.Dimensions, b.Dimensions) &&
		slices.Equal(a.Times, b.Times) && slices.Equal(a.Values, b.Values) && slices.Equal(a.Counts, b.Counts)
}

// line returns a series with these values, each that many seconds after the base.
func (s suite) line(name string, d metrics.Dimensions, points ...[2]float64) metrics.Series {
	line := metrics.Series{Name: name, Dimensions: d}
	for _, p := range points {
		line.Times = append(line.Times, s.base.Unix()+int64(p[0]))
		line.Values = append(line.Values, p[1])
	}
	return line
}

func testNothing(t *testing.T, s suite) {
	s.want(t, s.all("absent", nil))
	s.write(t)
	s.write(t, s.sampleAt("present", nil, 0, 1))
	s.want(t, s.all("absent", nil))
	s.want(t, s.all("present", metrics.Dimensions{"pool": "p"}))
	empty := s.all("present", nil)
	empty.From = s.base.Add(time.Second)
	s.want(t, empty) // a series without a point in the window does not match
}

func testRoundTrip(t *testing.T, s suite) {
	d := metrics.Dimensions{"cluster": "c", "pool": "p"}
	s.write(t, s.sampleAt("cpus", d, 60*time.Second, 2), s.sampleAt("cpus", d, 0, 1), s.sampleAt("cpus", d, 120*time.Second, 3))
	s.write(t, s.sampleAt("cpus", d, 180*time.Second, 4))
	s.want(t, s.all("cpus", nil), s.line("cpus", d, [2]float64{0, 1}, [2]float64{60, 2}, [2]float64{120, 3}, [2]float64{180, 4}))
}

func testNames(t *testing.T, s suite) {
	names := []string{
		"web,requests", "web,requests,total", "a=b", "a|b=c", "with space", `back\slash`, `quo"te`, "new\nline", "tab\t", "{}",
		"ünïcode", "日本語", "🜁", "a\u0301", "á", "\u202eright to left", "\u0000", "__name__", "weir_type", "-", ".*", strings.Repeat("n", 500),
	}
	for i, name := range names {
		d := metrics.Dimensions{"pool": name, fmt.Sprintf("dim,%d=日", i): "v"}
		s.write(t, s.sampleAt(name, d, 0, float64(i)))
	}
	for i, name := range names {
		d := metrics.Dimensions{"pool": name, fmt.Sprintf("dim,%d=日", i): "v"}
		s.want(t, s.all(name, metrics.Dimensions{"pool": name}), s.line(name, d, [2]float64{0, float64(i)}))
	}
}

func testTypes(t *testing.T, s suite) {
	for i, kind := range metrics.Types() {
		sample := s.sampleAt("same", nil, 0, float64(i))
		sample.Type = kind
		s.write(t, sample)
	}
	for i, kind := range metrics.Types() {
		q := s.all("same", nil)
		q.Type = kind
		s.want(t, q, s.line("same", nil, [2]float64{0, float64(i)}))
	}
}

func testDimensions(t *testing.T, s suite) {
	none, a, ab, b := metrics.Dimensions(nil), metrics.Dimensions{"pool": "a"}, metrics.Dimensions{"pool": "a", "app": "b"}, metrics.Dimensions{"pool": "b"}
	for i, d := range []metrics.Dimensions{none, a, ab, b} {
		s.write(t, s.sampleAt("m", d, 0, float64(i)))
	}
	lineWithout, lineA, lineAB, lineB := s.line("m", none, [2]float64{0, 0}), s.line("m", a, [2]float64{0, 1}), s.line("m", ab, [2]float64{0, 2}), s.line("m", b, [2]float64{0, 3})
	tests := map[string]struct {
		ask  metrics.Dimensions
		want []metrics.Series
	}{
		"none given, all match": {nil, []metrics.Series{lineWithout, lineAB, lineA, lineB}},
		"one given":             {a, []metrics.Series{lineAB, lineA}},
		"both given":            {ab, []metrics.Series{lineAB}},
		"another value":         {b, []metrics.Series{lineB}},
		"no such value":         {metrics.Dimensions{"pool": "A"}, nil},
		"no such dimension":     {metrics.Dimensions{"zone": "a"}, nil},
		"no pattern":            {metrics.Dimensions{"pool": ".*"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { s.want(t, s.all("m", tt.ask), tt.want...) })
	}
}

func testOrderOfSeries(t *testing.T, s suite) {
	var want []metrics.Series
	for _, d := range []metrics.Dimensions{
		nil, {"a": "1"}, {"a": "1", "b": "2"}, {"a": "1", "b": "2", "c": "3"}, {"a": "10"}, {"a": "2"}, {"b": "1"}, {"z": "ä"},
	} {
		want = append(want, s.line("m", d, [2]float64{0, 1}))
	}
	for i := range want {
		s.write(t, s.sampleAt("m", want[len(want)-1-i].Dimensions, 0, 1))
	}
	s.want(t, s.all("m", nil), want...)
}

func testEnds(t *testing.T, s suite) {
	for i := range 5 {
		s.write(t, s.sampleAt("m", nil, time.Duration(i)*time.Second, float64(i)))
	}
	tests := map[string]struct {
		from, to time.Duration
		want     []metrics.Series
	}{
		"both on a point":     {time.Second, 3 * time.Second, []metrics.Series{s.line("m", nil, [2]float64{1, 1}, [2]float64{2, 2}, [2]float64{3, 3})}},
		"one moment":          {2 * time.Second, 2 * time.Second, []metrics.Series{s.line("m", nil, [2]float64{2, 2})}},
		"seconds count whole": {time.Second + time.Millisecond, 3*time.Second - time.Millisecond, []metrics.Series{s.line("m", nil, [2]float64{1, 1}, [2]float64{2, 2})}},
		"within one second":   {time.Second + time.Millisecond, 2*time.Second - time.Millisecond, []metrics.Series{s.line("m", nil, [2]float64{1, 1})}},
		"before":              {-time.Minute, -time.Millisecond, nil},
		"after":               {5 * time.Second, time.Minute, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s.want(t, metrics.Query{Type: metrics.System, Name: "m", From: s.base.Add(tt.from), To: s.base.Add(tt.to)}, tt.want...)
		})
	}
}

func testEqualSeconds(t *testing.T, s suite) {
	var samples []metrics.Sample
	for i, v := range []float64{5, -1, 3, 3, 0} {
		samples = append(samples, s.sampleAt("m", nil, time.Second+time.Duration(i)*100*time.Millisecond, v))
	}
	s.write(t, append(samples, s.sampleAt("m", nil, 0, 9), s.sampleAt("m", nil, 2*time.Second, -9))...)
	s.want(t, s.all("m", nil), s.line("m", nil,
		[2]float64{0, 9}, [2]float64{1, -1}, [2]float64{1, 0}, [2]float64{1, 3}, [2]float64{1, 3}, [2]float64{1, 5}, [2]float64{2, -9}))
}

// testEqualMilliseconds: one value of a millisecond is stored, and the rest of the write is complete.
func testEqualMilliseconds(t *testing.T, s suite) {
	s.write(t, s.sampleAt("m", nil, 0, 1), s.sampleAt("m", nil, 0, 2), s.sampleAt("m", nil, time.Second, 3), s.sampleAt("other", nil, 0, 4))
	s.write(t, s.sampleAt("m", nil, time.Second, 5), s.sampleAt("m", nil, 2*time.Second, 6), s.sampleAt("m", nil, 0, 7))
	s.want(t, s.all("m", nil), s.line("m", nil, [2]float64{0, 7}, [2]float64{1, 5}, [2]float64{2, 6}))
	s.write(t, s.sampleAt("m", nil, 0, 1), s.sampleAt("m", nil, time.Second, 5)) // an earlier value, and the same value
	s.want(t, s.all("m", nil), s.line("m", nil, [2]float64{0, 1}, [2]float64{1, 5}, [2]float64{2, 6}))
	s.want(t, s.all("other", nil), s.line("other", nil, [2]float64{0, 4}))
}

func testNotFinite(t *testing.T, s suite) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		err := s.store.Write(s.ctx, []metrics.Sample{s.sampleAt("m", nil, 0, 1), s.sampleAt("m", nil, time.Second, value), s.sampleAt("n", nil, 0, 1)})
		if !errors.Is(err, metrics.ErrNotFinite) {
			t.Errorf("Write of %v = %v, want ErrNotFinite", value, err)
		}
		if e, ok := errors.AsType[*metrics.SampleError](err); !ok || e.Index != 1 || e.Name != "m" {
			t.Errorf("Write of %v = %v, want a SampleError of the second sample", value, err)
		}
	}
	s.want(t, s.all("m", nil))
	s.want(t, s.all("n", nil))
}

func testValues(t *testing.T, s suite) {
	values := [][2]float64{{0, 0}, {1, 0.1}, {2, -0.1}, {3, math.MaxFloat64}, {4, -math.MaxFloat64}, {5, math.SmallestNonzeroFloat64}, {6, 1 << 53}, {7, math.Pi}}
	for _, v := range values {
		s.write(t, s.sampleAt("m", nil, time.Duration(v[0])*time.Second, v[1]))
	}
	s.want(t, s.all("m", nil), s.line("m", nil, values...))
}

// testLate: a point half an hour late is inserted. A point years late may be dropped, without the others.
func testLate(t *testing.T, s suite) {
	now := 30 * time.Minute
	s.write(t, s.sampleAt("m", nil, now, 3), s.sampleAt("n", nil, now, 3))
	s.write(t, s.sampleAt("m", nil, 0, 1), s.sampleAt("m", nil, -100_000*time.Hour, 0), s.sampleAt("m", nil, time.Minute, 2), s.sampleAt("late", nil, 0, 4))
	s.want(t, s.all("m", nil), s.line("m", nil, [2]float64{0, 1}, [2]float64{60, 2}, [2]float64{now.Seconds(), 3}))
	s.want(t, s.all("late", nil), s.line("late", nil, [2]float64{0, 4}))
}

// testLargeWindow: one long series among others, 200 000 points.
func testLargeWindow(t *testing.T, s suite) {
	const long, short = 100_000, 2_000
	var want []metrics.Series
	for i := range 51 {
		points, step := short, 500*time.Millisecond
		if i == 20 {
			points, step = long, 15*time.Millisecond
		}
		d := metrics.Dimensions{"app": fmt.Sprintf("app-%02d", i)}
		line := metrics.Series{Name: "m", Dimensions: d}
		samples := make([]metrics.Sample, points)
		for j := range samples {
			samples[j] = s.sampleAt("m", d, time.Duration(j)*step, float64(j)/7)
			line.Times = append(line.Times, samples[j].Time.Unix())
			line.Values = append(line.Values, samples[j].Value)
		}
		s.write(t, samples...)
		want = append(want, line)
	}
	s.want(t, s.all("m", nil), want...)
}

// testManySeries: more series than points.
func testManySeries(t *testing.T, s suite) {
	var want []metrics.Series
	var samples []metrics.Sample
	for i := range 3000 {
		d := metrics.Dimensions{"app": fmt.Sprintf("app-%04d", i), "pool": strings.Repeat("p", 300)}
		samples = append(samples, s.sampleAt("m", d, 0, float64(i)))
		want = append(want, s.line("m", d, [2]float64{0, float64(i)}))
	}
	s.write(t, samples...)
	s.want(t, s.all("m", nil), want...)
}

// testResolution: the mean and the number of the points of each whole slot.
func testResolution(t *testing.T, s suite) {
	const slot = 5 * time.Minute
	begin := s.base.Truncate(slot).Add(-slot) // of the first of four slots; the third has no point
	at := func(d metrics.Dimensions, after time.Duration, value float64) metrics.Sample {
		return metrics.Sample{Type: metrics.App, Name: "web,m", Dimensions: d, Time: begin.Add(after), Value: value}
	}
	zone := metrics.Dimensions{"zone": "a"}
	s.write(t, at(nil, 0, 1), at(nil, time.Minute, 2), at(nil, slot-time.Millisecond, 6),
		at(nil, slot, -4), at(nil, slot+500*time.Millisecond, 8), at(nil, slot+750*time.Millisecond, 2), at(nil, 3*slot, 5),
		at(zone, slot, math.MaxFloat64), at(zone, slot+time.Second, math.MaxFloat64))
	line := func(d metrics.Dimensions, points ...[3]float64) metrics.Series {
		out := metrics.Series{Name: "web,m", Dimensions: d}
		for _, p := range points {
			out.Times = append(out.Times, begin.Unix()+int64(p[0]*slot.Seconds()))
			out.Values, out.Counts = append(out.Values, p[1]), append(out.Counts, p[2])
		}
		return out
	}
	q := metrics.Query{Type: metrics.App, Name: "web,m", From: begin, To: begin.Add(4 * slot), Resolution: slot}
	large := line(zone, [3]float64{1, math.MaxFloat64, 2})
	all := line(nil, [3]float64{0, 3, 3}, [3]float64{1, 2, 3}, [3]float64{3, 5, 1})
	s.want(t, q, all, large)
	pattern := q
	pattern.Name, pattern.Prefix, pattern.Regex = "^web,m$", "web,", true
	s.want(t, pattern, all)
	q.From, q.To = begin.Add(time.Second), begin.Add(4*slot-time.Second) // without the slots that these cut
	s.want(t, q, line(nil, [3]float64{1, 2, 3}), large)
	q.To = begin.Add(slot)
	s.want(t, q)
}

// testManySlots: more slots than one message of a store has, some with many points.
func testManySlots(t *testing.T, s suite) {
	var want []metrics.Series
	for i := range 30 {
		d := metrics.Dimensions{"app": fmt.Sprintf("app-%02d", i)}
		line := metrics.Series{Name: "m", Dimensions: d}
		var samples []metrics.Sample
		for second := range 2000 {
			line.Times = append(line.Times, s.base.Unix()+int64(second))
			line.Values, line.Counts = append(line.Values, float64(second)), append(line.Counts, 2)
			for _, part := range []time.Duration{0, 500 * time.Millisecond} {
				samples = append(samples, s.sampleAt("m", d, time.Duration(second)*time.Second+part, float64(second)-1+4*part.Seconds()))
			}
		}
		s.write(t, samples...)
		want = append(want, line)
	}
	q := s.all("m", nil)
	q.Resolution = time.Second
	s.want(t, q, want...)
}

func testConcurrent(t *testing.T, s suite) {
	const writers, writes = 4, 50
	var wg sync.WaitGroup
	for w := range writers {
		d := metrics.Dimensions{"writer": fmt.Sprint(w)}
		wg.Go(func() {
			for i := range writes {
				if err := s.store.Write(s.ctx, []metrics.Sample{s.sampleAt("m", d, time.Duration(i)*time.Second, float64(i))}); err != nil {
					t.Errorf("Write: %v", err)
					return
				}
				// An acknowledged write is visible to the next reader.
				got, err := s.store.Window(s.ctx, s.all("m", d))
				if err != nil || len(got) != 1 || len(got[0].Times) != i+1 {
					t.Errorf("after %d writes Window = %d series, %v", i+1, len(got), err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := s.window(t, s.all("m", nil)); len(got) != writers {
		t.Errorf("%d series, want %d", len(got), writers)
	}
}

func testEndedContext(t *testing.T, s suite) {
	s.write(t, s.sampleAt("m", nil, 0, 1))
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if got, err := s.store.Window(ctx, s.all("m", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("Window = %v, %v, want context.Canceled", got, err)
	}
	if err := s.store.Write(ctx, []metrics.Sample{s.sampleAt("m", nil, 0, 1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("Write = %v, want context.Canceled", err)
	}
}

// testArguments: the store does not change its arguments.
func testArguments(t *testing.T, s suite) {
	make3 := func() []metrics.Sample {
		d := metrics.Dimensions{"pool": "p", "empty": ""}
		return []metrics.Sample{s.sampleAt("m", d, 2*time.Second, 1), s.sampleAt("m", d, 0, 2), s.sampleAt("m", nil, time.Second, 3)}
	}
	samples := make3()
	s.write(t, samples...)
	if diff := cmp.Diff(make3(), samples); diff != "" {
		t.Errorf("samples were changed (-want +got):\n%s", diff)
	}
}

// testAnswers: later writes do not change a window.
func testAnswers(t *testing.T, s suite) {
	d := metrics.Dimensions{"pool": "p"}
	s.write(t, s.sampleAt("m", d, 0, 1))
	first := s.window(t, s.all("m", nil))
	s.write(t, s.sampleAt("m", d, time.Second, 2))
	if want := []metrics.Series{s.line("m", d, [2]float64{0, 1})}; !slices.EqualFunc(want, first, equal) {
		t.Errorf("window changed (-want +got):\n%s", cmp.Diff(want, first))
	}
}

func testBackwards(t *testing.T, s suite) {
	s.write(t, s.sampleAt("m", nil, 0, 1))
	q := s.all("m", nil)
	q.From, q.To = q.To, q.From
	s.want(t, q)
}

func testFloor(t *testing.T, s suite) {
	s.write(t, s.sampleAt("m", nil, 999*time.Millisecond, 1), s.sampleAt("m", nil, time.Second, 2), s.sampleAt("m", nil, 2500*time.Millisecond, 3))
	s.want(t, s.all("m", nil), s.line("m", nil, [2]float64{0, 1}, [2]float64{1, 2}, [2]float64{2, 3}))
	for _, moment := range []time.Duration{2 * time.Second, 2999 * time.Millisecond} {
		q := s.all("m", nil)
		q.From, q.To = s.base.Add(moment), s.base.Add(moment)
		s.want(t, q, s.line("m", nil, [2]float64{2, 3}))
	}
}
