package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/record"
)

func series(name string, times []int64, values []float64) record.Series {
	return record.Series{Type: metrics.System, Series: metrics.Series{Name: name, Times: times, Values: values}}
}

func TestFormat(t *testing.T) {
	var b bytes.Buffer
	w := record.NewWriter(&b)
	with := series("cpus_allocated", []int64{1700000000, 1700000060}, []float64{4, 4.5})
	with.Dimensions = metrics.Dimensions{"pool": "default", "cluster": "c"}
	for _, s := range []record.Series{with, series("empty", nil, nil)} {
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"type":"system_metrics","name":"cpus_allocated","dimensions":{"cluster":"c","pool":"default"},"points":[[1700000000,4],[1700000060,4.5]]}
{"type":"system_metrics","name":"empty","points":[]}
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	spaced := strings.NewReplacer(",", " ,\t", "[", "[ ", "}\n", "}\r\n\n").Replace(want)
	got, err := readAll(strings.NewReader(spaced))
	if diff := cmp.Diff([]record.Series{with, series("empty", nil, nil)}, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Errorf("Read: %v (-want +got):\n%s", err, diff)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []record.Series
		for i := range rapid.IntRange(0, 4).Draw(t, "series") {
			s := series(fmt.Sprint(i, rapid.String().Draw(t, "name")), nil, nil)
			s.Type = rapid.SampledFrom(metrics.Types()).Draw(t, "type")
			s.Dimensions = rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "dimensions")
			second := rapid.Int64Range(-1<<40, 1<<40).Draw(t, "first")
			for range rapid.IntRange(0, 20).Draw(t, "points") {
				second += rapid.Int64Range(1, 100).Draw(t, "step")
				v := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
				if math.IsNaN(v) || math.IsInf(v, 0) {
					v = 0
				}
				s.Times, s.Values = append(s.Times, second), append(s.Values, v)
			}
			want = append(want, s)
		}
		var b bytes.Buffer
		w := record.NewWriter(&b)
		for _, s := range want {
			if err := w.Write(s); err != nil {
				t.Fatal(err)
			}
		}
		got, err := readAll(&b)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("read again: %v (-want +got):\n%s", err, diff)
		}
	})
}

func TestBadRecords(t *testing.T) {
	const good = `{"type":"app_metrics","name":"web,m","points":[[1,2]]}` + "\n"
	tests := map[string]struct{ text, want string }{
		"not json":         {good + "\nhello", "line 3: "},
		"cut short":        {good[:20], "line 1: "},
		"unknown key":      {`{"type":"app_metrics","name":"m","points":[],"x":1}`, `unknown field "x"`},
		"two on a line":    {`{"type":"app_metrics","name":"m","points":[]}{}`, "something follows"},
		"no type":          {`{"name":"m","points":[]}`, `type ""`},
		"other type":       {`{"type":"other","name":"m","points":[]}`, `type "other"`},
		"no name":          {`{"type":"metadata","points":[]}`, "name is missing"},
		"twice":            {good + good, "line 2: series is invalid: duplicate series \"web,m\""},
		"out of order":     {`{"type":"metadata","name":"m","points":[[2,1],[1,1]]}`, "point 2 is out of order"},
		"values unordered": {`{"type":"metadata","name":"m","points":[[1,2],[1,1]]}`, "point 2 is out of order"},
		"one number":       {`{"type":"metadata","name":"m","points":[[1]]}`, `point "[1]"`},
		"three numbers":    {`{"type":"metadata","name":"m","points":[[1,2,3]]}`, `point "[1,2,3]"`},
		"no array":         {`{"type":"metadata","name":"m","points":[12]}`, `point "12"`},
		"null point":       {`{"type":"metadata","name":"m","points":[null]}`, `point "null"`},
		"null value":       {`{"type":"metadata","name":"m","points":[[1,null]]}`, `point "[1,null]"`},
		"string":           {`{"type":"metadata","name":"m","points":[[1,"2"]]}`, "point"},
		"nested":           {`{"type":"metadata","name":"m","points":[[1,[2]]]}`, "point"},
		"part of a second": {`{"type":"metadata","name":"m","points":[[1.5,2]]}`, "whole unix seconds"},
		"too large":        {`{"type":"metadata","name":"m","points":[[1,1e999]]}`, "point"},
		"NaN":              {`{"type":"metadata","name":"m","points":[[1,NaN]]}`, "line 1: "},
		"long line":        {good + strings.Repeat(" ", record.MaxLine+1), "line 2: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := readAll(strings.NewReader(tt.text))
			if !errors.Is(err, record.ErrInvalid) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("Read = %v, %v, want ErrInvalid with %q", got, err, tt.want)
			}
		})
	}
}

func TestReadEndsEarly(t *testing.T) {
	text := `{"type":"metadata","name":"a","points":[]}` + "\n" + `{"type":"metadata","name":"b","points":[]}` + "\nhello\n"
	var names []string
	for s, err := range record.Read(strings.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		if names = append(names, s.Name); len(names) == 2 {
			break
		}
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("read %q", names)
	}
}

func TestBadSeriesIsNotWritten(t *testing.T) {
	tests := map[string]record.Series{
		"no type":      {Series: metrics.Series{Name: "m"}},
		"no name":      series("", nil, nil),
		"lengths":      series("m", []int64{1}, nil),
		"NaN":          series("m", []int64{1}, []float64{math.NaN()}),
		"infinite":     series("m", []int64{1}, []float64{math.Inf(-1)}),
		"out of order": series("m", []int64{2, 1}, []float64{1, 1}),
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := record.NewWriter(&b).Write(s); !errors.Is(err, record.ErrInvalid) || b.Len() > 0 {
				t.Errorf("Write = %v and %q, want ErrInvalid and nothing", err, &b)
			}
		})
	}
}

// broken refuses all writes.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteError(t *testing.T) {
	if err := record.NewWriter(broken{}).Write(series("m", nil, nil)); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Write = %v, want the writer's error", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"type":"metadata","name":"m","dimensions":{"a":"b"},"points":[[1,2],[1,3e-5]]}` + "\n\n{}")
	f.Add(`{"type":"metadata","name":"m","points":[[1,2,3],null,[[]]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readAll(strings.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		w := record.NewWriter(&b)
		for _, s := range all {
			if err := w.Write(s); err != nil {
				t.Fatal(err)
			}
		}
		again, err := readAll(&b)
		if diff := cmp.Diff(all, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("written and read again: %v (-want +got):\n%s", err, diff)
		}
	})
}

// readAll returns all series of a record.
func readAll(r io.Reader) ([]record.Series, error) {
	var all []record.Series
	for s, err := range record.Read(r) {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
