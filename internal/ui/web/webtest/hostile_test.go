package webtest_test

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// 500 ticks of a pool in a second are at most one event a second for each open page, and the last tick arrives.
func TestBurstOfTicksIsJoined(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 2, Every: time.Minute}
	url := serve(t, w)
	tick, err := w.Tick(t.Context(), webtest.Hero, webtest.Now())
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(url + "/events?pool=" + webtest.Hero.String())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	last := tick.Summary
	last.At = webtest.Now().Add(-time.Second)
	for range 500 {
		last.At = last.At.Add(2 * time.Millisecond)
		w.Publish(webtest.Hero, last)
	}
	events, end := 0, fmt.Sprintf(`"at":"%s"`, webtest.Now().Format(time.RFC3339))
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if lines.Text() == "event: tick" {
			events++
		}
		if strings.Contains(lines.Text(), end) {
			break
		}
	}
	if events == 0 || events > 5 {
		t.Errorf("%d events for 500 ticks, want at most one a second", events)
	}
}

// The page of the events of a pool with 500 events a second has the newest ones, and counts the others.
func TestEventsOfABurst(t *testing.T) {
	t.Parallel()
	url := serve(t, &webtest.World{Size: 1, Every: time.Minute, Burst: 500})
	response, body := get(t, url+"/pools/prod/checkout-eu1/events?range=15m")
	if response.StatusCode != http.StatusOK || !strings.Contains(body, "450000 events in the last 15 min.") || !strings.Contains(body, "149701 older rows are not listed") {
		t.Errorf("status %d: %.2000s", response.StatusCode, body)
	}
	if rows := strings.Count(body, "<tr") - 1; rows != 300 || len(body) > 300_000 {
		t.Errorf("%d rows in %d bytes, want 300", rows, len(body))
	}
	if newest := strings.Index(body, "15:40:00"); newest < 0 || newest > strings.Index(body, "15:39:59") {
		t.Error("the newest event is not the first one")
	}
}

// The timeline of a node with an event in almost each second of the day has the newest ones.
func TestTimelineOfABurst(t *testing.T) {
	t.Parallel()
	url := serve(t, &webtest.World{Size: 1, Every: time.Minute, Burst: 1})
	_, body := get(t, url+"/pools/prod/checkout-eu1/nodes/i-spot-a-1")
	_, timeline, _ := strings.Cut(body, `id="timeline"`)
	rows := strings.Split(timeline, "<tr")[2:]
	if len(rows) != 250 || !strings.Contains(rows[0], "15:40:00") || !strings.Contains(rows[249], "15:33:47") {
		t.Errorf("%d rows from %.400q to %.400q", len(rows), rows[0], rows[len(rows)-1])
	}
}

// Names of groups, nodes, apps, versions and people, and reasons, are text on each page and in each update, and each link with a name leads to
// its page.
func TestNamesWithMarkup(t *testing.T) {
	t.Parallel()
	const name = `<b class="own">/..&amp;"'%2F?x#</b><img src=x onerror="document.title=1">`
	w := &webtest.World{Size: 100, Every: time.Minute, Trouble: true, Markup: name}
	url, b := serve(t, w), webtest.Browse(t, 1440, 1000, false)
	var links []string
	check := func(path string) {
		t.Helper()
		if got := webtest.Eval[string](b, `[...document.querySelectorAll(".own, img, [onerror]")].map(e => e.outerHTML).join("\n")`); got != "" {
			t.Errorf("%s has elements of a name:\n%.600s", path, got)
		}
		if !strings.Contains(webtest.Eval[string](b, `document.body.textContent`), name) {
			t.Errorf("%s is without the name", path)
		}
		links = append(links, webtest.Eval[[]string](b, `[...document.querySelectorAll("main a[href*='onerror'], main a[href*='%3E']")].map(e => e.href)`)...)
	}
	const hero = "/pools/prod/checkout-eu1"
	receipts, node := hero+"/apps/"+neturl.PathEscape("receipts"+name), "/pools/prod/catalog-ap1/nodes/"+neturl.PathEscape("i-2e9203"+name)
	for _, path := range []string{
		"/pools/prod/media-us1", "/pools/prod/batch-us1/ticks/2026-11-22T15:38:59Z", hero + "/ticks/2026-11-22T14:55:00Z", hero + "/nodes", hero + "/apps", hero + "/events?range=1h",
		receipts, "/pools/prod/catalog-ap1", node, hero,
	} {
		b.Run(chromedp.Navigate(url + path))
		check(path)
	}
	tick, err := w.Tick(t.Context(), webtest.Hero, webtest.Now())
	if err != nil {
		t.Fatal(err)
	}
	last := tick.Summary
	for i, path := range []string{hero, "/pools"} {
		b.Run(chromedp.Navigate(url+path), chromedp.WaitVisible(".states, #fleet", chromedp.ByQuery))
		b.Await(`document.getElementById("live").textContent.startsWith("live")`)
		last.At, last.Target = webtest.Now().Add(time.Duration(i-2)*time.Second), new(*last.Target+7)
		last.Groups = slices.Clone(last.Groups)
		last.Groups[0].Target += 7
		w.Publish(webtest.Hero, last)
		b.Await(fmt.Sprintf(`(document.querySelector('.figures [data-key="target"]') || document.getElementById("p:prod/checkout-eu1").cells[4]).textContent === "%v"`, *last.Target))
		check("the update of " + path)
	}
	slices.Sort(links)
	links = slices.Compact(links)
	for _, link := range links {
		if response, body := get(t, link); response.StatusCode != http.StatusOK || !strings.Contains(html.UnescapeString(body), name) {
			t.Errorf("%s: status %d:\n%.300s", link, response.StatusCode, body)
		}
	}
	if len(links) < 10 {
		t.Errorf("%d links have a name: %q", len(links), links)
	}
}

// Ages are of the server. A clock of the browser that is an hour off changes no text of a page.
func TestBrowserClockAnHourOff(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 4, Every: time.Minute, Trouble: true}
	url, stop := start(w)
	t.Cleanup(stop)
	awaitText(t, url+"/pools", func(page string) bool { return !strings.Contains(page, "out of date") })
	texts := map[int]string{}
	var tabs []*webtest.Tab
	for _, off := range []int{0, -1, 1} {
		b := webtest.Browse(t, 1440, 1000, false)
		tabs = append(tabs, b)
		b.Run(chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(fmt.Sprintf(`Date = class extends Date {
				constructor(...x) { super(...(x.length ? x : [Date.now()])); }
				static now() { return Math.round(performance.timeOrigin + performance.now()) + %d * 3600000; }
			};`, off)).Do(ctx)
			return err
		}), chromedp.Navigate(url+"/pools/prod/checkout-eu1?range=6h"), chromedp.WaitVisible("#plots", chromedp.ByQuery))
		texts[off] = webtest.Eval[string](b, `document.body.innerText`)
	}
	for off, text := range texts {
		if text != texts[0] {
			t.Errorf("%d h off, the page is\n%s\nwant\n%s", off, text, texts[0])
		}
	}
	stop()
	for i, b := range tabs {
		b.Await(`document.querySelector("#away .notice")`)
		if got := b.Text("#away"); !strings.Contains(got, "The server ") || strings.Contains(got, "UTC") {
			t.Errorf("tab %d: the notice is %q, want no time of the browser's clock", i, got)
		}
		b.Forgive("ERR_")
		b.Run(chromedp.Navigate("about:blank"))
	}
}
