package tsdbstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/metrics/metricstest"
)

// childEnv makes the test binary a process that writes to the store of the named folder until it is killed. It prints
// each acknowledged write.
const childEnv = "EMBEDDED_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Println(child(dir))
		os.Exit(1)
	}
	// A database that fails to open leaks the goroutines of its logs.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/prometheus/prometheus/tsdb/wlog.(*WL).run"))
}

// acknowledged is a line of the child's output.
type acknowledged struct {
	Second int64
	Late   int64 // the second of a late point
}

// child writes two points in each round: one after the last and one before the first.
func child(dir string) error {
	store, err := tsdbstore.Open(dir, tsdbstore.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	middle := time.Now().Truncate(time.Second).Add(-20 * time.Minute)
	for i := time.Duration(1); ; i++ {
		forth, back := middle.Add(i*time.Second), middle.Add(-i*time.Second)
		samples := []metrics.Sample{
			{Type: metrics.System, Name: "m", Time: forth, Value: float64(forth.Unix())},
			{Type: metrics.System, Name: "m", Time: back, Value: float64(back.Unix())},
		}
		if err := store.Write(context.Background(), samples); err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(acknowledged{forth.Unix(), back.Unix()}); err != nil {
			return err
		}
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t *testing.T, dir string) *tsdbstore.Store {
	t.Helper()
	store, err := tsdbstore.Open(dir, tsdbstore.Config{Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func TestStoreConforms(t *testing.T) {
	t.Parallel()
	metricstest.Run(t, func(t *testing.T) metrics.Store { return open(t, t.TempDir()) })
}

func TestKilledStoreKeepsAcknowledgedWrites(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	var want []acknowledged
	for len(want) < 200 {
		want = append(want, readLine(t, lines))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for { // output from before the kill counts too
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var a acknowledged
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		want = append(want, a)
	}
	_ = cmd.Wait() // the error reports the kill
	got, err := open(t, dir).Window(t.Context(), metrics.Query{
		Type: metrics.System, Name: "m", From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(24 * time.Hour),
	})
	if err != nil || len(got) != 1 {
		t.Fatalf("window = %d series, %v, want 1", len(got), err)
	}
	kept := map[int64]float64{}
	for i, second := range got[0].Times {
		kept[second] = got[0].Values[i]
	}
	for i, a := range want {
		if kept[a.Second] != float64(a.Second) || kept[a.Late] != float64(a.Late) {
			t.Fatalf("write %d of %d is lost: %+v", i+1, len(want), a)
		}
	}
}

func readLine(t *testing.T, r *bufio.Reader) acknowledged {
	t.Helper()
	line, err := r.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var a acknowledged
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatalf("child printed %q: %v", line, err)
	}
	return a
}

func TestReopenedStoreIsTheSame(t *testing.T) {
	dir := t.TempDir()
	at := time.Now().Truncate(time.Second)
	q := metrics.Query{Type: metrics.App, Name: "web,load", From: at.Add(-time.Hour), To: at}
	for i := range 3 {
		store, err := tsdbstore.Open(dir, tsdbstore.Config{Log: discard()})
		if err != nil {
			t.Fatal(err)
		}
		sample := metrics.Sample{Type: metrics.App, Name: "web,load", Time: at.Add(time.Duration(i-3) * time.Second), Value: float64(i)}
		if err := store.Write(t.Context(), []metrics.Sample{sample}); err != nil {
			t.Fatal(err)
		}
		got, err := store.Window(t.Context(), q)
		if err != nil || len(got) != 1 || len(got[0].Times) != i+1 {
			t.Errorf("opened %d times: %v, %v", i+1, got, err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFolderHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := tsdbstore.Open(dir, tsdbstore.Config{Log: discard()})
	if held, ok := errors.AsType[*flock.HeldError](err); !ok || held.PID != os.Getpid() {
		t.Errorf("second Open = %v, want a HeldError of process %d", err, os.Getpid())
	}
}

func TestClosedStore(t *testing.T) {
	store, err := tsdbstore.Open(t.TempDir(), tsdbstore.Config{Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	sample := metrics.Sample{Type: metrics.System, Name: "m", Time: time.Now()}
	if err := store.Write(t.Context(), []metrics.Sample{sample}); !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("Write = %v, want ErrClosed", err)
	}
	if _, err := store.Window(t.Context(), metrics.Query{Type: metrics.System, Name: "m"}); !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("Window = %v, want ErrClosed", err)
	}
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		dir  string
		c    tsdbstore.Config
		want string
	}{
		"no logger":       {t.TempDir(), tsdbstore.Config{}, "no logger"},
		"short retention": {t.TempDir(), tsdbstore.Config{Log: discard(), Retention: time.Minute}, "retention is 1m0s: want at least 2h"},
		"no folder":       {filepath.Join(file, "x"), tsdbstore.Config{Log: discard()}, "make the folder"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := tsdbstore.Open(tt.dir, tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want %q", err, tt.want)
			}
		})
	}
}

// refused returns the samples that every store refuses, with the errors.
func refused(now time.Time) map[string]struct {
	sample metrics.Sample
	want   error
} {
	good := metrics.Sample{Type: metrics.System, Name: "m", Time: now}
	many := metrics.Dimensions{}
	for i := range 33 {
		many[fmt.Sprint(i)] = "v"
	}
	with := func(change func(*metrics.Sample)) metrics.Sample {
		s := good
		change(&s)
		return s
	}
	malformed := map[string]func(*metrics.Sample){
		"no name":            func(s *metrics.Sample) { s.Name = "" },
		"long name":          func(s *metrics.Sample) { s.Name = strings.Repeat("n", 1025) },
		"name not UTF-8":     func(s *metrics.Sample) { s.Name = "\xff" },
		"unknown type":       func(s *metrics.Sample) { s.Type = "other" },
		"no type":            func(s *metrics.Sample) { s.Type = "" },
		"no time":            func(s *metrics.Sample) { s.Time = time.Time{} },
		"dimension unnamed":  func(s *metrics.Sample) { s.Dimensions = metrics.Dimensions{"": "v"} },
		"dimension long":     func(s *metrics.Sample) { s.Dimensions = metrics.Dimensions{strings.Repeat("d", 129): "v"} },
		"dimension value":    func(s *metrics.Sample) { s.Dimensions = metrics.Dimensions{"d": strings.Repeat("v", 1025)} },
		"dimension no UTF-8": func(s *metrics.Sample) { s.Dimensions = metrics.Dimensions{"d": "\xff"} },
		"many dimensions":    func(s *metrics.Sample) { s.Dimensions = many },
	}
	tests := map[string]struct {
		sample metrics.Sample
		want   error
	}{
		"future": {with(func(s *metrics.Sample) { s.Time = now.Add(time.Hour) }), metrics.ErrFuture},
	}
	for name, change := range malformed {
		tests[name] = struct {
			sample metrics.Sample
			want   error
		}{with(change), metrics.ErrMalformed}
	}
	return tests
}

func testRefusals(t *testing.T, store metrics.Store) {
	t.Helper()
	now := time.Now()
	q := metrics.Query{Type: metrics.System, Name: "good", From: now.Add(-time.Hour), To: now.Add(time.Hour)}
	for name, tt := range refused(now) {
		t.Run(name, func(t *testing.T) {
			good := metrics.Sample{Type: metrics.System, Name: "good", Time: now}
			if err := store.Write(t.Context(), []metrics.Sample{good, tt.sample}); !errors.Is(err, tt.want) {
				t.Errorf("Write = %v, want %v", err, tt.want)
			}
			if got, err := store.Window(t.Context(), q); err != nil || len(got) != 0 {
				t.Errorf("Window = %v, %v, want that nothing was kept", got, err)
			}
		})
	}
	for name, q := range map[string]metrics.Query{"no name": {Type: metrics.System}, "no type": {Name: "m"}} {
		t.Run("query with "+name, func(t *testing.T) {
			if _, err := store.Window(t.Context(), q); !errors.Is(err, metrics.ErrMalformed) {
				t.Errorf("Window = %v, want ErrMalformed", err)
			}
		})
	}
}

func TestStoreRefuses(t *testing.T) { testRefusals(t, open(t, t.TempDir())) }

// The error does not include the clock's monotonic reading.
func TestFutureErrorHasRFC3339Time(t *testing.T) {
	at := time.Now().Add(time.Hour)
	_, err := open(t, t.TempDir()).Put(t.Context(), []metrics.Sample{{Type: metrics.System, Name: "m", Time: at}})
	if want := "time is in the future: " + at.UTC().Format(time.RFC3339) + ", at "; err == nil ||
		!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "m=") {
		t.Errorf("Put = %v, want %q and the time that it is", err, want)
	}
}

// testPut checks the number of dropped samples.
func testPut(t *testing.T, store interface {
	Put(context.Context, []metrics.Sample) (int, error)
}) {
	t.Helper()
	now := time.Now()
	sample := func(age time.Duration) metrics.Sample {
		return metrics.Sample{Type: metrics.System, Name: "put", Time: now.Add(-age)}
	}
	for _, tt := range []struct {
		name    string
		samples []metrics.Sample
		want    int
	}{
		{"none", nil, 0},
		{"now", []metrics.Sample{sample(0)}, 0},
		{"a month late", []metrics.Sample{sample(tsdbstore.DefaultRetention - time.Hour)}, 0},
		{"beyond the retention", []metrics.Sample{sample(tsdbstore.DefaultRetention + time.Hour)}, 1},
		{"some of them", []metrics.Sample{sample(2 * tsdbstore.DefaultRetention), sample(3 * time.Hour), sample(time.Minute)}, 1},
		{"another value for a time that has one", []metrics.Sample{{Type: metrics.System, Name: "put", Time: now, Value: 1}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if dropped, err := store.Put(t.Context(), tt.samples); err != nil || dropped != tt.want {
				t.Errorf("Put = %d, %v, want %d", dropped, err, tt.want)
			}
		})
	}
}

// An application starts no more series than its bound, and all applications together no more than theirs. Known
// series stay writable, also after a restart. Metrics of weir itself are always writable.
func TestBoundsOfSeries(t *testing.T) {
	dir, c := t.TempDir(), tsdbstore.Config{MaxSeries: 5, MaxOfApp: 3, Log: slog.New(slog.DiscardHandler)}
	open := func() *tsdbstore.Store {
		t.Helper()
		store, err := tsdbstore.Open(dir, c)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	at := time.Now()
	put := func(kind metrics.Type, name string) error {
		at = at.Add(time.Millisecond)
		_, err := store.Put(t.Context(), []metrics.Sample{{Type: kind, Name: name, Time: at}})
		return err
	}
	for _, name := range []string{"web,a", "web,b", "web,c", "api,a", "api,b"} {
		if err := put(metrics.App, name); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for name, want := range map[string]string{"web,d": "app \"web\" has 3 with samples of the last 10m0s, the bound", "db,a": "all applications have 5 with samples of the last 10m0s, the bound"} {
			if err := put(metrics.App, name); !errors.Is(err, metrics.ErrTooManySeries) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		for kind, name := range map[metrics.Type]string{metrics.App: "web,a", metrics.System: "cpus"} {
			if err := put(kind, name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		store = open()
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStorePut(t *testing.T) { testPut(t, open(t, t.TempDir())) }

func TestEmptyDimensionIsIgnored(t *testing.T) {
	store := open(t, t.TempDir())
	now := time.Now().Truncate(time.Second)
	samples := []metrics.Sample{
		{Type: metrics.System, Name: "m", Dimensions: metrics.Dimensions{"pool": "p", "app": ""}, Time: now.Add(-time.Second), Value: 1},
		{Type: metrics.System, Name: "m", Dimensions: metrics.Dimensions{"pool": "p"}, Time: now, Value: 2},
		{Type: metrics.System, Name: "m", Dimensions: metrics.Dimensions{"pool": "p", "app": "a"}, Time: now, Value: 3},
	}
	if err := store.Write(t.Context(), samples); err != nil {
		t.Fatal(err)
	}
	got, err := store.Window(t.Context(), metrics.Query{
		Type: metrics.System, Name: "m", Dimensions: metrics.Dimensions{"app": ""}, From: now.Add(-time.Minute), To: now,
	})
	want := []metrics.Series{
		{Name: "m", Dimensions: metrics.Dimensions{"app": "a", "pool": "p"}, Times: []int64{now.Unix()}, Values: []float64{3}},
		{Name: "m", Dimensions: metrics.Dimensions{"pool": "p"}, Times: []int64{now.Unix() - 1, now.Unix()}, Values: []float64{1, 2}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("window: %v (-want +got):\n%s", err, diff)
	}
}

func TestDatabaseLinesAreQuiet(t *testing.T) {
	var lines strings.Builder
	log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelInfo}))
	store, err := tsdbstore.Open(t.TempDir(), tsdbstore.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if lines.Len() > 0 {
		t.Errorf("lines at level info:\n%s", &lines)
	}
}
