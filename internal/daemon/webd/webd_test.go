package webd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/apiserver"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
)

const patience = await.Patience

// The pages and the API of a real server show a pool, its new tick, and that the bus is away.
func TestPagesShowThePoolAndItsLoss(t *testing.T) {
	data := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Config{Data: data, Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	closeBus := sync.OnceFunc(b.Close)
	t.Cleanup(closeBus)
	bustest.Streams(t, b.JetStream(), "here", 1, "web")
	summaries, err := state.OpenSummaries(t.Context(), b.JetStream(), "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	tick := func(target float64) {
		t.Helper()
		data, err := json.Marshal(api.Summary{Schema: history.SummarySchema, Pool: "web", At: time.Now(), Every: time.Second, Before: &target, Target: &target, Wanted: &target, Joined: target})
		if err == nil {
			err = summaries.Append(t.Context(), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tick(31)
	url := start(t, data)
	until(t, url+"/pools", "web", "31")
	tick(47)
	until(t, url+"/pools", "47")
	until(t, url+"/pools/here/web", "47")
	until(t, url+"/api/v1/pools", `"pool":`, "web")
	closeBus()
	until(t, url+"/pools", "does not answer since", "not live")
}

// start runs "weir web" and returns its address.
func start(t *testing.T, data string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	p := Process{
		Settings: daemon.Settings{Data: data, Configs: t.TempDir(), Cluster: "here"}, Addr: "127.0.0.1:0", AdminAddr: config.AdminOff, Out: write,
		Log: slog.New(slog.DiscardHandler),
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx, config.Service{}); err != nil {
			t.Errorf("Run = %v", err)
		}
		write.Close()
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	lines := bufio.NewScanner(read)
	if !lines.Scan() {
		t.Fatal("no address")
	}
	go io.Copy(io.Discard, read)
	return strings.TrimSuffix(strings.TrimPrefix(lines.Text(), "dashboard: "), "/")
}

// until requests a page until it has all texts.
func until(t *testing.T, url string, texts ...string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		got.Body.Close()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(string(body), text) {
				missing = text
			}
		}
		if err == nil && missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: status %d without %q within %v:\n%.2000s", url, got.StatusCode, missing, patience, body)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// With tokens, and on an address that other hosts reach, each page needs a token. A loopback address accepts no name of
// another host.
func TestGuardOfThePages(t *testing.T) {
	const secret = "0123456789abcdef"
	tokens := func() ([]apiserver.Token, error) {
		return []apiserver.Token{{Role: apiserver.Viewer, Name: "kim", Secret: secret}}, nil
	}
	outside := &net.TCPAddr{IP: net.IPv4zero, Port: 9480}
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9480}
	for name, test := range map[string]struct {
		own    net.Addr
		tokens func() ([]apiserver.Token, error)
		host   string
		edit   func(*http.Request)
		want   int
	}{
		"loopback":                    {local, nil, "127.0.0.1:9480", nil, http.StatusOK},
		"another name":                {local, nil, "evil.example:9480", nil, http.StatusForbidden},
		"another name with a token":   {local, tokens, "evil.example:9480", password(secret), http.StatusForbidden},
		"no token":                    {outside, tokens, "10.0.0.1:9480", nil, http.StatusUnauthorized},
		"no token on loopback":        {local, tokens, "127.0.0.1:9480", nil, http.StatusUnauthorized},
		"no token file":               {outside, nil, "10.0.0.1:9480", password(""), http.StatusUnauthorized},
		"wrong token":                 {outside, tokens, "10.0.0.1:9480", password("0123456789abcdeX"), http.StatusUnauthorized},
		"token as basic password":     {outside, tokens, "10.0.0.1:9480", password(secret), http.StatusOK},
		"secret as the cookie":        {local, tokens, "127.0.0.1:9480", cookie("weir_pages_9480", secret), http.StatusUnauthorized},
		"cookie of another port":      {local, tokens, "127.0.0.1:9480", cookie("weir_pages_9481", pass(apiserver.Token{Secret: secret})), http.StatusUnauthorized},
		"cookie":                      {local, tokens, "127.0.0.1:9480", cookie("weir_pages_9480", pass(apiserver.Token{Secret: secret})), http.StatusOK},
		"wrong token in a link":       {local, tokens, "127.0.0.1:9480", link("0123456789abcdeX"), http.StatusUnauthorized},
		"token in a link":             {local, tokens, "127.0.0.1:9480", link(secret), http.StatusSeeOther},
		"tokens cannot be read now":   {local, func() ([]apiserver.Token, error) { return nil, io.ErrUnexpectedEOF }, "127.0.0.1:9480", password(secret), http.StatusServiceUnavailable},
		"link of another host's page": {local, tokens, "evil.example:9480", link(secret), http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodGet, "/pools", nil)
		r.Host = test.host
		if test.edit != nil {
			test.edit(r)
		}
		if got := answer(guard{test.own, test.tokens, slog.New(slog.DiscardHandler)}, r); got.Code != test.want {
			t.Errorf("%s: status %d, want %d: %s", name, got.Code, test.want, got.Body)
		}
	}
}

func password(secret string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth("any", secret) }
}

func cookie(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: name, Value: value}) }
}

func link(secret string) func(*http.Request) {
	return func(r *http.Request) { r.URL.RawQuery = "token=" + secret }
}

func answer(g guard, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w
}

// A link with a token opens the same page without the token in its address. The cookie that it sets is not the secret.
func TestLinkWithATokenBecomesACookie(t *testing.T) {
	const secret = "0123456789abcdef"
	g := guard{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9480}, func() ([]apiserver.Token, error) {
		return []apiserver.Token{{Role: apiserver.Viewer, Name: "kim", Secret: secret}}, nil
	}, slog.New(slog.DiscardHandler)}
	for path, want := range map[string]string{
		"/?token=" + secret: "/", "/pools/here/web?range=6h&token=" + secret: "/pools/here/web?range=6h", "//evil.example/?token=" + secret: "/evil.example",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		var err error
		if r.URL, err = url.ParseRequestURI("http://127.0.0.1:9480" + path); err != nil {
			t.Fatal(err)
		}
		r.Host = "127.0.0.1:9480"
		w := answer(g, r)
		cookies := w.Result().Cookies()
		if got := w.Header().Get("Location"); got != want || len(cookies) != 1 {
			t.Fatalf("%s leads to %q with %d cookies, want %q and one", path, got, len(cookies), want)
		}
		c := cookies[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || strings.Contains(w.Header().Get("Set-Cookie"), secret) {
			t.Errorf("the cookie is %q", w.Header().Get("Set-Cookie"))
		}
		again := httptest.NewRequest(http.MethodGet, want, nil)
		again.Host = r.Host
		again.AddCookie(c)
		if w := answer(g, again); w.Code != http.StatusOK {
			t.Errorf("%s with the cookie: status %d", want, w.Code)
		}
	}
}

// The output of ended instances comes from the agents of their nodes. A node that answers wrong is named, and the others are read.
func TestOutputOfEndedInstances(t *testing.T) {
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	reply := wire.LogsReply{Copies: []wire.CopyLog{
		{Instance: "a", Ended: true, Lines: []string{"starts", "panic: no table", "[ended: exit status 2]"}, Next: 40},
		{Instance: "b", Lines: []string{"runs"}, Next: 5},
		{Instance: "c", Ended: true, Lines: []string{"[ended: exit status 1]"}, Next: 20},
	}}
	for node, fails := range map[string]error{"i-1": nil, "i-2": errors.New("disk is away")} {
		if _, err := b.Conn().Subscribe(wire.Subject("here", "web", node, wire.OpLogs), func(m *nats.Msg) { _ = call.Respond(m, 0, reply, fails) }); err != nil {
			t.Fatal(err)
		}
	}
	s := source{b, "here", t.TempDir(), slog.New(slog.DiscardHandler)}
	got, err := s.Output(t.Context(), web.Name{Cluster: "here", Pool: "web"}, "shop", []string{"i-1", "i-2", "gone"})
	if want := map[string][]string{"a": {"starts", "panic: no table"}}; !cmp.Equal(got, want) {
		t.Errorf("Output = %v, want %v", got, want)
	}
	if err == nil || !strings.Contains(err.Error(), "i-2") || !strings.Contains(err.Error(), "weir app logs shop") || strings.Contains(err.Error(), "gone") {
		t.Errorf("error %v, want node i-2 and the command", err)
	}
}

// The versions of an application are those of its row. Without a bucket of applications, and without a row, the list is empty.
func TestVersionsOfAnApp(t *testing.T) {
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	s := source{b, "here", t.TempDir(), slog.New(slog.DiscardHandler)}
	versions := func(app string) (all []string) {
		list, err := s.Versions(t.Context(), web.Name{Cluster: "here", Pool: "web"}, app)
		if err != nil {
			t.Errorf("versions of %s: %v", app, err)
		}
		for _, v := range list {
			all = append(all, v.Version+" "+v.Command)
		}
		return all
	}
	if got := versions("shop"); got != nil {
		t.Errorf("without a bucket: %q", got)
	}
	bustest.Streams(t, b.JetStream(), "here", 1, "web")
	const row = `{"name":"shop","pool":"web","instances":0,"version":"v2","command":"true","cpus":0.1,"mem":64,"disk":0,
		"history":[{"version":"v1","command":"false","cpus":0.1,"mem":64,"disk":0}]}`
	if _, err := kvbucket.New(b.JetStream(), names.AppsBucket("here")).Put(t.Context(), "shop", []byte(row)); err != nil {
		t.Fatal(err)
	}
	for app, want := range map[string][]string{"shop": {"v2 true", "v1 false"}, "other": nil, "a b": nil} {
		if got := versions(app); !slices.Equal(got, want) {
			t.Errorf("versions of %s: %q, want %q", app, got, want)
		}
	}
}

// One pool has one severity: "weir status", "weir pool list", GET /pools and its page list the same conditions.
func TestOneSeverity(t *testing.T) {
	data := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Config{Data: data, Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	now := time.Now()
	ticks := map[string]api.TickRecord{
		"paused": {At: now, Paused: &api.Note{By: "ann", Why: "a test"}}, "failed": {At: now, Failed: "read the groups: timeout"}, "late": {At: now.Add(-3 * time.Hour), Paused: &api.Note{By: "ann"}},
	}
	bustest.Streams(t, b.JetStream(), "here", 1, slices.Sorted(maps.Keys(ticks))...)
	for pool, r := range ticks {
		r.Schema, r.Cluster, r.Pool, r.Every = resolve.Schema, "here", pool, time.Hour
		ledger, err := state.OpenLedger(t.Context(), b.JetStream(), "here", pool)
		if err != nil {
			t.Fatal(err)
		}
		summaries, err := state.OpenSummaries(t.Context(), b.JetStream(), "here", pool)
		if err != nil {
			t.Fatal(err)
		}
		for value, add := range map[any]func(context.Context, []byte) error{&r: ledger.Append, new(history.SummaryOf(r)): summaries.Append} {
			data, err := json.Marshal(value)
			if err == nil {
				err = add(t.Context(), data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	listed := func(all []api.Condition) (out []string) {
		for _, c := range all {
			out = append(out, string(c.Severity)+" "+c.Word)
		}
		return out
	}
	rows, err := view.Fleet{Bus: b, Cluster: "here", Configs: t.TempDir(), Warn: t.Logf}.Rows(t.Context())
	if err != nil || len(rows) != len(ticks) {
		t.Fatalf("%d pools, %v", len(rows), err)
	}
	url := start(t, data)
	var served []api.Pool
	if err := json.Unmarshal([]byte(body(t, url+"/api/v1/pools")), &served); err != nil {
		t.Fatal(err)
	}
	severities := map[string]api.Severity{"bad": api.SeverityError, "warn": api.SeverityWarning, "paused": api.SeverityInfo, "changing": api.SeverityInfo, "steady": api.SeverityInfo}
	item := regexp.MustCompile(`(?s)<li class="(\w+)">.*?<span class="word">([^<]*)<`)
	for _, row := range rows {
		want := listed(row.Conditions)
		if len(want) == 0 {
			t.Errorf("pool %s has no condition", row.Pool)
		}
		i := slices.IndexFunc(served, func(p api.Pool) bool { return p.Pool == row.Pool })
		if i < 0 || !slices.Equal(listed(served[i].Conditions), want) || served[i].State != row.State {
			t.Errorf("pool %s: GET /pools has %+v, want %q", row.Pool, served, want)
		}
		s := view.Pool{Bus: b, Cluster: "here", Name: row.Pool}.Status(t.Context())
		if !slices.Equal(listed(s.Conditions), want) || s.State != row.State {
			t.Errorf("pool %s: the status is %s, %q, want %s, %q", row.Pool, s.State, listed(s.Conditions), row.State, want)
		}
		until(t, url+"/pools/here/"+row.Pool, `class="word"`)
		_, states, _ := strings.Cut(body(t, url+"/pools/here/"+row.Pool), `<ul class="states"`)
		states, _, _ = strings.Cut(states, "</ul>")
		var onPage []string
		for _, m := range item.FindAllStringSubmatch(states, -1) {
			onPage = append(onPage, string(severities[m[1]])+" "+m[2])
		}
		if !slices.Equal(onPage, want) {
			t.Errorf("pool %s: the page has %q, want %q", row.Pool, onPage, want)
		}
	}
}

func body(t *testing.T, url string) string {
	t.Helper()
	got, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
