package influx_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/influx"
	"github.com/weirkeeper/weirkeeper/metrics/metricstest"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
)

func TestStoreConforms(t *testing.T) {
	t.Parallel()
	metricstest.Run(t, func(t *testing.T) metrics.Store { return open(t, config(t)) })
}

func TestStoreBehindWindowsConforms(t *testing.T) {
	t.Parallel()
	metricstest.Run(t, func(t *testing.T) metrics.Store {
		cache, err := windows.New(open(t, config(t)), windows.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return cache
	})
}

// now is the time of a test, a whole second.
func now() time.Time { return time.Now().Truncate(time.Second) }

// hour returns a query for the hour before now.
func hour(t metrics.Type, name string, now time.Time) metrics.Query {
	return metrics.Query{Type: t, Name: name, From: now.Add(-time.Hour), To: now}
}

func write(t testing.TB, store metrics.Store, samples ...metrics.Sample) {
	t.Helper()
	if err := store.Write(t.Context(), samples); err != nil {
		t.Fatal(err)
	}
}

// keys returns the values of each series of a window, by key.
func keys(t testing.TB, store metrics.Store, q metrics.Query) map[string][]float64 {
	t.Helper()
	got, err := store.Window(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]float64{}
	for _, s := range got {
		found[metrics.Key(s.Name, s.Dimensions)] = s.Values
	}
	return found
}

// TestLinesOfApplications: lines that applications write to the bucket are app metrics.
func TestLinesOfApplications(t *testing.T) {
	t.Parallel()
	c := config(t)
	store, at := open(t, c), now()
	lines(t, c, fmt.Sprintf(`web,zone=a,table=users,error=none requests=1.5,errors=3i,ok=true,state="fine",time_ms=4 %[1]d
web,zone=b total,all=7 %[1]d
win,path=C:\temp free=0.5 %[1]d
na\,me x=1 %[1]d
app_metrics bare=9 %[1]d
`, at.UnixNano()), "total,all", `total\,all`)
	write(t, store,
		metrics.Sample{Type: metrics.App, Name: "web,requests", Dimensions: metrics.Dimensions{"zone": "c"}, Time: at, Value: 5},
		metrics.Sample{Type: metrics.System, Name: "requests", Time: at, Value: 6})
	of := func(name string, d metrics.Dimensions) metrics.Query {
		q := hour(metrics.App, name, at)
		q.Dimensions = d
		return q
	}
	matching := func(pattern, prefix string) metrics.Query {
		q := of(pattern, nil)
		q.Regex, q.Prefix = true, prefix
		return q
	}
	const a = "|error=none,table=users,zone=a"
	tests := map[string]struct {
		q    metrics.Query
		want map[string][]float64
	}{
		"float and our own": {of("web,requests", metrics.Dimensions{"zone": "c"}), map[string][]float64{"web,requests|zone=c": {5}}},
		"integer":           {of("web,errors", nil), map[string][]float64{"web,errors" + a: {3}}},
		"boolean":           {of("web,ok", nil), map[string][]float64{"web,ok" + a: {1}}},
		"comma in a field":  {of("web,total,all", nil), map[string][]float64{"web,total,all|zone=b": {7}}},
		"without an app":    {of("bare", nil), map[string][]float64{"bare": {9}}},
		"by a backslash":    {of("win,free", metrics.Dimensions{"path": `C:\temp`}), map[string][]float64{`win,free|path=C:\temp`: {0.5}}},
		"all of an app": {matching(".", "web,"), map[string][]float64{
			"web,requests" + a: {1.5}, "web,requests|zone=c": {5}, "web,errors" + a: {3}, "web,ok" + a: {1}, "web,time_ms" + a: {4}, "web,total,all|zone=b": {7},
		}},
		"anywhere":   {matching("^(win|bare)", ""), map[string][]float64{`win,free|path=C:\temp`: {0.5}, "bare": {9}}},
		"no comma":   {matching("na", ""), map[string][]float64{}},
		"not system": {matching("^requests", ""), map[string][]float64{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, keys(t, store, tt.q)); diff != "" {
				t.Errorf("window (-want +got):\n%s", diff)
			}
		})
	}
	if got, err := store.Window(t.Context(), of("web,state", nil)); !errors.Is(err, influx.ErrBadAnswer) {
		t.Errorf("window of a text = %v, %v, want ErrBadAnswer", got, err)
	}
}

// TestNothingIsInjected: special characters in a name are part of the name.
func TestNothingIsInjected(t *testing.T) {
	t.Parallel()
	c := config(t)
	store, at := open(t, c), now()
	write(t, store, metrics.Sample{Type: metrics.System, Name: "secret", Time: at, Value: 1})
	for _, evil := range []string{
		`x" or r._field == "secret`, `x") or true) |> drop(columns: ["`, "x\" or true // ", `\`, `\" or true //`, "${1+1}", "\n|> yield()", `\x22 or true`, "\"::field, \"secret", `' OR 1=1 OR 'a' = '`, `\" OR true -- `, `x"; DROP DATABASE "db1`, "r._field", "a' or 'b",
	} {
		for name, q := range map[string]metrics.Query{
			"name": {Type: metrics.System, Name: evil}, "app": {Type: metrics.App, Name: evil + ",x"},
			"value":     {Type: metrics.System, Name: "secret", Dimensions: metrics.Dimensions{"pool": evil}},
			"dimension": {Type: metrics.System, Name: "secret", Dimensions: metrics.Dimensions{evil: "x"}},
			"prefix":    {Type: metrics.App, Name: ".", Regex: true, Prefix: evil + ","},
		} {
			q.From, q.To = at.Add(-time.Hour), at
			if got, err := store.Window(t.Context(), q); err != nil || len(got) > 0 {
				t.Errorf("%s %q finds %v, %v", name, evil, got, err)
			}
		}
		write(t, store, metrics.Sample{Type: metrics.App, Name: "app,x", Dimensions: metrics.Dimensions{evil: evil}, Time: at, Value: 2})
		q := hour(metrics.App, "app,x", at)
		q.Dimensions = metrics.Dimensions{evil: evil}
		if got := keys(t, store, q); len(got) != 1 {
			t.Errorf("%q finds %v", evil, got)
		}
	}
}

// TestEveryMetricIsFound: a written metric is found under its own name only.
func TestEveryMetricIsFound(t *testing.T) {
	t.Parallel()
	c := config(t)
	store, at := open(t, c), now()
	name := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "_", "#", "time", "web,", "metadata,", `\`, "$", "=", " ", ","}).Draw(t, "begin") + rapid.StringN(1, 12, -1).Draw(t, "rest")
	})
	rapid.Check(t, func(t *rapid.T) {
		sample := metrics.Sample{
			Type: rapid.SampledFrom(metrics.Types()).Draw(t, "type"), Name: name.Draw(t, "name"),
			Dimensions: rapid.MapOfN(name, name, 0, 3).Draw(t, "dimensions"),
			Time:       at.Add(-time.Duration(rapid.IntRange(0, 3_000_000).Draw(t, "age")) * time.Millisecond),
			Value:      rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, "value"),
		}
		if err := store.Write(context.Background(), []metrics.Sample{sample}); err != nil {
			t.Fatal(err)
		}
		got, err := store.Window(context.Background(), metrics.Query{
			Type: sample.Type, Name: sample.Name, Dimensions: sample.Dimensions, From: sample.Time, To: sample.Time,
		})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(got, func(s metrics.Series) bool { return maps.Equal(s.Dimensions, sample.Dimensions) })
		if i < 0 || got[i].Name != sample.Name || !slices.Contains(got[i].Values, sample.Value) || got[i].Times[0] != sample.Time.Unix() {
			t.Fatalf("%+v is read as %+v", sample, got)
		}
	})
}

func TestRefusedSamples(t *testing.T) {
	t.Parallel()
	store, at := open(t, config(t)), now()
	tests := map[string]struct {
		sample metrics.Sample
		want   error
	}{
		"no name":                 {metrics.Sample{Type: metrics.System, Time: at}, metrics.ErrMalformed},
		"unknown type":            {metrics.Sample{Type: "other", Name: "m", Time: at}, metrics.ErrMalformed},
		"not UTF-8":               {metrics.Sample{Type: metrics.System, Name: "\xff", Time: at}, metrics.ErrMalformed},
		"long name":               {metrics.Sample{Type: metrics.System, Name: strings.Repeat("m", 1025), Time: at}, metrics.ErrMalformed},
		"no dimension":            {metrics.Sample{Type: metrics.System, Name: "m", Dimensions: metrics.Dimensions{"": "v"}, Time: at}, metrics.ErrMalformed},
		"long when it is escaped": {metrics.Sample{Type: metrics.System, Name: "m", Dimensions: many(strings.Repeat("\n", 1000)), Time: at}, metrics.ErrMalformed},
		"zero time":               {metrics.Sample{Type: metrics.System, Name: "m"}, metrics.ErrMalformed},
		"in the future":           {metrics.Sample{Type: metrics.System, Name: "m", Time: at.Add(time.Hour)}, metrics.ErrFuture},
		"not a number":            {metrics.Sample{Type: metrics.System, Name: "m", Time: at, Value: math.NaN()}, metrics.ErrNotFinite},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := store.Write(t.Context(), []metrics.Sample{{Type: metrics.System, Name: "good", Time: at}, tt.sample})
			if e, ok := errors.AsType[*metrics.SampleError](err); !ok || e.Index != 1 || !errors.Is(err, tt.want) {
				t.Errorf("Write = %v, want a SampleError that is %v", err, tt.want)
			}
		})
	}
	if got := keys(t, store, hour(metrics.System, "good", at)); len(got) > 0 {
		t.Errorf("of refused writes %v is kept", got)
	}
	q := hour("other", "m", at)
	if _, err := store.Window(t.Context(), q); !errors.Is(err, metrics.ErrMalformed) {
		t.Errorf("window of an unknown type: %v", err)
	}
}

// many returns the maximum number of dimensions with that value.
func many(value string) metrics.Dimensions {
	d := metrics.Dimensions{}
	for i := range 32 {
		d[fmt.Sprint(i)] = value
	}
	return d
}

// TestTooOld: only samples older than the retention are dropped.
func TestTooOld(t *testing.T) {
	t.Parallel()
	c := config(t)
	database, _, _ := strings.Cut(c.Bucket, "/")
	shared.Do(t, "CREATE RETENTION POLICY short ON "+database+" DURATION 1h REPLICATION 1")
	c.Bucket = database + "/short"
	store, at := open(t, c), now()
	write(t, store, metrics.Sample{Type: metrics.System, Name: "m", Time: at.Add(-time.Minute), Value: 1},
		metrics.Sample{Type: metrics.System, Name: "m", Time: at.Add(-100 * time.Hour), Value: 2})
	if got := keys(t, store, metrics.Query{Type: metrics.System, Name: "m", From: time.Time{}, To: at.AddDate(1000, 0, 0)}); !slices.Equal(got["m"], []float64{1}) {
		t.Errorf("window = %v, want the one point that is young", got)
	}
}

// TestPartialWrite: a field that is a text refuses numbers; other fields of the request accept them.
func TestPartialWrite(t *testing.T) {
	t.Parallel()
	c := config(t)
	store, at := open(t, c), now()
	lines(t, c, fmt.Sprintf("web state=\"fine\" %d\n", at.UnixNano()))
	err := store.Write(t.Context(), []metrics.Sample{
		{Type: metrics.App, Name: "web,state", Time: at, Value: 1}, {Type: metrics.App, Name: "web,requests", Time: at, Value: 2},
	})
	if e, ok := errors.AsType[*influx.WriteError](err); !ok || e.Kept != 0 || e.Samples != 2 || !errors.Is(err, influx.ErrPartial) {
		t.Errorf("Write = %v, want a WriteError that is ErrPartial", err)
	}
	if got := keys(t, store, hour(metrics.App, "web,requests", at)); len(got) != 1 {
		t.Errorf("the other sample: %v", got)
	}
}
