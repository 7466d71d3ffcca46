package ask

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestQuery(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	pool := func(more ...string) metrics.Dimensions {
		d := metrics.Dimensions{"cluster": "here", "pool": "default"}
		for i := 0; i < len(more); i += 2 {
			d[more[i]] = more[i+1]
		}
		return d
	}
	tests := []struct {
		name   string
		window Window
		want   metrics.Query
	}{
		{"of an app", Window{Type: metrics.App, Name: "requests"}, metrics.Query{Name: "web,requests"}},
		{"of an app, with dimensions", Window{Type: metrics.App, Name: "boost|cluster=c,zone=a=b"},
			metrics.Query{Name: "web,boost", Dimensions: metrics.Dimensions{"cluster": "c", "zone": "a=b"}}},
		{"of an app, with a bar in its name", Window{Type: metrics.App, Name: "a|b"}, metrics.Query{Name: "web,a|b"}},
		{"with a resolution", Window{Type: metrics.App, Name: "requests", Resolution: 5 * time.Second},
			metrics.Query{Name: "web,requests", Resolution: 5 * time.Second}},
		{"pattern", Window{Type: metrics.App, Name: "^web,(a|b=)", Regex: true},
			metrics.Query{Name: "^web,(a|b=)", Regex: true, Prefix: "web,"}},
		{"system", Window{Type: metrics.System, Name: "cpus_allocated"}, metrics.Query{Name: "cpus_allocated", Dimensions: pool()}},
		{"system, with dimensions", Window{Type: metrics.System, Name: "cpus_allocated|pool=other,zone=a"},
			metrics.Query{Name: "cpus_allocated", Dimensions: pool("zone", "a")}},
		{"counts of an app", Window{Type: metrics.InstanceCounts, Name: "instances_expected", App: "web"},
			metrics.Query{Name: "instances_expected", Dimensions: pool("app", "web")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.window.Range = time.Minute
			test.want.Type, test.want.From, test.want.To = test.window.Type, now.Add(-time.Minute), now
			c := Config{Cluster: "here", Pool: "default"}
			if diff := cmp.Diff(test.want, c.query("web", test.window, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestShownName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		window Window
		series metrics.Series
		want   string
	}{
		{"of the app", Window{Name: "requests"}, metrics.Series{Name: "web,requests"}, "requests"},
		{"a comma in it", Window{Name: "requests,web"}, metrics.Series{Name: "web,requests,web"}, "requests,web"},
		{"no prefix", Window{Name: "cpus_allocated"}, metrics.Series{Name: "cpus_allocated"}, "cpus_allocated"},
		{"cluster and pool", Window{Name: "cpus_allocated"},
			metrics.Series{Name: "cpus_allocated", Dimensions: metrics.Dimensions{"cluster": "c", "pool": "p"}}, "cpus_allocated"},
		{"other dimensions", Window{Name: "requests"},
			metrics.Series{Name: "web,requests", Dimensions: metrics.Dimensions{"pool": "p", "zone": "a"}}, "requests|zone=a"},
		{"as configured", Window{Name: "boost|cluster=c,pool=p"},
			metrics.Series{Name: "web,boost", Dimensions: metrics.Dimensions{"cluster": "c", "pool": "p"}}, "boost|cluster=c,pool=p"},
		{"one of them as configured", Window{Name: "boost|cluster=c"},
			metrics.Series{Name: "web,boost", Dimensions: metrics.Dimensions{"cluster": "c", "pool": "p"}}, "boost|cluster=c"},
		{"found by a pattern", Window{Name: "boo", Regex: true},
			metrics.Series{Name: "web,boost", Dimensions: metrics.Dimensions{"cluster": "c", "pool": "p"}}, "boost|cluster=c,pool=p"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := metrics.Key(test.series.Name, test.series.Dimensions)
			if got := test.window.shownName("web", test.series); got != test.want {
				t.Errorf("shown as %q, want %q", got, test.want)
			}
			if after := metrics.Key(test.series.Name, test.series.Dimensions); after != before {
				t.Errorf("the series became %q", after)
			}
		})
	}
}

// meeting answers a query when two have come.
type meeting struct {
	memory.Store
	came chan struct{}
}

func (m *meeting) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	select {
	case m.came <- struct{}{}:
	case <-m.came:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return []metrics.Series{{Times: []int64{q.To.Unix()}, Values: []float64{1}}}, nil
}

// The windows of sources of an app are read at the same time, so that a source can request them together.
func TestSourcesAreReadTogether(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	store := &meeting{came: make(chan struct{})}
	r := newWindowReader(t.Context(), Config{Tick: time.Minute}, Ports{Limit: context.WithTimeout, Metrics: store}, now)
	of := func(name string) Window {
		return Window{Name: name, Source: "cw", Query: name, Range: time.Minute, MaxAge: time.Minute, Step: time.Minute}
	}
	got, _, err := r.series("web", []Window{of("a"), of("b")})
	if err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// A stale window of a source has the source and the query.
func TestStaleWindowOfSource(t *testing.T) {
	t.Parallel()
	w := Window{Name: "queue", Source: "cw", Query: "orders", Range: time.Minute}
	want := "queue has no point in the last 1m0s: source cw has none for orders"
	if err := fresh(nil, w, time.Now()); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// lineageStore returns all series with the lineage 7.
type lineageStore struct{ memory.Store }

func (s *lineageStore) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	series, err := s.Store.Window(ctx, q)
	for i := range series {
		series[i].Lineage = 7
	}
	return series, err
}

func TestSeries(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	store := &lineageStore{}
	write := func(name string, value float64, age time.Duration) {
		s := metrics.Sample{Type: metrics.App, Name: name, Dimensions: metrics.Dimensions{"pool": "default"}, Value: value, Time: now.Add(-age)}
		if err := store.Write(t.Context(), []metrics.Sample{s}); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]float64{"web,req_a": 1, "web,req_b": 2, "webb,req_c": 3, "other,req": 4} {
		write(name, value, 0)
	}
	write("web,req_a", 5, time.Minute)
	shown := func(name string, values ...float64) sigproto.Series {
		s := sigproto.Series{Name: name, Values: values, Lineage: 7}
		for i := range values {
			s.Times = append(s.Times, now.Unix()+60*int64(i-len(values)+1))
		}
		return s
	}
	pattern := func(name string, minutes time.Duration) Window {
		return Window{Name: name, Type: metrics.App, Regex: true, Range: minutes * time.Minute, MaxAge: time.Minute}
	}
	exact := Window{Name: "req_a|pool=default", Type: metrics.App, Range: time.Minute, MaxAge: time.Minute}
	a, b := "req_a|pool=default", "req_b|pool=default"
	tests := []struct {
		name    string
		windows []Window
		want    []sigproto.Series
		stale   string
	}{
		{"a pattern", []Window{pattern("req", 0)}, []sigproto.Series{shown(a, 1), shown(b, 2)}, ""},
		{"the later window counts", []Window{pattern("req", 0), exact}, []sigproto.Series{shown(a, 5, 1), shown(b, 2)}, ""},
		{"of others", []Window{pattern("webb|other", 1)}, nil, "webb|other has no point in the last 1m0s"},
		{"nothing", []Window{exact, pattern("nothing", 1)}, nil, "nothing has no point in the last 1m0s"},
		{"nothing, of an optional window", []Window{exact, {Name: "nothing", Type: metrics.App, Range: time.Minute, MaxAge: time.Minute, Optional: true}},
			[]sigproto.Series{shown(a, 5, 1)}, ""},
	}
	r := newWindowReader(t.Context(), Config{Cluster: "here", Pool: "default"}, Ports{Limit: context.WithTimeout, Metrics: store}, now)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := r.series("web", test.windows)
			if test.stale != "" {
				if err == nil || err.Error() != test.stale {
					t.Errorf("series = %v, want %q", err, test.stale)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
