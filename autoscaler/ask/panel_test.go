package ask

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// fixed is a directory that does not change.
type fixed struct {
	listing Listing
	reports []Report
}

func (f *fixed) Listing() Listing { return f.listing }
func (f *fixed) Report(r Report)  { f.reports = append(f.reports, r) }
func (f *fixed) Alive()           {}

// clientFunc is a client.
type clientFunc func(sigproto.Evaluation) (sigproto.Response, error)

func (f clientFunc) Evaluate(_ context.Context, e sigproto.Evaluation) (sigproto.Response, error) {
	return f(e)
}
func (clientFunc) Close() error { return nil }

// newPanel returns a panel of the default signal and of web, with clients by address, and its
// directory.
func newPanel(t *testing.T, web Signal, l Listing, clients map[string]clientFunc) (*Panel, *fixed, *memory.Store) {
	t.Helper()
	web.App, web.Namespace, web.Period = "web", "shop", time.Minute
	d, store := &fixed{listing: l}, &memory.Store{}
	p := New(Config{
		Cluster: "here", Pool: "default", Tick: 20 * time.Second,
		Signals: []Signal{{App: sigproto.DefaultApp, Name: "Default", Period: time.Minute}, web},
	}, Ports{
		Directory: d, Metrics: store,
		Dial: func(e Endpoint, _ RequestSpec) Client { return clients[e.Address] },
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(p.Close)
	return p, d, store
}

func cpus(n float64) sigproto.Response {
	return sigproto.Response{Resources: sigproto.Resources{CPUs: &n}}
}

// A metric point goes into the request, and the response becomes the opinion of the
// signal, the record of its shadow, and the results of the report.
func TestMetricPointBecomesOpinion(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var got sigproto.Evaluation
	p, d, store := newPanel(t, Signal{
		Name: "Need", Windows: []Window{{Name: "requests", Type: metrics.App, Range: time.Hour, MaxAge: time.Hour}},
	}, Listing{
		Revision:   7,
		Endpoints:  map[string]Endpoint{sigproto.DefaultApp: {Down: "not fetched"}, "web": {Address: "a", Version: "v1"}},
		Candidates: map[string]Candidate{"web": {Endpoint: Endpoint{Address: "b", Version: "v2"}, Shadow: true}},
	}, map[string]clientFunc{
		"a": func(e sigproto.Evaluation) (sigproto.Response, error) { got = e; return cpus(8), nil },
		"b": func(e sigproto.Evaluation) (sigproto.Response, error) { return cpus(10), nil },
	})
	sample := metrics.Sample{Type: metrics.App, Name: "web,requests", Time: now.Add(-time.Minute), Value: 32}
	if err := store.Write(t.Context(), []metrics.Sample{sample}); err != nil {
		t.Fatal(err)
	}

	p.Sync()
	shadows := p.Compare(t.Context(), p.Evaluate(t.Context(), now))
	p.Report()

	want := sigproto.Evaluation{Timestamp: now.Unix(), Series: []sigproto.Series{
		{Name: "requests", Times: []int64{sample.Time.Unix()}, Values: []float64{32}},
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(sigproto.Series{}, "Lineage")); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	opinions := p.Opinions()
	if o := opinions.Default; o.Verdict != api.VerdictFailed || o.Why != "not fetched" {
		t.Errorf("opinion of the default signal %+v, want it failed", o)
	}
	request := resource.Request{}.With(resource.CPUs, 8)
	if o := opinions.Apps[0].Opinion; o.Verdict != api.VerdictValue || o.Request != request || o.Version != "v1" || !o.At.Equal(now) {
		t.Errorf("opinion %+v, want 8 cpus of v1", o)
	}
	const difference = "cpus 8 -> 10 (+25 %, tolerance 0 %)"
	if len(shadows) != 1 || shadows[0].Version != "v2" || !shadows[0].Compared || shadows[0].Difference != difference {
		t.Errorf("shadows %+v, want one that differs", shadows)
	}
	report := []Report{{Revision: 7, Results: []Result{
		{App: "web", Version: "v1", Address: "a", Verdict: api.VerdictValue},
		{App: "web", Version: "v2", Address: "b", Verdict: api.VerdictValue, Candidate: true, Compared: true, Difference: difference},
	}}}
	if diff := cmp.Diff(report, d.reports); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// A window of usage without its beginning matters only in a request whose response counts for an
// app.
func TestShortWindowCounts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		app   string // the name of its signal
		alone bool   // no app
		short [2]string
		want  string
	}{
		{"no app", "", true, [2]string{"default is short"}, "default is short"},
		{"of the default signal alone", "Need", false, [2]string{"default is short", ""}, ""},
		{"of the app", "Need", false, [2]string{"default is short", "web is short"}, "web is short"},
		{"of an app without a signal", "", false, [2]string{"default is short", ""}, "default is short"},
		{"none", "", false, [2]string{}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, _, _ := newPanel(t, Signal{Name: test.app}, Listing{}, nil)
			for i, s := range p.signals {
				s.short = test.short[i]
			}
			if test.alone {
				p.signals = p.signals[:1]
			}
			if got := p.Opinions().Short; got != test.want {
				t.Errorf("short = %q, want %q", got, test.want)
			}
		})
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	evaluated := func(change func(*signalState)) *signalState {
		s := &signalState{Signal: Signal{Name: "Need", Period: time.Minute}}
		s.own.endpoint.Version = "v1"
		s.opinion.Verdict = api.VerdictValue
		s.evaluated = s.own
		s.schedule(now)
		change(s)
		return s
	}
	tests := []struct {
		name  string
		state *signalState
		after time.Duration
		want  bool
	}{
		{"new", &signalState{Signal: Signal{Name: "Need"}}, 0, true},
		{"an app without a signal", &signalState{}, 0, false},
		{"within its period", evaluated(func(*signalState) {}), 50 * time.Second, false},
		{"a little before its period ends", evaluated(func(*signalState) {}), 58 * time.Second, true},
		{"its opinion is not a value", evaluated(func(s *signalState) { s.opinion.Verdict = api.VerdictStale; s.schedule(now) }), time.Second, true},
		{"another version", evaluated(func(s *signalState) { s.own.endpoint.Version = "v2" }), time.Second, true},
		{"another version that is down", evaluated(func(s *signalState) { s.own.endpoint = Endpoint{Version: "v2", Down: "starting"} }), time.Second, false},
		{"another spec", evaluated(func(s *signalState) { s.own.spec.Windows = []Window{{Name: "requests"}} }), time.Second, true},
		{"the clock was put back", evaluated(func(*signalState) {}), -time.Hour, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.state.due(now.Add(test.after)); got != test.want {
				t.Errorf("due = %t, want %t", got, test.want)
			}
		})
	}
}

// A probe goes to a candidate once, and not while its windows are not good.
func TestProbeIsSentOnce(t *testing.T) {
	t.Parallel()
	requests := 0
	p, d, _ := newPanel(t, Signal{Name: "Need"}, Listing{
		Candidates: map[string]Candidate{"web": {Endpoint: Endpoint{Address: "b", Request: &RequestSpec{
			Windows: []Window{{Name: "requests", Type: metrics.App, Range: time.Hour, MaxAge: time.Hour}},
		}}}},
	}, map[string]clientFunc{
		"b": func(sigproto.Evaluation) (sigproto.Response, error) { requests++; return cpus(1), errors.New("no") },
	})
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for range 2 {
		p.Follow(t.Context(), now)
	}
	d.listing.Candidates["web"].Request.Windows = nil
	for range 2 {
		p.Follow(t.Context(), now)
	}
	var verdicts []api.Verdict
	for _, r := range d.reports {
		verdicts = append(verdicts, r.Results[0].Verdict)
	}
	if want := []api.Verdict{api.VerdictNotRequested, api.VerdictNotRequested, api.VerdictFailed}; requests != 1 || !cmp.Equal(want, verdicts) {
		t.Errorf("%d requests, reported %q: want 1, %q", requests, verdicts, want)
	}
}
