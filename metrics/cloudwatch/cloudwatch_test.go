package cloudwatch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/cloudwatch"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/metrics/source/sourcetest"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// open opens a source of a server.
func open(t testing.TB, url, text string) source.Source {
	t.Helper()
	kind := cloudwatch.Kind()
	settings := kind.New()
	if err := yaml.Unmarshal([]byte(text), settings); err != nil {
		t.Fatal(err)
	}
	if found := settings.Check(); len(found) > 0 {
		t.Fatal(found)
	}
	s, err := kind.Open(source.Site{
		Name: "it", Settings: settings, Endpoint: func(string) string { return url },
		Keys: func() (access, secret string, err error) { return "AKIATEST", "secret", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begin starts a server whose clock shows the real time, and opens a source of it.
func begin(t testing.TB) (*awsfake.Server, source.Source, time.Time) {
	t.Helper()
	now := time.Now().UTC()
	server := awstest.New(t, awsfake.Config{Region: "eu-west-1", Start: now})
	return server, open(t, server.URL(), "region: eu-west-1"), now
}

// virtual runs a test in virtual time, with a server without a network: the windows of a tick are gathered on a busy machine too.
func virtual(t *testing.T, run func(t *testing.T, server *awsfake.Server, s source.Source, now time.Time)) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		server := awstest.NewDirect(t, awsfake.Config{Region: "eu-west-1", Start: now})
		s := open(t, server.URL(), "region: eu-west-1")
		client, _ := awstest.Direct(server)
		cloudwatch.Direct(s, client)
		run(t, server, s, now)
	})
}

// orders is the metric of most tests.
func orders() source.Metric {
	return source.Metric{Namespace: "AWS/SQS", Name: "ApproximateNumberOfMessagesVisible", Dimensions: map[string]string{"QueueName": "orders"}, Stat: "Maximum"}
}

// named returns a metric as the server has it.
func named(m source.Metric) awsfake.Metric {
	return awsfake.Metric{Namespace: m.Namespace, Name: m.Name, Dimensions: m.Dimensions}
}

// query returns the compiled query of a form over a window that ends at a time.
func query(t testing.TB, f source.Form, end time.Time, window time.Duration) metrics.Query {
	t.Helper()
	q, found := cloudwatch.Kind().Compile(f, window)
	if len(found) > 0 {
		t.Fatal(found)
	}
	return metrics.Query{
		Source: "cw", Text: q.Text, Step: q.Step, Lag: q.Lag, Whole: q.Whole, From: end.Add(-window), To: end,
		Dimensions: metrics.VariablesOf(q.Text, map[string]string{"app": "shop", "pool": "web", "cluster": "c"}),
	}
}

// calls returns the calls that the server received.
func calls(server *awsfake.Server) (all []awsfake.Call) {
	for _, c := range server.Calls() {
		if c.Action == "GetMetricData" {
			all = append(all, c)
		}
	}
	return all
}

// requested returns the number of metrics of a call.
func requested(c awsfake.Call) int {
	return strings.Count(c.Params["MetricDataQueries"], `"MetricStat"`)
}

// A window has a point for each period, with the time of its begin. It ends at the last period that was complete before the
// lag. Variables stand in values of dimensions.
func TestWindow(t *testing.T) {
	server, s, now := begin(t)
	minute := now.Truncate(time.Minute)
	m := orders()
	m.Dimensions = map[string]string{"QueueName": "orders-$app"}
	stored := named(m)
	stored.Dimensions = map[string]string{"QueueName": "orders-shop"}
	server.Report(stored, minute.Add(-10*time.Minute), 20*time.Second, 1, 2, 3, 4, 6, 5, 7, 8, 9)
	for stat, want := range map[string][]float64{"Maximum": {3, 6, 9}, "Sum": {6, 15, 24}, "SampleCount": {3, 3, 3}, "p50": {2, 5, 8}} {
		m.Stat = stat
		got, err := s.Window(t.Context(), query(t, source.Form{Metric: &m}, now, 30*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		first := minute.Add(-10 * time.Minute).Unix()
		if diff := cmp.Diff([]metrics.Series{{Times: []int64{first, first + 60, first + 120}, Values: want}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", stat, diff)
		}
	}
	server.Report(stored, minute.Add(-3*time.Minute), time.Minute, 10, 11, 12, 13)
	m.Stat = "Maximum"
	for lag, want := range map[time.Duration]float64{0: 12, time.Minute: 11, 2 * time.Minute: 10} {
		got, err := s.Window(t.Context(), query(t, source.Form{Metric: &m, Lag: &lag}, now, 30*time.Minute))
		if err != nil || got[0].Values[len(got[0].Values)-1] != want {
			t.Errorf("lag %v: %v, %v; want %v as the last value", lag, got, err, want)
		}
	}
}

// Windows that are read at the same time are one call, in which each metric has one place.
func TestTickIsOneCall(t *testing.T) {
	virtual(t, tickIsOneCall)
}

func tickIsOneCall(t *testing.T, server *awsfake.Server, s source.Source, now time.Time) {
	var read sync.WaitGroup
	for i := range 40 {
		m := orders()
		m.Name = fmt.Sprint("m", i%20)
		server.Report(named(m), now.Add(-10*time.Minute), time.Minute, float64(i%20))
		period, window := time.Minute, 30*time.Minute
		if i%20 > 10 {
			period = 5 * time.Minute
		}
		if i >= 20 {
			window = time.Hour
		}
		q := query(t, source.Form{Metric: &m, Period: period}, now, window)
		read.Go(func() {
			got, err := s.Window(t.Context(), q)
			if err != nil || len(got) != 1 || !slices.Equal(got[0].Values, []float64{float64(i % 20)}) {
				t.Errorf("%d: %v, %v", i, got, err)
			}
		})
	}
	read.Wait()
	if all := calls(server); len(all) != 1 || requested(all[0]) != 20 {
		t.Errorf("%d calls, want one with 20 metrics: %v", len(all), all)
	}
}

// A call has at most 500 metrics. Periods that one begin cannot align, and windows of other ages, have calls of their own.
func TestCallsOfManyMetrics(t *testing.T) {
	virtual(t, callsOfManyMetrics)
}

func callsOfManyMetrics(t *testing.T, server *awsfake.Server, s source.Source, now time.Time) {
	var read sync.WaitGroup
	want := func(name string, period, window time.Duration) {
		m := orders()
		m.Name = name
		q := query(t, source.Form{Metric: &m, Period: period}, now, window)
		read.Go(func() {
			if got, err := s.Window(t.Context(), q); err != nil || len(got) > 0 {
				t.Errorf("%s: %v, %v; want no series", name, got, err)
			}
		})
	}
	for i := range 501 {
		want(fmt.Sprint("m", i), 0, time.Hour)
	}
	want("seven", 7*time.Minute, time.Hour)
	want("old", 0, 20*24*time.Hour)
	read.Wait()
	var sizes []int
	for _, c := range calls(server) {
		sizes = append(sizes, requested(c))
	}
	if slices.Sort(sizes); !slices.Equal(sizes, []int{1, 1, 1, 500}) {
		t.Errorf("calls with %v metrics, want 1, 1, 1 and 500", sizes)
	}
}

// Points of seconds exist for three hours only. A longer window beside them does not make their call too old.
func TestShortPeriodsBesideLongWindows(t *testing.T) { virtual(t, shortPeriodsBesideLongWindows) }

func shortPeriodsBesideLongWindows(t *testing.T, server *awsfake.Server, s source.Source, now time.Time) {
	var read sync.WaitGroup
	for name, window := range map[string]time.Duration{"short": 170 * time.Minute, "long": 3 * time.Hour} {
		m, period := orders(), 10*time.Second
		if m.Name = name; name == "long" {
			period = time.Minute
		}
		server.Report(named(m), now.Add(-2*time.Minute), 10*time.Second, 1)
		q := query(t, source.Form{Metric: &m, Period: period, Lag: new(time.Duration(0))}, now, window)
		read.Go(func() {
			if got, err := s.Window(t.Context(), q); err != nil || len(got) != 1 {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		})
	}
	read.Wait()
}

// Pages are put together.
func TestPages(t *testing.T) {
	now := time.Now().UTC()
	server := awstest.New(t, awsfake.Config{Region: "eu-west-1", Start: now, PageSize: 7})
	s := open(t, server.URL(), "region: eu-west-1")
	m := orders()
	var want []float64
	for i := range 20 {
		want = append(want, float64(i))
	}
	server.Report(named(m), now.Truncate(time.Minute).Add(-25*time.Minute), time.Minute, want...)
	got, err := s.Window(t.Context(), query(t, source.Form{Metric: &m}, now, 30*time.Minute))
	if err != nil || len(got) != 1 || !slices.Equal(got[0].Values, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if n := len(calls(server)); n != 3 {
		t.Errorf("%d pages, want 3", n)
	}
}

// A source of CloudWatch keeps the promises of each source.
func TestSource(t *testing.T) {
	server, _, now := begin(t)
	m, none := orders(), orders()
	none.Name = "None"
	end := now.Truncate(time.Minute).Add(-time.Minute)
	for i := range 60 {
		server.Report(named(m), end.Add(time.Duration(-i)*time.Minute), time.Minute, float64(i%7))
	}
	sourcetest.Run(t, sourcetest.Subject{
		Open: func() source.Source { return open(t, server.URL(), "region: eu-west-1") }, Gone: open(t, "http://127.0.0.1:1", "region: eu-west-1"),
		Query: func(empty bool, end time.Time, window time.Duration) metrics.Query {
			of := &m
			if empty {
				of = &none
			}
			q := query(t, source.Form{Metric: of, Lag: new(time.Duration(0))}, end, time.Hour)
			q.From, q.Source = end.Add(-window), "it"
			return q
		},
		Step: time.Minute, End: end.Add(time.Minute), // the last period is complete then
	})
}

// A tick within a period costs no call, unless the newest point is late. A new period costs one.
func TestConsecutiveTicks(t *testing.T) {
	server, s, now := begin(t)
	m := orders()
	minute := now.Truncate(time.Minute)
	form := source.Form{Metric: &m, Lag: new(time.Duration(0))}
	for i := range 60 {
		server.Report(named(m), minute.Add(time.Duration(i-60)*time.Minute), time.Minute, float64(i))
	}
	tick := func(at time.Time) float64 {
		t.Helper()
		got, err := s.Window(t.Context(), query(t, form, at, 30*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return got[0].Values[len(got[0].Values)-1]
	}
	for _, test := range []struct {
		after time.Duration
		calls int // so far
	}{{0, 1}, {10 * time.Second, 1}, {59 * time.Second, 1}, {60 * time.Second, 2}, {70 * time.Second, 3}} {
		last := tick(minute.Add(test.after))
		if n := len(calls(server)); n != test.calls || last != 59 {
			t.Errorf("%v after the begin: %d calls and the last value %v, want %d and 59", test.after, n, last, test.calls)
		}
	}
	server.Report(named(m), minute, time.Minute, 60)
	if last := tick(minute.Add(80 * time.Second)); last != 60 {
		t.Errorf("the last value is %v, want that of the late point", last)
	}
}

// An answer that is not complete is an error of that metric alone, with its name.
func TestAnswersThatAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		fault awsfake.MetricFault
		want  string
	}{
		"partial":   {awsfake.MetricFault{Status: "PartialData"}, "CloudWatch answers PartialData: the points are not complete"},
		"internal":  {awsfake.MetricFault{Status: "InternalError", Message: "try later"}, "CloudWatch answers InternalError (Problem: try later): the points are not complete"},
		"forbidden": {awsfake.MetricFault{Status: "Forbidden"}, "CloudWatch answers Forbidden; allow the action cloudwatch:GetMetricData"},
		"message":   {awsfake.MetricFault{Message: "odd"}, "CloudWatch reports about the metric: Problem: odd"},
		"lost":      {awsfake.MetricFault{Lost: true}, "CloudWatch answers nothing about the metric"},
		"no number": {awsfake.MetricFault{Edit: func(at []time.Time, v []float64) ([]time.Time, []float64) { v[0] = math.NaN(); return at, v }}, "CloudWatch answers the value NaN"},
		"order": {awsfake.MetricFault{Edit: func(at []time.Time, v []float64) ([]time.Time, []float64) {
			slices.Reverse(at)
			return at, v
		}}, "CloudWatch answers points out of order"},
		"too many": {awsfake.MetricFault{Edit: func(at []time.Time, v []float64) ([]time.Time, []float64) {
			return slices.Repeat(at, 100), slices.Repeat(v, 100)
		}}, "CloudWatch reports about the metric: 300 times and 300 values more, of "},
		"twice": {awsfake.MetricFault{Edit: func(at []time.Time, v []float64) ([]time.Time, []float64) { at[1] = at[0]; return at, v }}, "CloudWatch answers points out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			server, s, now := begin(t)
			m, other := orders(), orders()
			other.Name = "Other"
			for _, one := range []source.Metric{m, other} {
				server.Report(named(one), now.Add(-10*time.Minute), time.Minute, 1, 2, 3)
			}
			server.SpoilMetric(named(m), test.fault)
			q := query(t, source.Form{Metric: &other}, now, 30*time.Minute)
			var beside sync.WaitGroup
			beside.Go(func() {
				if got, err := s.Window(t.Context(), q); err != nil || len(got) != 1 {
					t.Errorf("the other metric: %v, %v", got, err)
				}
			})
			_, err := s.Window(t.Context(), query(t, source.Form{Metric: &m}, now, 30*time.Minute))
			beside.Wait()
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `source it: metric {"namespace":"AWS/SQS","name":"ApproximateNumberOfMessagesVisible"`) {
				t.Errorf("%v, want %q with the metric", err, test.want)
			}
		})
	}
}

// A metric without a point, of any kind, is an empty window.
func TestUnknownMetricIsEmpty(t *testing.T) {
	_, s, now := begin(t)
	m := orders()
	if got, err := s.Window(t.Context(), query(t, source.Form{Metric: &m}, now, 30*time.Minute)); err != nil || len(got) > 0 {
		t.Errorf("%v, %v; want no series", got, err)
	}
}

// A metric that makes AWS reject calls is alone in the end, and the others are read. At the next tick it has a call of
// its own from the begin.
func TestRejectedMetricIsAlone(t *testing.T) {
	virtual(t, rejectedMetricIsAlone)
}

func rejectedMetricIsAlone(t *testing.T, server *awsfake.Server, s source.Source, now time.Time) {
	tick := func(now time.Time) {
		var read sync.WaitGroup
		for i := range 8 {
			m := orders()
			m.Name = fmt.Sprint("m", i)
			server.Report(named(m), now.Add(-10*time.Minute), time.Minute, 1)
			if i == 5 {
				m.Stat = "IQM" // the server has no such statistic
			}
			q := query(t, source.Form{Metric: &m}, now, 30*time.Minute)
			read.Go(func() {
				got, err := s.Window(t.Context(), q)
				if i == 5 && (!errors.Is(err, source.ErrQuery) || !strings.Contains(err.Error(), "Stat is not supported")) {
					t.Errorf("the rejected one: %v", err)
				}
				if i != 5 && (err != nil || len(got) != 1) {
					t.Errorf("m%d: %v, %v", i, got, err)
				}
			})
		}
		read.Wait()
	}
	tick(now)
	if n := len(calls(server)); n != 7 { // 8, 4, 4, 2, 2, 1, 1
		t.Errorf("%d calls, want 7", n)
	}
	tick(now.Add(time.Second))
	if n := len(calls(server)) - 7; n != 2 {
		t.Errorf("%d calls at the next tick, want 2", n)
	}
}

// If AWS rejects all metrics, a tick sends few calls.
func TestRejectedCallsAreFew(t *testing.T) { virtual(t, rejectedCallsAreFew) }

func rejectedCallsAreFew(t *testing.T, server *awsfake.Server, s source.Source, now time.Time) {
	var read sync.WaitGroup
	for i := range 400 {
		m := orders()
		m.Name, m.Stat = fmt.Sprint("m", i), "IQM" // the server has no such statistic
		q := query(t, source.Form{Metric: &m}, now, 30*time.Minute)
		read.Go(func() {
			if _, err := s.Window(t.Context(), q); !errors.Is(err, source.ErrQuery) {
				t.Errorf("m%d: %v", i, err)
			}
		})
	}
	read.Wait()
	if n := len(calls(server)); n != 41 {
		t.Errorf("%d calls, want 41: 20 are halved", n)
	}
}

// After a throttled call no request is sent for some seconds, and the windows have the reason.
func TestThrottledCallsPause(t *testing.T) {
	virtual(t, throttledCallsPause)
}

func throttledCallsPause(t *testing.T, server *awsfake.Server, s source.Source, now time.Time) {
	server.Throttle("GetMetricData", 1)
	m := orders()
	for range 3 {
		_, err := s.Window(t.Context(), query(t, source.Form{Metric: &m}, now, 30*time.Minute))
		if err == nil || !strings.Contains(err.Error(), "Throttling: Rate exceeded") {
			t.Errorf("%v, want the rate", err)
		}
	}
	if n := len(calls(server)); n != 1 {
		t.Errorf("%d calls, want one", n)
	}
	<-time.After(10 * time.Second)
	server.Advance(10 * time.Second)
	if _, err := s.Window(t.Context(), query(t, source.Form{Metric: &m}, now, 30*time.Minute)); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

// An error names the remedy.
func TestErrorsSayWhatToDo(t *testing.T) {
	m := orders()
	server, s, now := begin(t)
	server.Deny("GetMetricData", "")
	check := func(name string, s source.Source, want string) {
		t.Helper()
		_, err := s.Window(t.Context(), query(t, source.Form{Metric: &m}, now, 30*time.Minute))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "RequestID") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	check("no right", s, "GetMetricData in eu-west-1: AccessDenied: User: arn:aws:iam::123456789012:user/weir is not authorized to perform: cloudwatch:GetMetricData because no identity-based policy allows the cloudwatch:GetMetricData action; allow the action cloudwatch:GetMetricData")
	check("another region", open(t, server.URL(), "region: eu-west-2"), "the server is in another region: correct the region")
	check("no server", open(t, "http://127.0.0.1:1", "region: eu-west-1"), "connection refused")
	for minutes, want := range map[time.Duration]string{-5: "the clock of the server differs by -5m", 5: "the clock of the server differs by "} {
		other := awstest.New(t, awsfake.Config{Region: "eu-west-1", Start: now.Add(minutes * time.Minute)})
		check("other clock", open(t, other.URL(), "region: eu-west-1"), want)
	}
	for code, want := range map[string]string{
		"ExpiredToken":          "renew the credentials; a changed file is read with the next request",
		"InvalidClientTokenId":  "check the access key, and that the account has enabled the region",
		"RequestExpired":        "the clock of this host differs from that of AWS",
		"InvalidParameterValue": "is invalid: ",
	} {
		refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
			w.Header().Set("X-Amzn-Query-Error", code+";Sender")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("\xa1\x66__type\x61x"))
		}))
		defer refusing.Close()
		check(code, open(t, refusing.URL, "region: eu-west-1"), want)
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>Sign in</html>")) }))
	defer page.Close()
	check("page of a login", open(t, page.URL, "region: eu-west-1"), "the answer with status 200 is not one of AWS: expected map for struct, got major type 1; check the endpoint, and its http or https")
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // then the server notices that the client is gone
		<-r.Context().Done()
	}))
	defer silent.Close()
	check("silent", open(t, silent.URL, "{region: eu-west-1, timeout: 300ms}"), "no answer within 300ms")
}

// faulty answers in place of CloudWatch, unless answer is nil.
type faulty struct {
	awstest.Client
	answer func(r *http.Request) (*http.Response, error)
}

func (f *faulty) Do(r *http.Request) (*http.Response, error) {
	if f.answer != nil {
		return f.answer(r)
	}
	return f.Client.Do(r)
}

// Whatever CloudWatch answers in place of a window, it is unknown, with the cause, and never an empty one. A minute after the
// fault it is known.
func TestFailedCallIsAnUnknownWindow(t *testing.T) {
	body := func(status int, code, text string) func(r *http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			header := http.Header{}
			if status != http.StatusOK || strings.HasPrefix(text, "\xa1") {
				header.Set("Smithy-Protocol", "rpc-v2-cbor")
			}
			if code != "" {
				header.Set("X-Amzn-Query-Error", code+";Sender")
			}
			return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		}
	}
	const none = "\xa1\x66__type\x61x"
	for name, fault := range map[string]struct {
		answer func(r *http.Request) (*http.Response, error)
		want   string
	}{
		"denied":             {body(http.StatusBadRequest, "AccessDenied", none), "allow the action cloudwatch:GetMetricData"},
		"throttled":          {body(http.StatusBadRequest, "Throttling", none), "Throttling"},
		"500":                {body(http.StatusInternalServerError, "InternalServiceFault", none), "InternalServiceFault"},
		"500 without a body": {body(http.StatusInternalServerError, "", ""), "500"},
		"empty":              {body(http.StatusOK, "", ""), "CloudWatch"},
		"empty map":          {body(http.StatusOK, "", "\xa1\x61a\x61b"), "CloudWatch answers nothing about the metric"},
		"garbage":            {body(http.StatusOK, "", "<html>502 Bad Gateway\x00"), "is not one of AWS"},
		"page":               {body(http.StatusOK, "", "<html><body>502</body></html>"), "is not one of AWS"},
		"a page without end": {body(http.StatusOK, "", "\xa1\x69NextToken\x65again"), "a page that names itself as the next one"},
		"slow": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}, "no answer within 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, server *awsfake.Server, s source.Source, now time.Time) {
				client, _ := awstest.Direct(server)
				between := &faulty{client, fault.answer}
				cloudwatch.Direct(s, between)
				m := orders()
				server.Report(named(m), now.Add(-10*time.Minute), time.Minute, 1, 2, 3)
				q := query(t, source.Form{Metric: &m}, now, 30*time.Minute)
				for range 3 {
					if got, err := s.Window(t.Context(), q); err == nil || len(got) > 0 || !strings.Contains(err.Error(), fault.want) {
						t.Errorf("%v, %v; want an error with %q", got, err, fault.want)
					}
				}
				between.answer = nil
				<-time.After(time.Minute)
				server.Advance(time.Minute)
				if got, err := s.Window(t.Context(), q); err != nil || len(got) != 1 {
					t.Errorf("after the fault: %v, %v", got, err)
				}
			})
		})
	}
}

// If the caller whose tick sends the call gives up, the windows of the others are requested again.
func TestCallerThatLeaves(t *testing.T) {
	server, s, now := begin(t)
	m := orders()
	server.Report(named(m), now.Add(-10*time.Minute), time.Minute, 1)
	q := query(t, source.Form{Metric: &m}, now, 30*time.Minute)
	gone, leave := context.WithCancelCause(t.Context())
	left := errors.New("the signal is gone")
	leave(left)
	var read sync.WaitGroup
	read.Go(func() {
		if _, err := s.Window(gone, q); !errors.Is(err, left) {
			t.Errorf("the caller that left: %v", err)
		}
	})
	for range 3 {
		read.Go(func() {
			if got, err := s.Window(t.Context(), q); err != nil || len(got) != 1 {
				t.Errorf("another caller: %v, %v", got, err)
			}
		})
	}
	read.Wait()
}

func TestSettingsAndQueriesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"{}": "want the region of the metrics, such as eu-west-1", "region: Ireland": `is "Ireland"`, "{region: eu-west-1, timeout: 2m}": "at most 1m",
		"{region: eu-west-1, endpoint_url: here}": "want http(s)://host[:port]",
	} {
		settings := cloudwatch.Kind().New()
		if err := yaml.Unmarshal([]byte(text), settings); err != nil {
			t.Fatal(err)
		}
		if found := fmt.Sprint(settings.Check()); !strings.Contains(found, want) {
			t.Errorf("%s: %s, want %q", text, found, want)
		}
	}
	day := 24 * time.Hour
	with := func(change func(*source.Metric)) *source.Metric {
		m := orders()
		change(&m)
		return &m
	}
	for _, test := range []struct {
		form   source.Form
		window time.Duration
		want   string
	}{
		{source.Form{}, time.Hour, "metric: is missing"},
		{source.Form{Query: "up", Step: time.Minute}, time.Hour, "is not for a source of kind cloudwatch: use metric, period, lag"},
		{source.Form{Metric: with(func(m *source.Metric) { m.Namespace = ":x" })}, time.Hour, `metric.namespace: is ":x"`},
		{source.Form{Metric: with(func(m *source.Metric) { m.Name = "" })}, time.Hour, "metric.name: is"},
		{source.Form{Metric: with(func(m *source.Metric) { m.Name = "x$app" })}, time.Hour, "metric.name: has the variable $app"},
		{source.Form{Metric: with(func(m *source.Metric) { m.Stat = "Max" })}, time.Hour, `metric.stat: is "Max"`},
		{source.Form{Metric: with(func(m *source.Metric) { m.Dimensions = map[string]string{"Q": "$queue"} })}, time.Hour, "dimensions.Q: has the unknown variable $queue: want $app, $cluster, $pool"},
		{source.Form{Metric: with(func(m *source.Metric) { m.Dimensions = map[string]string{"$app": "x"} })}, time.Hour, `dimensions: has the name "$app"`},
		{source.Form{Metric: with(func(m *source.Metric) { m.Dimensions = map[string]string{"Q": "ö"} })}, time.Hour, "dimensions.Q: is"},
		{source.Form{Metric: new(orders()), Period: 7 * time.Second}, time.Hour, "want 1, 5, 10, 20 or 30 seconds, or whole minutes"},
		{source.Form{Metric: new(orders()), Period: 90 * time.Second}, time.Hour, "or whole minutes"},
		{source.Form{Metric: new(orders()), Period: 10 * time.Second}, 3 * time.Hour, "by 1m0s only"},
		{source.Form{Metric: new(orders()), Period: time.Minute}, 15 * day, "by 5m0s only"},
		{source.Form{Metric: new(orders()), Period: 5 * time.Minute}, 64 * day, "by 1h0m0s only"},
		{source.Form{Metric: new(orders())}, 500 * day, "AWS has points of 455 days"},
		{source.Form{Metric: new(orders()), Lag: new(time.Hour)}, time.Hour, "has no complete period of 1m0s then"},
	} {
		_, found := cloudwatch.Kind().Compile(test.form, test.window)
		var texts []string
		for _, p := range found {
			texts = append(texts, p.Key+": "+p.What)
		}
		if !strings.Contains(strings.Join(texts, "\n"), test.want) {
			t.Errorf("%+v: %v, want %q", test.form, texts, test.want)
		}
	}
	for window, want := range map[time.Duration]time.Duration{time.Hour: time.Minute, 14 * day: time.Minute, 20 * day: 5 * time.Minute, 100 * day: time.Hour} {
		if q, found := cloudwatch.Kind().Compile(source.Form{Metric: new(orders())}, window); len(found) > 0 || q.Step != want || q.Lag != want+time.Minute {
			t.Errorf("%v: period %v and lag %v, %v; want %v and a minute more", window, q.Step, q.Lag, found, want)
		}
	}
}
