package backfill

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/metrics/record"
)

// opened returns a real store.
func opened(t *testing.T, c tsdbstore.Config) *tsdbstore.Store {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	s, err := tsdbstore.Open(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func config(now time.Time) Config {
	return Config{App: "web", Precision: "s", Now: now, Timeout: time.Minute}
}

// values returns the values that a store has of a metric of the last ten days.
func values(t *testing.T, s *tsdbstore.Store, name string, now time.Time) (all []float64) {
	t.Helper()
	found, err := s.Window(t.Context(), metrics.Query{Type: metrics.App, Name: name, From: now.Add(-240 * time.Hour), To: now})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range found {
		all = append(all, one.Values...)
	}
	return all
}

// TestRefusedLinesAreNamed writes good and bad lines: the good ones are written, the bad ones are
// named with the reason, and a second run changes nothing.
func TestRefusedLinesAreNamed(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	s := opened(t, tsdbstore.Config{Retention: 48 * time.Hour})
	if err := s.Write(t.Context(), []metrics.Sample{{Type: metrics.App, Name: "web,now", Time: now, Value: 1}}); err != nil {
		t.Fatal(err)
	}
	at := func(ago time.Duration) int64 { return now.Add(-ago).Unix() }
	lines := []struct{ text, reason string }{
		{"# a comment", ""},
		{fmt.Sprintf("requests value=1 %d", at(3*time.Hour)), ""},
		{fmt.Sprintf("requests,app=mail,zone=a value=2,errors=3i %d", at(2*time.Hour)), ""},
		{fmt.Sprintf("requests value=2 %d", at(5*time.Hour)), ""},
		{fmt.Sprintf("requests value=8 %d", at(3*time.Hour)), ""},
		{fmt.Sprintf("requests value=7 %d", at(100*time.Hour)), "older than the store keeps values"},
		{fmt.Sprintf("requests value=1 %d", now.UnixNano()), "is the unit of the timestamps s? Give --precision"},
		{"requests value=1 5", "1970-01-01T00:00:05Z: is the unit"},
		{"requests value=\"text\"", "a string is not a metric value"},
		{"requests,app=../x value=1", "want letters, digits"},
		{"\x00\xff\xfe binary", "column"},
		{strings.Repeat("x", 200<<10) + " value=1", "the line is too long"},
		{"", ""},
		{fmt.Sprintf("requests value=3 %d", at(time.Hour)), ""},
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(l.text + "\n")
	}
	for run := range 2 {
		got, err := Run(t.Context(), s, strings.NewReader(text.String()), config(now))
		if err != nil {
			t.Fatal(err)
		}
		if got.Lines != len(lines) || got.Written != 6 || got.Refused != 7 || got.Unsure != 0 {
			t.Errorf("run %d: %+v, want %d lines, 6 values written and 7 refused", run, got, len(lines))
		}
		reasons := map[int]string{}
		for _, p := range got.Problems {
			reasons[p.Line] = p.Reason
		}
		for i, l := range lines {
			if reason := reasons[i+1]; (reason != "") != (l.reason != "") || !strings.Contains(reason, l.reason) {
				t.Errorf("run %d: line %d, %.60q: %q, want %q", run, i+1, l.text, reason, l.reason)
			}
		}
		if got := values(t, s, "web,requests", now); fmt.Sprint(got) != "[2 8 3]" {
			t.Errorf("run %d: the store has %v, want [2 1 3]", run, got)
		}
		if got := values(t, s, "mail,requests_errors", now); fmt.Sprint(got) != "[3]" {
			t.Errorf("run %d: the store has %v, want [3]", run, got)
		}
	}
}

// TestRecordIsWrittenAgain writes what a record has, packed and unpacked.
func TestRecordIsWrittenAgain(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	one := metrics.Series{Name: "web,requests", Times: []int64{now.Unix() - 60, now.Unix() - 30}, Values: []float64{4, 5}}
	two := metrics.Series{Name: "cpus_allocated", Dimensions: metrics.Dimensions{"pool": "default"}, Times: one.Times, Values: one.Values}
	var text, packed bytes.Buffer
	w := record.NewWriter(&text)
	if err := errors.Join(w.Write(record.Series{Type: metrics.App, Series: one}), w.Write(record.Series{Type: metrics.System, Series: two})); err != nil {
		t.Fatal(err)
	}
	text.WriteString(`{"type":"app_metrics","name":"web,early","points":[[5,1]]}` + "\n{broken\n\n")
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]io.Reader{"plain": &text, "gzip": &packed} {
		s := opened(t, tsdbstore.Config{})
		got, err := Run(t.Context(), s, in, config(now))
		if err != nil || got.Written != 4 || got.Refused != 2 || len(got.Problems) != 2 || got.Problems[0].Line != 3 || got.Problems[1].Line != 4 {
			t.Errorf("%s: %+v, %v, want 4 values written, and lines 3 and 4 refused", name, got, err)
		}
		if got := values(t, s, "web,requests", now); fmt.Sprint(got) != "[4 5]" {
			t.Errorf("%s: the store has %v, want [4 5]", name, got)
		}
	}
}

// TestTooManySeriesCostTheirLines writes more series than an application may have: those that fit, and
// values of known series, are written.
func TestTooManySeriesCostTheirLines(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	s := opened(t, tsdbstore.Config{MaxOfApp: 3})
	var text strings.Builder
	for i := range 6 {
		fmt.Fprintf(&text, "m%d value=1 %d\n", i, now.Unix()-int64(60-i))
	}
	fmt.Fprintf(&text, "m0 value=2 %d\n", now.Unix())
	got, err := Run(t.Context(), s, strings.NewReader(text.String()), config(now))
	if err != nil || got.Written != 4 || got.Refused != 3 || len(got.Problems) != 3 || got.Problems[0].Line != 4 || !strings.Contains(got.Problems[0].Reason, "too many series") {
		t.Errorf("%+v, %v, want 4 values written, and lines 4 to 6 refused", got, err)
	}
}

// dying is a store that stops to answer.
type dying struct {
	*tsdbstore.Store
	left int
	end  context.CancelFunc
}

func (d *dying) Put(ctx context.Context, samples []metrics.Sample) (int, error) {
	if d.left--; d.left < 0 {
		d.end()
		return 0, ctx.Err()
	}
	return d.Store.Put(ctx, samples)
}

// TestEndInTheMidst ends a run before its end: the result states the written data, and a second run
// completes it.
func TestEndInTheMidst(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	s := opened(t, tsdbstore.Config{})
	var text strings.Builder
	for i := range 3 * batchSize {
		fmt.Fprintf(&text, "requests value=%d %d\n", i, now.Unix()-int64(3*batchSize-i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, err := Run(ctx, &dying{s, 2, cancel}, strings.NewReader(text.String()), config(now))
	if !errors.Is(err, context.Canceled) || got.Written != 2*batchSize || got.Unsure != batchSize || got.Lines != 3*batchSize {
		t.Errorf("%+v, %v, want two batches written, and one unsure", got, err)
	}
	steps := 0
	c := config(now)
	c.Progress = func(Result) { steps++ }
	got, err = Run(t.Context(), s, strings.NewReader(text.String()), c)
	if err != nil || got.Written != 3*batchSize || got.Refused != 0 || steps != 3 {
		t.Errorf("%+v, %v, %d steps, want all written in 3 steps", got, err, steps)
	}
	if n := len(values(t, s, "web,requests", now)); n != 3*batchSize {
		t.Errorf("the store has %d values, want %d", n, 3*batchSize)
	}
}

// TestEndWhileTheInputWaits ends a run whose input sends nothing more.
func TestEndWhileTheInputWaits(t *testing.T) {
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, all{}, in, config(time.Now()))
		ended <- err
	}()
	if _, err := out.Write([]byte("requests value=1\n")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want %v", err, context.Canceled)
	}
	out.Close()
}

// TestInputThatIsCut reads a gzip that is cut: the lines before the cut are written, and the error states where it ends.
func TestInputThatIsCut(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 1000 {
		fmt.Fprintf(z, "requests value=%d %d\n", i*i*i%997, now.Unix()-int64(1000-i))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s := opened(t, tsdbstore.Config{})
	got, err := Run(t.Context(), s, bytes.NewReader(packed.Bytes()[:packed.Len()-100]), config(now))
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), fmt.Sprintf("read line %d", got.Lines+1)) {
		t.Errorf("Run = %v, want an unexpected end", err)
	}
	if n := len(values(t, s, "web,requests", now)); got.Written == 0 || got.Written != n {
		t.Errorf("%+v, and the store has %d values", got, n)
	}
}

func FuzzRun(f *testing.F) {
	for _, seed := range []string{"a value=1 5\nb", "{\"type\":\"app_metrics\"}", "\x1f\x8b\x08", "\n\n", "{}\n{}\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := Run(t.Context(), all{}, bytes.NewReader(in), config(time.Now()))
		if lines := bytes.Count(in, []byte("\n")) + 1; err == nil && len(in) > 0 && in[0] != 0x1f && got.Lines > lines {
			t.Errorf("%d lines of %d", got.Lines, lines)
		}
	})
}

// all takes everything.
type all struct{}

func (all) Put(context.Context, []metrics.Sample) (int, error) { return 0, nil }
