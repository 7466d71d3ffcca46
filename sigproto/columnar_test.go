package sigproto

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func errorsAsField(err error) (string, bool) {
	field, ok := errors.AsType[*FieldError](err)
	if !ok {
		return "", false
	}
	return field.Field, true
}

// read decodes a body that arrives in pieces of that size.
func (d *columnarReader) read(body []byte, piece int) (Evaluation, error) {
	d.begin(len(body))
	var buffer []byte
	for n := 0; n < len(body); n += piece {
		buffer = append(buffer, body[n:min(n+piece, len(body))]...)
		buffer = slices.Clone(buffer[d.feed(buffer):])
	}
	return d.finish()
}

// The two bodies of the specification, encoded by hand.
var (
	goldenWhole = "\xc1" + "\x00" + "\x80\xc4\x9f\xd5\x0c" + "\x02" + // sequence 0, now 1700000000, two series
		"\x01a" + "\x00" + "\x02" + "\x88\xc3\x9f\xd5\x0c" + "\x78" + "\x00\x00\x00\x00\x00\x00\xf8\x3f" + "\x00\x00\x00\x00\x00\x00\x00\xc0" +
		"\x00" + "\x00" + "\x00"
	goldenDelta = "\xc1" + "\x01" + "\xf8\xc4\x9f\xd5\x0c" + "\x01" +
		"\x01a" + "\x01" + "\x01" + "\x78" + "\x00\x00\x00\x00\x00\x00\x00\x80"
	goldenWindows = []Evaluation{
		{Timestamp: 1_700_000_000, Series: []Series{
			{Name: "a", Times: []int64{1_699_999_940, 1_700_000_000}, Values: []float64{1.5, -2}, Lineage: 7}, {Lineage: 8},
		}},
		{Timestamp: 1_700_000_060, Series: []Series{
			{Name: "a", Times: []int64{1_700_000_000, 1_700_000_060}, Values: []float64{-2, math.Copysign(0, -1)}, Lineage: 7},
		}},
	}
)

func TestColumnarGolden(t *testing.T) {
	var w columnarWriter
	for piece := range 30 {
		var r columnarReader
		for i, want := range []string{goldenWhole, goldenDelta} {
			if piece == 0 {
				body, err := w.encode(goldenWindows[i])
				if err != nil || string(body) != want {
					t.Errorf("body %d = %q, %v; want %q", i, body, err, want)
				}
			}
			got, err := r.read([]byte(want), piece+1)
			if err != nil {
				t.Fatalf("body %d in pieces of %d: %v", i, piece+1, err)
			}
			if diff := cmp.Diff(received(goldenWindows[i]), got, cmp.Comparer(sameBits)); diff != "" {
				t.Errorf("body %d in pieces of %d (-want +got):\n%s", i, piece+1, diff)
			}
		}
	}
}

func uvarint(n uint64) string { return string(binary.AppendUvarint(nil, n)) }
func varint(n int64) string   { return string(binary.AppendVarint(nil, n)) }

func TestColumnarRefuses(t *testing.T) {
	const one, nan = "\x00\x00\x00\x00\x00\x00\xf0\x3f", "\x01\x00\x00\x00\x00\x00\xf0\x7f"
	head := "\xc1\x00\x00\x01\x01m" // one series m
	for _, test := range []struct{ name, body, text string }{
		{"only the mark", "\xc1", "is truncated"},
		{"sequence of 11 bytes", "\xc1" + strings.Repeat("\x80", 11), "more than 64 bits"},
		{"another sequence", "\xc1\x05\x00\x00", "sequence is 5, want 1 or 0"},
		{"now beyond", "\xc1\x00" + varint(1e15) + "\x00", "timestamp: "},
		{"too many series", "\xc1\x00\x00" + uvarint(maxSeries+1), "at most 1048576"},
		{"fewer series", "\xc1\x00\x00\x01", "is truncated"},
		{"more behind", "\xc1\x00\x00\x00x", "unexpected data after"},
		{"name too long", "\xc1\x00\x00\x01" + uvarint(1<<16), "at most 65535"},
		{"name is cut", "\xc1\x00\x00\x01\x05m", "is truncated"},
		{"name twice", "\xc1\x00\x00\x02\x01m\x00\x00\x01m\x00\x00", "metrics.m: appears twice"},
		{"start beyond", head + "\x01\x00", "metrics.m: starts at 1 of 0"},
		{"start beyond what is held", "\xc1\x01\x00\x01\x04held\x02\x00", "metrics.held: starts at 2 of 1"},
		{"older than what is held", "\xc1\x01\x00\x01\x04held\x00\x01\x01" + one, "metrics.held: point 1 is older"},
		{"count that does not fit", head + "\x00\x02" + "\x00\x00" + one, "metrics.m: has 2 points"},
		{"count of 2^63", head + "\x00" + uvarint(1<<63), "at most"},
		{"times are cut", head + "\x00\x01" + strings.Repeat("\x80", 9), "is truncated"},
		{"values are cut", head + "\x00\x02\x00\x00" + one + one[:7] + "", "metrics.m: has 2 points"},
		{"time of 11 bytes", head + "\x00\x01" + strings.Repeat("\x80", 20), "more than 64 bits"},
		{"time beyond", head + "\x00\x01" + varint(1e15) + one, "metrics.m: time of point 0"},
		{"time far before", head + "\x00\x01" + varint(math.MinInt64) + one, "metrics.m: time of point 0"},
		{"time that overflows", head + "\x00\x02" + varint(5) + varint(math.MaxInt64) + one + one, "metrics.m: time of point 1"},
		{"time goes back", head + "\x00\x02" + varint(5) + varint(-1) + one + one, "metrics.m: point 1 is older"},
		{"NaN", head + "\x00\x01\x00" + nan, "metrics.m: point 0 is NaN"},
		{"infinity", head + "\x00\x02\x00\x00" + one + "\x00\x00\x00\x00\x00\x00\xf0\xff", "metrics.m: point 1 is -Inf"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, piece := range []int{1, 7, 1000} {
				var d columnarReader
				before := "\xc1\x00\x00\x01\x04held\x00\x01\x00" + one
				if _, err := d.read([]byte(before), 1000); err != nil {
					t.Fatal(err)
				}
				if _, err := d.read([]byte(test.body), piece); err == nil || !strings.Contains(err.Error(), test.text) {
					t.Errorf("in pieces of %d: error = %v, want %q", piece, err, test.text)
				}
				if _, err := d.read([]byte("\xc1\x01\x00\x00"), piece); err == nil {
					t.Errorf("in pieces of %d: the next sequence is taken", piece)
				}
				if _, err := d.read([]byte(before), piece); err != nil {
					t.Errorf("in pieces of %d: a whole body afterwards: %v", piece, err)
				}
			}
		})
	}
}

// A body with wrong counts uses no more memory than its bytes need.
func TestColumnarWrongCountsAreBounded(t *testing.T) {
	d := columnarReader{}
	d.begin(1 << 30)
	body := "\xc1\x00\x00" + uvarint(maxSeries) + "\x01m\x00" + uvarint(100<<20) + "\x00"
	d.feed([]byte(body))
	if n := cap(d.window.times) + cap(d.window.values) + cap(d.out.Series); d.err != nil || n > 4*firstPoints {
		t.Errorf("room for %d elements was taken, error %v", n, d.err)
	}
}

// Returned evaluations do not change, and memory stays bounded.
func TestColumnarWindowsStay(t *testing.T) {
	var w columnarWriter
	var r columnarReader
	slide := newSlide(2, 300, 1)
	var all, want []Evaluation
	for i := range 1000 {
		e := slide.next()
		body, err := w.encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && len(body) > 60 {
			t.Fatalf("tick %d takes %d bytes", i, len(body))
		}
		got, err := r.read(body, 1000)
		if err != nil {
			t.Fatal(err)
		}
		m := model{evaluation: e}
		all, want = append(all, got), append(want, received(m.snapshot()))
		if n := cap(r.windows.order[0].kept.times); n > 2000 {
			t.Fatalf("room for %d times is held", n)
		}
	}
	// cmp takes most of a minute for so many points, so it only shows a difference.
	if !reflect.DeepEqual(want, all) {
		t.Errorf("(-want +got):\n%.2000s", cmp.Diff(want, all))
	}
}

// A series with a lineage is not compared; one without is.
func TestLineage(t *testing.T) {
	for _, test := range []struct {
		name    string
		lineage uint64
		values  []float64
		next    uint64 // lineage of the second evaluation
		points  int    // sent in the second body
	}{
		{"trusted", 1, []float64{1, 2, 3, 4}, 1, 1},
		{"trusted, a change within", 1, []float64{1, 9, 3, 4}, 1, 1},
		{"trusted, but the end differs", 1, []float64{1, 2, 9, 4}, 1, 4},
		{"another lineage", 1, []float64{1, 2, 3, 4}, 2, 4},
		{"no lineage any more", 1, []float64{1, 2, 3, 4}, 0, 4},
		{"compared", 0, []float64{1, 2, 3, 4}, 0, 1},
		{"compared, a change within", 0, []float64{1, 9, 3, 4}, 0, 4},
		{"compared, minus zero", 0, []float64{math.Copysign(0, -1), 2, 3, 4}, 0, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := []float64{1, 2, 3}
			if test.name == "compared, minus zero" {
				first[0] = 0
			}
			var known sentSeries
			a := Series{Times: []int64{1, 2, 3}, Values: first, Lineage: test.lineage}
			known.set(a, 0, 0)
			b := Series{Times: []int64{1, 2, 3, 4}, Values: test.values, Lineage: test.next}
			if _, kept := known.since(b); len(b.Times)-kept != test.points {
				t.Errorf("%d points go, want %d", len(b.Times)-kept, test.points)
			}
		})
	}
}

func TestColumnarRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		var w columnarWriter
		var r columnarReader
		for range rapid.IntRange(1, 20).Draw(t, "ticks") {
			for range rapid.IntRange(0, 5).Draw(t, "changes") {
				m.change(t)
			}
			body, err := w.encode(m.snapshot())
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.read(body, rapid.IntRange(1, 100).Draw(t, "piece"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(received(m.snapshot()), got, cmp.Comparer(sameBits)); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}
	})
}

// Two consecutive bodies: the result does not depend on how they are split.
func FuzzColumnar(f *testing.F) {
	f.Add([]byte(goldenWhole), []byte(goldenDelta), 3)
	f.Add([]byte(goldenWhole), []byte(goldenWhole), 1)
	f.Add([]byte("\xc1\x00\x00\x01\x01m\x00\xff\xff\xff\x7f"), []byte(goldenDelta), 1)
	f.Fuzz(func(t *testing.T, first, second []byte, piece int) {
		piece = max(piece, 1)
		var whole, pieces columnarReader
		for _, body := range [][]byte{first, second} {
			if len(body) == 0 {
				return
			}
			want, wantErr := whole.read(body, len(body))
			got, err := pieces.read(body, piece)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("whole: %v, in pieces: %v", wantErr, err)
			}
			if !cmp.Equal(want, got, cmp.Comparer(sameBits)) {
				t.Fatal(cmp.Diff(want, got, cmp.Comparer(sameBits)))
			}
			if err != nil {
				continue
			}
			var w columnarWriter
			again, err := w.encode(got)
			if err != nil {
				t.Fatalf("accepted what cannot be sent: %v", err)
			}
			var r columnarReader
			if back, err := r.read(again, piece); err != nil || !cmp.Equal(got, back, cmp.Comparer(sameBits)) {
				t.Fatalf("came back as %+v, %v; want %+v", back, err, got)
			}
		}
	})
}
