package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/resource"
)

// patience bounds the waits of these tests.
const patience = await.Patience

const (
	viewerSecret   = "viewer-secret-0123456789"
	operatorSecret = "operator-secret-0123456789"
)

// world is a real NATS server with the pool here/web, and the API of its cluster.
type world struct {
	t                 testing.TB
	bus               *bus.Bus
	live              *Live
	url               string
	ledger, summaries *state.Ledger
}

func newWorld(t testing.TB) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: "test", Log: log, Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	w := &world{t: t, bus: b, live: NewLive(time.Now())}
	bustest.Streams(t, b.JetStream(), "here", 1, "web")
	if w.ledger, err = state.OpenLedger(t.Context(), b.JetStream(), "here", "web"); err == nil {
		w.summaries, err = state.OpenSummaries(t.Context(), b.JetStream(), "here", "web")
	}
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fleet, pool := Ports(b, "here", t.TempDir(), log)
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpguard.Server(New(Config{
		Cluster: "here", Own: listener.Addr(), Log: log, Live: w.live, Fleet: fleet, Pool: pool,
		Tokens: func() ([]Token, error) {
			return []Token{{Viewer, "vic", viewerSecret}, {Operator, "olga", operatorSecret}}, nil
		},
	}), 64, log)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// tick returns the record of a tick of ten nodes whose app needs that many CPUs.
func tick(at time.Time, need float64) api.TickRecord {
	request := resource.Request{}.With(resource.CPUs, need)
	opinion := api.Opinion{Signal: "shop/rps", Version: "v1", Verdict: api.VerdictValue, Request: request, At: at, Latency: time.Millisecond}
	c := api.Case{
		Input: api.DecisionInput{
			Now: at, Capacity: api.PoolCapacity{Target: 10, Joined: 10, Totals: resource.Vector{resource.CPUs: 10}},
			Apps: []api.AppInput{{Name: "web", Configured: true, Opinion: opinion}}, Default: opinion,
			Policy: api.DecisionPolicy{Setpoint: 0.5, MarginUp: 0.1, MarginDown: 0.1, Period: time.Minute,
				Limits: api.TargetLimits{Min: 1, Max: 30, MaxAdd: 100, MaxRemove: 100}},
		},
		Groups: []api.GroupTarget{{ID: "blue", Target: 10, Max: 100}}, Limits: api.PruneLimits{MaxWeight: 100, MaxTasks: 100},
		State: api.PoolState{Wanted: new(10.0)},
	}
	o := resolve.Resolve(c)
	result := o.Result()
	r := api.TickRecord{
		Schema: resolve.Schema, At: at, Every: time.Second, Cluster: "here", Pool: "web", Case: &c, Result: &result, State: o.State,
		Snapshot: api.Snapshot{Target: 10, Fulfilled: 10, Joined: 10, Groups: []api.GroupSnapshot{{ID: "blue", Target: 10, Fulfilled: 10}}},
		Detail:   &api.TickDetail{Request: o.Decision.Request, Apps: o.Decision.Apps, Distribution: o.Distribution},
	}
	if result.Target != 10 {
		r.Actions = []api.Action{{Op: api.OpSetTarget, Group: "blue", Target: int(result.Target)}}
	}
	return r
}

// record writes ticks as the autoscaler does.
func (w *world) record(list ...api.TickRecord) {
	w.t.Helper()
	for _, r := range list {
		for ledger, v := range map[*state.Ledger]any{w.ledger: r, w.summaries: history.SummaryOf(r)} {
			data, err := json.Marshal(v)
			if err == nil {
				err = ledger.Append(w.t.Context(), data)
			}
			if err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// noSecret is a request without a token.
const noSecret = "-"

// request is one request; an empty method is GET, and an empty secret is that of a viewer.
type request struct {
	method, path, body, secret string
	headers                    map[string]string
}

func (w *world) do(q request) (int, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method, w.url+Prefix+q.path, strings.NewReader(q.body))
	if err != nil {
		w.t.Fatal(err)
	}
	if q.secret != noSecret {
		r.Header.Set("Authorization", "Bearer "+cmp.Or(q.secret, viewerSecret))
	}
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range q.headers {
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// get decodes the response to a GET.
func get[T any](w *world, path string) (v T) {
	w.t.Helper()
	status, body := w.do(request{path: path})
	if status != http.StatusOK {
		w.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		w.t.Fatalf("GET %s: %v: %s", path, err, body)
	}
	return v
}

// start is in the past by less than the slack of a search.
func start() time.Time { return time.Now().UTC().Truncate(time.Second).Add(-10 * time.Second) }

func text(at time.Time) string { return at.Format(time.RFC3339Nano) }

// Each route that reads has a response with documented keys only. The parts that do not run are unavailable.
func TestEachReadAnswersAsDocumented(t *testing.T) {
	w, at := newWorld(t), start().Add(123*time.Nanosecond)
	w.record(api.TickRecord{Schema: resolve.Schema, Cluster: "here", Pool: "web", At: at, Paused: &api.Note{By: "ann"}}, tick(at.Add(time.Second), 10), tick(at.Add(2*time.Second), 5))
	query := map[string]string{poolPath + "/ticks/{at}/decide": "?set=scaling_limits.max_capacity=15"}
	unavailable := map[string]bool{poolPath + "/apps": true, poolPath + "/signals": true}
	for _, r := range routes() {
		if r.read == nil {
			continue
		}
		path := strings.NewReplacer("{cluster}", "here", "{pool}", "web", "{at}", text(at.Add(time.Second))).Replace(r.path) + query[r.path]
		status, body := w.do(request{path: path})
		if unavailable[r.path] {
			if status != http.StatusServiceUnavailable || !strings.Contains(body, "runs here") {
				t.Errorf("GET %s: %d %s, want 503", path, status, body)
			}
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil || status != http.StatusOK {
			t.Errorf("GET %s: %d %s, %v", path, status, body, err)
			continue
		}
		if keys := undocumented(r.response, v, ""); keys != nil {
			t.Errorf("GET %s: undocumented keys %q", path, keys)
		}
	}
	if status, body := w.do(request{path: "/openapi.yaml"}); status != http.StatusOK || !strings.HasPrefix(body, "# Generated") {
		t.Errorf("the OpenAPI file: %d", status)
	}
}

// Ticks come in pages; changed selects those that did something; a tick is found by its exact time.
func TestTicks(t *testing.T) {
	w, at := newWorld(t), start()
	for i, need := range []float64{5, 5, 10, 5, 5} {
		w.record(tick(at.Add(time.Duration(i)*time.Second), need))
	}
	span := "?from=" + text(at) + "&to=" + text(at.Add(time.Minute))
	var found []string
	path, pages := "/pools/here/web/ticks"+span+"&limit=2", 0
	for path != "" && pages < 9 {
		page := get[api.Ticks](w, path)
		for _, s := range page.Ticks {
			found = append(found, fmt.Sprint(*s.Target))
		}
		path, pages = "", pages+1
		if !page.Next.IsZero() {
			path = "/pools/here/web/ticks?limit=2&from=" + text(page.Next) + "&to=" + text(at.Add(time.Minute))
		}
	}
	if got := strings.Join(found, " "); got != "10 10 20 10 10" || pages != 3 {
		t.Errorf("targets %s on %d pages, want 10 10 20 10 10 on 3", got, pages)
	}
	if page := get[api.Ticks](w, "/pools/here/web/ticks"+span+"&changed=true"); len(page.Ticks) != 2 || *page.Ticks[0].Target != 20 {
		t.Errorf("%d changed ticks, want the tick of target 20 and the one after it", len(page.Ticks))
	}
	if page := get[api.Events](w, "/pools/here/web/events"+span+"&kind=decision"); len(page.Events) != 2 || page.Events[0].Name != "target" {
		t.Errorf("events %+v, want target and its end", page.Events)
	}
	again := get[api.DecidedAgain](w, "/pools/here/web/ticks/"+text(at.Add(2*time.Second))+"/decide?set=scaling_limits.max_capacity=15")
	if again.Target != 20 || again.Would != 15 || len(again.Result.Steps) == 0 {
		t.Errorf("decided again: %+v, want 15 in place of 20", again)
	}
}

// A series has equal columns, a gap for a paused tick, and keeps the spike of one tick when it is thinned.
func TestSeries(t *testing.T) {
	w, at := newWorld(t), start().Add(-40*time.Second)
	for i := range 30 {
		need := 5.0
		if i == 13 {
			need = 14
		}
		w.record(tick(at.Add(time.Duration(i)*time.Second), need))
	}
	w.record(api.TickRecord{Schema: resolve.Schema, Cluster: "here", Pool: "web", At: at.Add(30 * time.Second), Paused: &api.Note{By: "ann"}})
	span := "?from=" + text(at) + "&to=" + text(at.Add(30*time.Second))
	whole := get[api.Series](w, "/pools/here/web/series"+span)
	if len(whole.At) != 31 || whole.Thinned || whole.Target[30] != nil || whole.Joined[30] != nil || whole.State[30] != "paused" {
		t.Errorf("%d ticks, thinned %t, the last one %v: want 31 with a gap at the end", len(whole.At), whole.Thinned, whole.State)
	}
	if *whole.Apps["web"].Requests["cpus"][13] != 14 || *whole.Apps["web"].Latency[0] != 0.001 || *whole.Offered["cpus"][0] != 10 || *whole.Groups["blue"][0] != 10 || *whole.Max[0] != 30 {
		t.Errorf("columns %+v", whole.Apps)
	}
	thin := get[api.Series](w, "/pools/here/web/series"+span+"&points=9")
	peak := 0.0
	for _, x := range thin.Target {
		if x != nil {
			peak = max(peak, *x)
		}
	}
	if !thin.Thinned || len(thin.At) > 12 || peak != 28 {
		t.Errorf("%d points, thinned %t, peak %v: want about 9 with the peak 28", len(thin.At), thin.Thinned, peak)
	}
	if thin.State[len(thin.State)-1] != "paused" {
		t.Error("the last tick is lost")
	}
}

// Hostile and wrong requests are refused with the status that names their mistake.
func TestBadInput(t *testing.T) {
	w, at := newWorld(t), start()
	w.record(tick(at, 5))
	order := `{"reason":"a test"}`
	pause := request{method: "POST", path: "/pools/here/web/pause", body: order, secret: operatorSecret}
	with := func(q request, edit func(*request)) request { edit(&q); return q }
	for name, test := range map[string]struct {
		request
		status int
		want   string
	}{
		"unknown path":              {request{path: "/secrets"}, 404, "no such path"},
		"path tricks":               {request{path: "/pools/here/..%2f..%2fetc/ticks"}, 404, "has no pool"},
		"name with script":          {request{path: "/pools/here/%3Cscript%3E"}, 404, "has no pool"},
		"control characters":        {request{path: "/pools/here/%1b%5b2J"}, 404, "has no pool"},
		"unknown pool":              {request{path: "/pools/here/api"}, 404, "has no pool"},
		"unknown cluster":           {request{path: "/pools/there/web"}, 404, "has no cluster"},
		"stream of an unknown pool": {request{path: "/events?pool=api"}, 404, "has no pool"},
		"method":                    {request{method: "DELETE", path: "/pools"}, 405, "no such method"},
		"unknown parameter":         {request{path: "/pools/here/web/ticks?form=x"}, 400, "unknown"},
		"parameter twice":           {request{path: "/pools/here/web/ticks?limit=1&limit=2"}, 400, "2 times"},
		"ten years":                 {request{path: "/pools/here/web/ticks?from=2015-01-01T00:00:00Z&to=2025-01-01T00:00:00Z"}, 400, "92 days"},
		"range backwards":           {request{path: "/pools/here/web/series?from=2025-01-02T00:00:00Z&to=2025-01-01T00:00:00Z"}, 400, "from before to"},
		"no time":                   {request{path: "/pools/here/web/events?from=yesterday"}, 400, "want a time"},
		"page size":                 {request{path: "/pools/here/web/ticks?limit=1000000"}, 400, "1 to 1000"},
		"points":                    {request{path: "/pools/here/web/series?points=-1"}, 400, "3 to 3000"},
		"boolean":                   {request{path: "/pools/here/web/ticks?changed=maybe"}, 400, "true or false"},
		"kind":                      {request{path: "/pools/here/web/events?kind=all"}, 400, "want decision"},
		"tick":                      {request{path: "/pools/here/web/ticks/now"}, 400, "want a time"},
		"no such tick":              {request{path: "/pools/here/web/ticks/2026-01-01T00:00:00Z"}, 404, "no tick"},
		"override":                  {request{path: "/pools/here/web/ticks/" + text(at) + "/decide?set=autoscaling.setpoint=7"}, 400, "setpoint"},
		"long query":                {request{path: "/pools?x=" + strings.Repeat("x", 9000)}, 414, "too long"},
		"DNS rebinding":             {request{path: "/pools", headers: map[string]string{"Host": "rebound.example"}}, 403, "another host"},
		"cross-site":                {request{path: "/pools", headers: map[string]string{"Sec-Fetch-Site": "cross-site"}}, 403, "another site"},
		"foreign origin":            {with(pause, func(q *request) { q.headers = map[string]string{"Origin": "http://evil.example"} }), 403, "another site"},
		"wrong secret":              {request{path: "/pools", secret: "no-such-secret-0123456789"}, 401, "Bearer"},
		"empty secret":              {request{path: "/pools", headers: map[string]string{"Authorization": "Bearer "}}, 401, "Bearer"},
		"order without token":       {with(pause, func(q *request) { q.secret = noSecret }), 401, "Bearer"},
		"read without token":        {request{path: "/pools", secret: noSecret}, 401, "Bearer"},
		"order of a viewer":         {with(pause, func(q *request) { q.secret = viewerSecret }), 403, "operator"},
		"order as a form":           {with(pause, func(q *request) { q.headers = map[string]string{"Content-Type": "text/plain"} }), 415, "application/json"},
		"no reason":                 {with(pause, func(q *request) { q.body = `{"reason":" "}` }), 400, "reason is missing"},
		"long reason":               {with(pause, func(q *request) { q.body = `{"reason":"` + strings.Repeat("x", 300) + `"}` }), 400, "at most 200"},
		"long body":                 {with(pause, func(q *request) { q.body = `{"reason":"` + strings.Repeat("x", 9000) + `"}` }), 413, "4096"},
		"unknown key":               {with(pause, func(q *request) { q.body = `{"reason":"x","force":true}` }), 400, "force"},
		"two values":                {with(pause, func(q *request) { q.body = order + order }), 400, "follows"},
		"no JSON":                   {with(pause, func(q *request) { q.body = "reason" }), 400, "body"},
		"negative length":           {with(pause, func(q *request) { q.body = `{"reason":"x","for":-1}` }), 400, "for is -1"},
		"endless length":            {with(pause, func(q *request) { q.body = `{"reason":"x","for":1e300}` }), 400, "for is"},
		"weight":                    {request{"POST", "/pools/here/web/offset", `{"reason":"x","weight":0.5}`, operatorSecret, nil}, 400, "whole number"},
		"target":                    {request{"POST", "/pools/here/web/target", `{"reason":"x","target":"many"}`, operatorSecret, nil}, 400, "min or max"},
		"target and clear":          {request{"POST", "/pools/here/web/target", `{"reason":"x","target":"3","clear":true}`, operatorSecret, nil}, 400, "not both"},
		"recovery of nothing":       {request{"POST", "/pools/here/web/recover", `{"reason":"x","nodes":[]}`, operatorSecret, nil}, 400, "no node"},
		"recovery, no health":       {request{"POST", "/pools/here/web/recover", `{"reason":"x","nodes":["i-1"]}`, operatorSecret, nil}, 503, "health"},
		"order of unknown pool":     {with(pause, func(q *request) { q.path = "/pools/here/api/pause" }), 404, "has no pool"},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			status, body := w.do(test.request)
			var answer struct{ Error string }
			if err := json.Unmarshal([]byte(body), &answer); err != nil || status != test.status || !strings.Contains(answer.Error, test.want) {
				t.Errorf("%d %s, want %d with %q", status, body, test.status, test.want)
			}
			if strings.ContainsAny(body, "<\x1b") {
				t.Errorf("the response is not escaped: %q", body)
			}
		})
	}
	if s := get[api.PoolStatus](w, "/pools/here/web"); s.Orders == nil || !s.Orders.Empty() {
		t.Errorf("a refused order is stored: %+v", s.Orders)
	}
}

// An operator pauses, resumes, offsets and pins a pool. The orders have the operator and the reason.
func TestOrders(t *testing.T) {
	w := newWorld(t)
	w.record(tick(start(), 5))
	for _, test := range []struct{ path, body, want string }{
		{"pause", `{"reason":"network work","for":600}`, `"pause":{"by":"olga","why":"network work"`},
		{"resume", `{"reason":"done"}`, `{}`},
		{"offset", `{"reason":"a sale","weight":3}`, `"weight":3`},
		{"offset", `{"reason":"done","weight":0}`, `{}`},
		{"target", `{"reason":"a test","target":"max","for":0}`, `"bound":"max"`},
		{"target", `{"reason":"done","clear":true}`, `{}`},
	} {
		status, body := w.do(request{"POST", "/pools/here/web/" + test.path, test.body, operatorSecret, nil})
		if status != http.StatusOK || !strings.Contains(body, test.want) {
			t.Errorf("POST %s %s: %d %s, want %s", test.path, test.body, status, body, test.want)
		}
	}
}

// An order to repair nodes reaches node health with the operator and the reason. A rejected one is an error.
func TestRecover(t *testing.T) {
	w := newWorld(t)
	w.record(tick(start(), 5))
	bustest.Subscribe(t, w.bus.Conn(), events.OrderSubject("here", "web"), func(m *nats.Msg) {
		var o api.RepairOrder
		err := json.Unmarshal(m.Data, &o)
		answer := api.RepairOrderResponse{OK: true, Nodes: []api.RepairNodeResponse{{Node: "i-1", OK: true}}}
		if err != nil || o.Op != api.OpRecover || o.By != "olga" || o.Why != "fan is loud" || o.For != 90*time.Minute || len(o.Nodes) != 1 {
			answer = api.RepairOrderResponse{Error: fmt.Sprintf("order %+v, %v", o, err)}
		}
		data, _ := json.Marshal(answer)
		_ = m.Respond(data) // the request fails without it
	})
	for body, want := range map[string]int{`{"reason":"fan is loud","nodes":["i-1"],"wait":5400}`: 200, `{"reason":"fan is loud","nodes":["i-1"],"wait":60}`: 409} {
		if status, text := w.do(request{"POST", "/pools/here/web/recover", body, operatorSecret, nil}); status != want {
			t.Errorf("POST recover %s: %d %s, want %d", body, status, text, want)
		}
	}
}

// With tokens, and on an address that other hosts reach, each request needs a token. On a loopback address without tokens
// all processes of the host read, and nothing gives an order.
func TestWhoNeedsAToken(t *testing.T) {
	tokens := func() ([]Token, error) { return []Token{{Viewer, "vic", viewerSecret}}, nil }
	inside, outside := net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)
	for _, test := range []struct {
		own    net.IP
		tokens func() ([]Token, error)
		method string
		secret string
		want   int
	}{
		{outside, tokens, "GET", "", 401},
		{outside, tokens, "GET", "wrong-secret-0123456789", 401},
		{outside, tokens, "GET", viewerSecret, 200},
		{inside, tokens, "GET", "", 401},
		{inside, tokens, "GET", viewerSecret, 200},
		{inside, nil, "GET", "", 200},
		{inside, nil, "GET", viewerSecret, 401},
		{inside, nil, "POST", "", 403},
	} {
		h := New(Config{Own: &net.TCPAddr{IP: test.own, Port: 80}, Log: slog.New(slog.DiscardHandler), Cluster: "here", Tokens: test.tokens})
		path := "/openapi.yaml"
		if test.method == "POST" {
			path = "/pools/here/web/pause"
		}
		r, out := httptest.NewRequest(test.method, "http://127.0.0.1"+Prefix+path, strings.NewReader("{}")), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		if test.secret != "" {
			r.Header.Set("Authorization", "Bearer "+test.secret)
		}
		if h.ServeHTTP(out, r); out.Code != test.want {
			t.Errorf("%s on %v with secret %q, tokens %t: %d, want %d", test.method, test.own, test.secret, test.tokens != nil, out.Code, test.want)
		}
	}
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for _, test := range []struct {
		content string
		mode    os.FileMode
		want    string // in the error; empty: none
	}{
		{"# people\noperator olga 0123456789abcdef\n\nviewer vic fedcba9876543210\n", 0o600, ""},
		{"operator olga 0123456789abcdef\n", 0o644, "other users can read it"},
		{"", 0o600, "has no token"},
		{"admin olga 0123456789abcdef\n", 0o600, "want viewer or operator"},
		{"viewer vic short\n", 0o600, "the secret of vic has 5 bytes"},
		{"viewer 0123456789abcdef\n", 0o600, "line 1: want ROLE NAME SECRET"},
		{"viewer a/b 0123456789abcdef\n", 0o600, "name"},
		{strings.Repeat("#", 70_000), 0o600, "more than"},
	} {
		if err := os.WriteFile(path, []byte(test.content), test.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, test.mode); err != nil {
			t.Fatal(err)
		}
		tokens, err := ReadTokens(path)
		switch {
		case test.want == "" && (err != nil || len(tokens) != 2):
			t.Errorf("ReadTokens(%q) = %d tokens, %v", test.content, len(tokens), err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "0123456789abcdef")):
			t.Errorf("ReadTokens(%.40q) = %v, want %q without a secret", test.content, err, test.want)
		}
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte("operator olga 0123456789abcdef\n# x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tokens, err := parseTokens(data)
		if err == nil && len(tokens) == 0 {
			t.Error("no token and no error")
		}
	})
}

// An order to retry an application reaches the harmonizer, if the application is of the pool. It needs a reason.
func TestRetry(t *testing.T) {
	w := newWorld(t)
	w.record(tick(start(), 5))
	respond := func(subject string, answer any) {
		data, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		bustest.Subscribe(t, w.bus.Conn(), subject, func(m *nats.Msg) { _ = m.Respond(data) }) // the request fails without it
	}
	respond(message.StatusSubject("here"), api.HarmonizerStatus{App: &api.AppExplanation{AppSummary: api.AppSummary{Name: "cart", Pool: "web"}}})
	respond(message.OrderSubject("here"), api.HarmonizerOrderAnswer{OK: true})
	for body, want := range map[string]int{`{"reason":"the table is back"}`: 200, `{"reason":" "}`: 400} {
		if status, text := w.do(request{"POST", "/pools/here/web/apps/cart/retry", body, operatorSecret, nil}); status != want {
			t.Errorf("POST retry %s: %d %s, want %d", body, status, text, want)
		}
	}
	if status, text := w.do(request{"POST", "/pools/here/web/apps/cart/retry", `{"reason":"x"}`, viewerSecret, nil}); status != 403 {
		t.Errorf("POST retry of a viewer: %d %s, want 403", status, text)
	}
}
