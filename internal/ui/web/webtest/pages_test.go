package webtest_test

import (
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

func get(t testing.TB, url string) (*http.Response, string) {
	t.Helper()
	client := http.Client{Timeout: await.Patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// Requests that are wrong get a page with the reason and the right status.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	url := serve(t, &webtest.World{Size: 4, Every: time.Minute})
	const pool = "/pools/prod/checkout-eu1"
	tests := []struct {
		name, path string
		status     int
		want       string
	}{
		{"unknown pool", "/pools/prod/none", 404, "This pool does not exist"},
		{"name with a script", "/pools/prod/%3Cscript%3Ealert(1)%3C%2Fscript%3E", 404, "&lt;script&gt;"},
		{"ten years", pool + "?from=2016-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", 400, "want 1 s to 721h"},
		{"backwards", pool + "?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", 400, "want 1 s to"},
		{"half a window", pool + "?from=2026-01-02T00:00:00Z", 400, "both from and to"},
		{"no time", pool + "?at=yesterday", 400, "want a time"},
		{"unknown range", pool + "?range=2h", 400, "want 15m, 1h, 6h, 24h, 7d, 30d or all"},
		{"unknown kind", pool + "?kind=love", 400, "love"},
		{"unknown part", pool + "?part=all", 400, "want plots or series"},
		{"empty past", pool + "?from=2020-01-02T00:00:00Z&to=2020-01-02T01:00:00Z", 200, "No tick is recorded in this time"},
		{"long query", pool + "?q=" + strings.Repeat("x", 3000), 414, "too long"},
		{"tick without a time", pool + "/ticks/now", 400, "The time of a tick"},
		{"tick before all", pool + "/ticks/2001-01-01T00:00:00Z", 404, "No tick is recorded there"},
		{"path out", "/assets/../../etc/passwd", 307, ""},
		{"unknown path", "/api", 404, "This page does not exist"},
		{"query with a script", "/pools?q=%22%3E%3Cscript%3E", 200, `value="&#34;&gt;&lt;script&gt;"`},
		{"stream of an unknown pool", "/events?pool=a/b", 404, "does not exist"},
		{"limit that is no number", pool + "/ticks/2026-11-22T15:00:00Z?max_capacity=inf&setpoint=2", 200, "must be a number"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			response, body := get(t, url+test.path)
			if response.StatusCode != test.status || !strings.Contains(body, test.want) {
				t.Errorf("status %d, want %d with %q:\n%.600s", response.StatusCode, test.status, test.want, body)
			}
			policy := response.Header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
				t.Errorf("the policy is %q", policy)
			}
			if strings.Contains(body, "<script>") || strings.Contains(body, " style=") {
				t.Errorf("the page has an inline script or style:\n%.600s", body)
			}
		})
	}
}

// The page of a pool has the progress of its rotations, and that of a pool without one has no such line.
func TestProgressOfARotation(t *testing.T) {
	t.Parallel()
	url := serve(t, &webtest.World{Size: 60, Every: time.Minute, Trouble: true})
	for pool, want := range map[string]string{
		"audit-ap1":    `<p class="sentence" id="rotation">Rotation: 4 of 9 machines are replaced, 1 new machine is not proven yet; its window closes on Sun 2026-11-22 17:00 UTC; roll of spot-a: 5 of 9 machines are left.</p>`,
		"checkout-eu1": "",
	} {
		if _, body := get(t, url+"/pools/prod/"+pool); !strings.Contains(body, want) || want == "" && strings.Contains(body, `id="rotation"`) {
			t.Errorf("the page of %s lacks %q, or has a line of a rotation", pool, want)
		}
	}
}

// The pages only read.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	url := serve(t, &webtest.World{Size: 1, Every: time.Minute})
	response, err := http.Post(url+"/pools", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("status %d", response.StatusCode)
	}
}

// While the source is away a page has its old values under a notice, and a decision cannot be read.
func TestPagesSayThatTheSourceIsAway(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 4, Every: time.Minute}
	url := serve(t, w)
	w.SetAway(true)
	awaitText(t, url+"/pools/prod/checkout-eu1", func(page string) bool {
		return strings.Contains(page, "out of date") && strings.Contains(page, "not live") && strings.Contains(page, "no servers available")
	})
	response, body := get(t, url+"/pools/prod/checkout-eu1/ticks/2026-11-22T13:15:00Z")
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "The ledger does not answer") {
		t.Errorf("status %d:\n%.600s", response.StatusCode, body)
	}
}

// The text of an empty list is not below a list with rows, and a failed tick has its reason once.
func TestPagesDoNotContradictThemselves(t *testing.T) {
	t.Parallel()
	url := large(t)
	for path, wrong := range map[string]string{
		"/pools/prod/checkout-eu1/apps": "No applications yet", "/pools/prod/checkout-eu1/nodes": "No node is known", "/pools/prod/checkout-eu1/apps/cart": "It has no copy",
		"/pools/prod/batch-us1/ticks/2026-11-22T15:38:59Z": "The last tick",
	} {
		if _, body := get(t, url+path); strings.Contains(body, wrong) {
			t.Errorf("%s has the text %q", path, wrong)
		}
	}
}

// Each crash of an application has how it ended and the last lines of its output. Without the output of one node the page has the rest.
func TestCrashHasItsExitAndItsLastLines(t *testing.T) {
	t.Parallel()
	for _, unread := range []error{nil, errors.New("logs on node i-spot-a-1: timeout")} {
		url := serve(t, &webtest.World{Size: 1, Every: time.Minute, Trouble: true, Unread: unread})
		_, body := get(t, url+"/pools/prod/checkout-eu1/apps/receipts")
		_, crashes, _ := strings.Cut(body, `id="crashes"`)
		for _, want := range []string{"exit status 1", `<pre>opening the database
panic: no such table: &lt;receipts&gt;</pre>`} {
			if !strings.Contains(crashes, want) {
				t.Errorf("unread: %v: the crashes are without %q:\n%s", unread, want, crashes)
			}
		}
		if got := strings.Contains(crashes, "The output of some instances cannot be read now: logs on node i-spot-a-1: timeout"); got != (unread != nil) {
			t.Errorf("unread: %v: the note is there: %v\n%s", unread, got, crashes)
		}
	}
}

// The events of a pool are filtered by kind, severity, app and node, and the form keeps the choice.
func TestEventsAreFiltered(t *testing.T) {
	t.Parallel()
	url := large(t)
	const decision, app, node = "set target on-demand to 14", "receipts: copy", "gets its next repair"
	for query, wants := range map[string]struct{ has, lacks []string }{
		"/checkout-eu1/events?range=1h":                                {[]string{decision, app}, []string{node}},
		"/checkout-eu1/events?range=1h&kind=decision":                  {[]string{decision, `<option value="decision" selected`}, []string{app}},
		"/checkout-eu1/events?range=1h&kind=harmonizer":                {[]string{app}, []string{decision}},
		"/checkout-eu1/events?range=1h&severity=warning":               {[]string{app, `<option value="warning" selected`}, []string{decision}},
		"/checkout-eu1/events?range=1h&severity=error":                 {[]string{"No event in this time"}, []string{decision, app}},
		"/checkout-eu1/events?range=1h&app=receipts":                   {[]string{app, `value="receipts"`}, []string{decision}},
		"/checkout-eu1/events?range=1h&app=cart":                       {[]string{"No event in this time"}, []string{decision, app}},
		"/catalog-ap1/events?range=1h&node=i-2e9203":                   {[]string{node, `value="i-2e9203"`}, []string{decision}},
		"/catalog-ap1/events?range=1h&node=i-none":                     {[]string{"No event in this time"}, []string{decision, node}},
		"/catalog-ap1/events?range=1h&kind=health&severity=warning":    {[]string{node}, []string{decision}},
		"/catalog-ap1/events?range=15m&kind=decision&severity=warning": {[]string{"No event in this time"}, []string{decision, node}},
		"/catalog-ap1/events?range=30d&node=i-2e9203":                  {[]string{`<option value="30d" selected`, "3 events in the last 30 d", node}, []string{decision}},
		"/checkout-eu1/events?range=1h&pool=*&severity=warning": {
			[]string{`<option value="*" selected`, "Events of all pools", node, app, `href="/pools/prod/catalog-ap1">`}, []string{decision}},
	} {
		_, body := get(t, url+"/pools/prod"+query)
		body = html.UnescapeString(body)
		for _, want := range wants.has {
			if !strings.Contains(body, want) {
				t.Errorf("%s is without %q:\n%s", query, want, body)
			}
		}
		for _, wrong := range wants.lacks {
			if strings.Contains(body, wrong) {
				t.Errorf("%s has %q", query, wrong)
			}
		}
	}
}

// The events of a pool lead to those of another pool with the same filter.
func TestEventsOfAnotherPool(t *testing.T) {
	t.Parallel()
	response, _ := get(t, large(t)+"/pools/prod/checkout-eu1/events?range=7d&pool=catalog-ap1&node=i-2e9203")
	if at := response.Header.Get("Location"); response.StatusCode != http.StatusSeeOther || at != "/pools/prod/catalog-ap1/events?node=i-2e9203&range=7d" {
		t.Errorf("status %d, to %q", response.StatusCode, at)
	}
}

// The headline of a page of the past has its date, its time and its zone, and nothing of now. That of the present lacks them.
func TestHeadlineOfAPageOfThePast(t *testing.T) {
	t.Parallel()
	url := large(t)
	headline := func(query string) (h1, page string) {
		_, page = get(t, url+"/pools/prod/checkout-eu1"+query)
		_, h1, _ = strings.Cut(page, "<h1>")
		h1, _, _ = strings.Cut(h1, "</h1>")
		return h1, page
	}
	for query, want := range map[string]string{
		"?at=2026-11-22T09:00:00Z": "Sun 22 Nov 2026, 09:00:00 UTC", "?from=2026-11-22T03:00:00Z&to=2026-11-22T04:00:00Z": "Sun 22 Nov 2026, 04:00:00 UTC",
	} {
		h1, page := headline(query)
		if !strings.Contains(h1, want) || !strings.Contains(h1, "<time") {
			t.Errorf("%s: the headline is %q, want %q", query, h1, want)
		}
		for _, now := range []string{`id="sentence"`, `id="deploy"`, "Crash-looping"} {
			if strings.Contains(page, now) {
				t.Errorf("%s: the page has %q", query, now)
			}
		}
	}
	if h1, page := headline(""); strings.Contains(h1, "2026") || !strings.Contains(page, `id="sentence"`) {
		t.Errorf("the headline of the present is %q", h1)
	}
}

// A pool without a tick for 21 minutes has no number of now: the first line has its age, and each number is a dash beside the last one.
func TestPagesOfAPoolWithoutTicks(t *testing.T) {
	t.Parallel()
	url := serve(t, &webtest.World{Size: 12, Every: time.Minute, Trouble: true})
	_, page := get(t, url+"/pools/prod/mail-eu1")
	head, _, _ := strings.Cut(page, `class="tabs"`)
	sentence := strings.Index(head, "No tick for 21 min: nothing controls the pool.")
	if figures := strings.Index(head, `class="figures"`); sentence < 0 || figures < sentence {
		t.Errorf("the first line does not have the age of the last tick:\n%.3000s", head)
	}
	for _, key := range []string{"unlimited", "target", "joined"} {
		if !regexp.MustCompile(`data-key="` + key + `">–</span> <span class="rest">was [0-9.]+<`).MatchString(head) {
			t.Errorf("%s is shown as of now:\n%s", key, head[max(sentence, 0):])
		}
	}
	if strings.Contains(head, "Next:") {
		t.Errorf("the page has a next step:\n%s", head)
	}
	_, fleet := get(t, url+"/pools")
	_, row, _ := strings.Cut(fleet, `id="p:prod/mail-eu1"`)
	row, _, _ = strings.Cut(row, "</tr>")
	if !regexp.MustCompile(`class="n joined">–<`).MatchString(row) || !strings.Contains(row, "last tick 21 min ago") {
		t.Errorf("the row of the fleet has numbers as of now:\n%s", row)
	}
}

// The page of an application has its versions, and how far the roll-out of the latest is.
func TestAppHasItsVersions(t *testing.T) {
	t.Parallel()
	_, body := get(t, serve(t, &webtest.World{Size: 2, Every: time.Minute})+"/pools/prod/ads-eu1/apps/ads-eu1-api")
	_, versions, _ := strings.Cut(body, `id="versions"`)
	versions, _, _ = strings.Cut(versions, `id="crashes"`)
	rows := strings.Split(versions, "<tr")
	for i, wants := range map[int][]string{2: {"v1.4.3", "rolls out, 2 ready", "20 Nov 15:40:00", "0.2 cpus, 64 MB"}, 3: {"v1.4.2", "is replaced", "19 Nov 15:40:00", "shop/ads-eu1-api@v1.4.2"}} {
		for _, want := range wants {
			if len(rows) != 4 || !strings.Contains(rows[i], want) {
				t.Errorf("row %d of the versions is without %q:\n%s", i-1, want, versions)
			}
		}
	}
}

// A window that begins before the ticks in memory has the values of the ledger: those of pages with all ticks in memory.
// Without the ledger the page reports that.
func TestOlderWindow(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 1, Every: time.Minute}
	all := serve(t, w)
	url, stop := startKeeping(w, 2*time.Hour)
	t.Cleanup(stop)
	for _, one := range []string{url, all} {
		awaitText(t, one+"/pools/prod/checkout-eu1", func(page string) bool { return strings.Contains(page, "Steady") })
	}
	const window = "/pools/prod/checkout-eu1?from=2026-11-22T09:00:00Z&to=2026-11-22T10:00:00Z"
	_, short := get(t, url+window+"&part=series")
	if _, long := get(t, all+window+"&part=series"); short != long || len(short) < 1000 {
		t.Errorf("the older window differs:\n%.600s\nwant\n%.600s", short, long)
	}
	_, page := get(t, url+window)
	if strings.Count(page, `class="plot`) < 5 || !strings.Contains(page, "Steady") || strings.Contains(page, "No tick") {
		t.Errorf("the page of the past: %.2000s", page)
	}
	w.SetAway(true)
	if response, body := get(t, url+window); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "The ledger does not answer") {
		t.Errorf("status %d without the ledger:\n%.600s", response.StatusCode, body)
	}
}

// A pool that exists for two minutes has an axis of two minutes, not of an hour.
func TestYoungPoolShowsItsWholePast(t *testing.T) {
	t.Parallel()
	url := serve(t, &webtest.World{Size: 1, Every: 10 * time.Second, Past: 2 * time.Minute})
	_, page := get(t, url+"/pools/prod/checkout-eu1")
	if !strings.Contains(page, `aria-current="true">since the pool exists<`) {
		t.Errorf("the page has another range: %.3000s", page)
	}
	_, body := get(t, url+"/pools/prod/checkout-eu1?part=series")
	got := decode[struct{ From, To int64 }](t, body)
	if span := time.Duration(got.To-got.From) * time.Millisecond; span > 3*time.Minute || span < 90*time.Second {
		t.Errorf("the axis has %v, want about 2 min", span)
	}
}

// A range beyond the memory of the pages is read from the ledger and thinned. Its headline is that of now.
func TestWeekIsReadFromTheLedger(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 1, Every: time.Minute, Past: 7 * 24 * time.Hour}
	url := serve(t, w)
	_, body := get(t, url+"/pools/prod/checkout-eu1?range=7d&part=series")
	got := decode[struct{ Values map[string][]*float64 }](t, body)
	known := 0
	for _, x := range got.Values["target"] {
		if x != nil {
			known++
		}
	}
	if n := len(got.Values["target"]); known < n*9/10 || n < 500 {
		t.Errorf("%d of %d columns have a target", known, n)
	}
	_, page := get(t, url+"/pools/prod/checkout-eu1?range=30d")
	if !strings.Contains(page, `id="moment"></span>`) || !strings.Contains(page, "Apps need") {
		t.Errorf("the page of 30 days: %.3000s", page)
	}
}

// The columns for the cursor are those of the plots.
func TestSeries(t *testing.T) {
	t.Parallel()
	url := serve(t, &webtest.World{Size: 1, Every: time.Minute, Trouble: true})
	_, body := get(t, url+"/pools/prod/checkout-eu1?range=24h&part=series")
	got := decode[struct {
		Times  []int64
		Values map[string][]*float64
	}](t, body)
	if len(got.Times) != 720 || len(got.Values["target"]) != 720 || *got.Values["target"][719] != 40 {
		t.Fatalf("%d columns", len(got.Times))
	}
	paused := 0
	for _, x := range got.Values["target"] {
		if x == nil {
			paused++
		}
	}
	if paused < 40 || paused > 45 {
		t.Errorf("%d columns are gaps, want those of 85 min", paused)
	}
}

// The source goes away after a page was made, and before the page opens its stream: the stream begins with the change.
func TestStreamBeginsWithWhatThePageMissed(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 4, Every: time.Minute}
	url := serve(t, w)
	for _, path := range []string{"/pools", "/pools/prod/checkout-eu1"} {
		stream := func() string {
			_, page := get(t, url+path)
			_, rest, _ := strings.Cut(page, `data-events="`)
			address, _, _ := strings.Cut(rest, `"`)
			return html.UnescapeString(address)
		}
		await.True(t, "a stream without an event", func() bool { return firstEvent(t, url+stream()) == "" })
		before := stream()
		w.SetAway(path == "/pools")
		await.True(t, "a page with another stream", func() bool { return stream() != before })
		if got := firstEvent(t, url+before); got != "changed" {
			t.Errorf("%s: the stream of an old page begins with %q, want changed", path, got)
		}
	}
}

// firstEvent returns the event in the first write of a stream; empty without one.
func firstEvent(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, 4096)
	n, err := response.Body.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	_, event, _ := strings.Cut(string(first[:n]), "event: ")
	event, _, _ = strings.Cut(event, "\n")
	return event
}

// held is a world whose past is not read before read is closed.
type held struct {
	*webtest.World
	begun chan web.Name
	read  chan struct{}
}

func (h held) Since(ctx context.Context, name web.Name, from time.Time, visit func(api.Summary) error) error {
	select {
	case h.begun <- name:
	default:
	}
	select {
	case <-h.read:
		return h.World.Since(ctx, name, from, visit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// After a start no page claims that a pool has no tick, or does not exist, because its ticks are not read yet.
func TestNoPoolBeforeItsPast(t *testing.T) {
	t.Parallel()
	w := held{&webtest.World{Size: 4, Every: time.Minute}, make(chan web.Name, 1), make(chan struct{})}
	url, stop := startKeeping(w, 0)
	t.Cleanup(stop)
	pool := url + "/pools/prod/" + await.Value(t, "a reading of the past", w.begun).Pool
	if response, page := get(t, pool); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(page, "ticks of this pool are not read yet") {
		t.Errorf("%s: %d\n%s", pool, response.StatusCode, page)
	}
	if _, page := get(t, url+"/pools"); strings.Contains(page, "No tick") || !strings.Contains(page, "has not answered yet") {
		t.Errorf("the fleet before the ticks are read:\n%s", page)
	}
	close(w.read)
	awaitText(t, pool, func(page string) bool { return strings.Contains(page, `id="plots"`) })
	awaitText(t, url+"/pools", func(page string) bool { return strings.Contains(page, "All 4 pools are well") })
}
