package embedded

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/metrics"
)

var dimensions = rapid.MapOfN(rapid.String(), rapid.String(), 0, 4)

func drawPage(t *rapid.T) Page {
	var p Page
	if rapid.Bool().Draw(t, "more") {
		p.Next = &Cursor{
			Name:       rapid.String().Draw(t, "name"),
			Dimensions: dimensions.Draw(t, "after"),
			Second:     rapid.Int64Range(minSecond, maxSecond).Draw(t, "second"),
		}
	}
	for range rapid.IntRange(0, 4).Draw(t, "series") {
		s := metrics.Series{Name: rapid.String().Draw(t, "name"), Dimensions: dimensions.Draw(t, "dimensions")}
		second := rapid.Int64Range(minSecond, 0).Draw(t, "first")
		for range rapid.IntRange(1, 20).Draw(t, "points") {
			value := rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, "value")
			if n := len(s.Times); n > 0 && s.Times[n-1] == second {
				value = max(value, s.Values[n-1]) // the values of one second are sorted
			}
			s.Times, s.Values = append(s.Times, second), append(s.Values, value)
			second += rapid.SampledFrom([]int64{0, 0, 1, 60, 1 << 20}).Draw(t, "step")
		}
		p.Series = append(p.Series, s)
	}
	return p
}

func TestPageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawPage(t)
		got, err := decodePage(encodePage(want))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Page{}), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("decoded: %v (-want +got):\n%s", err, diff)
		}
	})
}

// TestPageCutShort: no prefix of a page is a valid page.
func TestPageCutShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := encodePage(drawPage(t))
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		if p, err := decodePage(data[:cut]); err == nil {
			t.Fatalf("the first %d of %d bytes are %+v", cut, len(data), p)
		}
	})
}

func FuzzDecodePage(f *testing.F) {
	f.Add([]byte{pageVersion, 0, 0})
	f.Add(encodePage(Page{
		Next:   &Cursor{Name: "m", Dimensions: metrics.Dimensions{"a": "b"}, Second: 7},
		Series: []metrics.Series{{Name: "m", Dimensions: metrics.Dimensions{"a": "b"}, Times: []int64{5, 5, 6}, Values: []float64{1, 2, -3}}},
	}))
	f.Add([]byte{pageVersion, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePage(data)
		if err != nil {
			return
		}
		again, err := decodePage(encodePage(p))
		if diff := cmp.Diff(p, again, cmp.AllowUnexported(Page{}), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("encoded and decoded again: %v (-want +got):\n%s", err, diff)
		}
	})
}

func FuzzDecodeRequests(f *testing.F) {
	f.Add([]byte(`{"samples":[{"type":"metadata","name":"m","dimensions":{"a":"b"},"time_ms":1,"value":1e3}]}`))
	f.Add([]byte(`{"type":"metadata","name":"m","from":-1,"to":1,"regex":true,"prefix":"p","after":{"name":"m","dimensions":{"a":"b"},"second":0}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if samples, err := decodeWrite(data); err == nil {
			_ = CheckSamples(time.Unix(0, 0), samples)
		}
		if q, after, err := decodeWindow(data); err == nil && after != nil {
			if from := Second(q.From.Unix()); max(from, after.Second) < from {
				t.Errorf("cursor %+v leads back", after)
			}
		}
	})
}

func FuzzDecodeError(f *testing.F) {
	f.Add([]byte(`{"error":{"code":"malformed","message":"x"}}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"dropped":2}`))
	f.Add([]byte(`{"dropped":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := decodeError(data); err != nil {
			_ = err.Error()
		}
		if n, err := decodeWritten(data); n < 0 || n > maxRequest || err != nil && !errors.Is(err, ErrBadAnswer) {
			t.Errorf("dropped %d, %v", n, err)
		}
	})
}

func TestEncodeWritesIsBounded(t *testing.T) {
	sample := metrics.Sample{Type: metrics.System, Name: strings.Repeat("n", 100), Time: time.Unix(1, 0)}
	tests := map[string]struct{ samples, limit, want int }{
		"all in one":           {10, maxRequest, 1},
		"one each":             {10, 1, 10},
		"several in each":      {10_000, 64 << 10, 25},
		"one sample, no limit": {1, math.MaxInt, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			samples := make([]metrics.Sample, tt.samples)
			for i := range samples {
				samples[i] = sample
			}
			requests, err := encodeWrites(samples, tt.limit)
			if err != nil || len(requests) != tt.want {
				t.Fatalf("%d requests, %v, want %d", len(requests), err, tt.want)
			}
			var got []metrics.Sample
			for _, r := range requests {
				part, err := decodeWrite(r)
				if err != nil || (tt.want < tt.samples && len(r) > tt.limit) {
					t.Fatalf("request of %d bytes: %v", len(r), err)
				}
				got = append(got, part...)
			}
			if diff := cmp.Diff(samples, got); diff != "" {
				t.Errorf("decoded (-want +got):\n%.1000s", diff)
			}
		})
	}
}

// TestLargestSampleFitsARequest: every sample that CheckSample accepts fits a request.
func TestLargestSampleFitsARequest(t *testing.T) {
	s := metrics.Sample{Type: metrics.InstanceCounts, Name: strings.Repeat("\x00", metrics.MaxName), Dimensions: metrics.Dimensions{}, Time: time.Unix(1, 0)}
	for i := range metrics.MaxDimensions {
		s.Dimensions[strings.Repeat("\x00", metrics.MaxDimName-1)+string(rune('A'+i))] = strings.Repeat("\x00", metrics.MaxDimValue)
	}
	if err := metrics.CheckSample(time.Unix(1, 0), s); err != nil {
		t.Fatal(err)
	}
	requests, err := encodeWrites([]metrics.Sample{s, s}, maxRequest)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if _, err := decodeWrite(r); err != nil {
			t.Errorf("request of %d bytes: %v", len(r), err)
		}
	}
}
