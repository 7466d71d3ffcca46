package webtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// start starts the pages over a world.
func start(w *webtest.World) (url string, stop func()) { return startKeeping(w, 0) }

// source is where the pages read.
type source interface {
	web.Source
	web.Details
}

// startKeeping starts pages that keep so long a past in memory.
func startKeeping(w source, keep time.Duration) (url string, stop func()) {
	s := web.New(web.Config{
		Source: w, Details: w, Cluster: "prod", Now: webtest.Now, Keep: keep, Retry: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	server := httptest.NewServer(s)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) }) // ends with the test
	return server.URL, func() {
		cancel()
		wg.Wait()
		server.CloseClientConnections()
		server.Close()
	}
}

// serve starts the pages over a world until the end of the test, and waits until they have its data.
func serve(t testing.TB, w *webtest.World) string {
	t.Helper()
	url, stop := start(w)
	t.Cleanup(stop)
	awaitText(t, url+"/pools", func(page string) bool { return !strings.Contains(page, "out of date") })
	return url
}

// largeURL starts the pages over 100 pools with all kinds of trouble, once for all tests that only read. It ends with the
// process.
var largeURL = sync.OnceValue(func() string {
	url, _ := start(&webtest.World{Size: 100, Every: time.Minute, Trouble: true, Live: 33 * time.Minute})
	return url
})

// large returns the address of the pages over 100 pools, when they have their data.
func large(t testing.TB) string {
	t.Helper()
	// The ticks arrive in the order of the pools, so this is the last one.
	awaitText(t, largeURL()+"/pools/prod/jobs-eu2?range=1h", func(page string) bool {
		return !strings.Contains(page, "out of date") && strings.Contains(page, " s ago")
	})
	return largeURL()
}

// awaitText waits until a page is as it must be.
func awaitText(t testing.TB, url string, good func(string) bool) {
	t.Helper()
	await.Nil(t, url, func() error {
		_, body := get(t, url)
		if !good(body) {
			return fmt.Errorf("it is\n%.2000s", body)
		}
		return nil
	})
}

// From the fleet to the pool in trouble, to the tick, to the rule: three clicks. Then other limits, and their sentence.
func TestThreeClicks(t *testing.T) {
	t.Parallel()
	url, b := large(t), webtest.Browse(t, 1440, 1000, false)
	b.Run(chromedp.Navigate(url))
	if got := b.Text("h1"); got != "8 of 100 pools need attention" {
		t.Errorf("the headline is %q", got)
	}
	b.Run(chromedp.Click(`//a[text()="checkout-eu1"]`), chromedp.WaitVisible("#plots", chromedp.ByQuery))
	if got := b.Text(".states"); !strings.Contains(got, "Instances missing") || !strings.Contains(got, "At maximum") {
		t.Errorf("the states are %q", got)
	}
	b.Run(chromedp.Click(".changes tbody a", chromedp.ByQuery), chromedp.WaitVisible(".waterfall", chromedp.ByQuery))
	if got := b.Text("h1"); !strings.HasPrefix(got, "Target 3") || !strings.HasSuffix(got, "→ 40") {
		t.Errorf("the headline is %q", got)
	}
	if got := b.Text(".waterfall .changed:last-child"); !strings.Contains(got, "limits") || !strings.Contains(got, "max_capacity allows 40") {
		t.Errorf("the deciding rule is %q", got)
	}
	b.Run(chromedp.SetValue("#max", "60", chromedp.ByQuery), chromedp.Click("form.again button", chromedp.ByQuery), chromedp.WaitVisible("#outcome", chromedp.ByQuery))
	if got := b.Text("#outcome"); !strings.HasPrefix(got, "With these limits the target would be 4") || !strings.HasSuffix(got, ", not 40.") {
		t.Errorf("the outcome is %q", got)
	}
}

// The keys move the cursor; each step is announced, and Enter opens the decision.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	url, b := large(t), webtest.Browse(t, 1440, 1000, false)
	b.Run(chromedp.Navigate(url+"/pools/prod/checkout-eu1?range=6h"), chromedp.Focus("#plots", chromedp.ByQuery))
	key := func(key, want string) {
		t.Helper()
		b.Run(chromedp.KeyEvent(key))
		b.Await(`document.getElementById("say").textContent.startsWith("` + want + `")`)
	}
	key("\u0302", "15:39: target 40, need ") // ArrowLeft
	key("\u0302", "15:38: ")
	key("\u0303", "15:39: ") // ArrowRight
	key("\u0308", "15:09: ") // PageUp
	key("\u0306", "09:40: ") // Home
	if x := webtest.Eval[string](b, `document.getElementById("cursor").getAttribute("x1")`); !strings.HasPrefix(x, "0.1") {
		t.Errorf("the cursor is at %s", x)
	}
	if got := b.Text(`.figures [data-key="target"]`); got == "40" || got == "–" {
		t.Errorf("the target in the head is %s", got)
	}
	b.Run(chromedp.KeyEvent("\r"), chromedp.WaitVisible(".waterfall", chromedp.ByQuery))
	if got := b.Text(".state-line"); !strings.Contains(got, "Sun 22 Nov 09:40") {
		t.Errorf("Enter opens %q", got)
	}
}

// Each page fits a phone.
func TestNarrowPagesDoNotScrollSideways(t *testing.T) {
	t.Parallel()
	url, b := large(t), webtest.Browse(t, 390, 844, true)
	for _, path := range paths {
		b.Run(chromedp.Navigate(url + path))
		if width := webtest.Eval[int](b, `document.documentElement.scrollWidth`); width != 390 {
			wide := webtest.Eval[string](b, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > 391 && !e.closest(".hidden, .skip, caption, thead")).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join("\n")`)
			t.Errorf("%s is %d px wide:\n%s", path, width, wide)
		}
	}
	b.Forgive("404")
}

// paths are the pages, by name.
var paths = map[string]string{
	"fleet": "/pools", "pool": "/pools/prod/checkout-eu1", "decision": "/pools/prod/checkout-eu1/ticks/2026-11-22T14:55:00Z?max_capacity=60&setpoint=0.8",
	"pool-cursor": "/pools/prod/checkout-eu1?at=2026-11-22T09:00:00Z", "pool-no-tick": "/pools/prod/mail-eu1?range=1h", "paused": "/pools/prod/media-us1?range=6h",
	"failed-tick": "/pools/prod/batch-us1/ticks/2026-11-22T15:38:59Z", "steady": "/pools/prod/ads-eu1", "not-found": "/pools/prod/nothing",
	"node": "/pools/prod/catalog-ap1/nodes/i-2e9203", "nodes": "/pools/prod/catalog-ap1/nodes", "app": "/pools/prod/checkout-eu1/apps/receipts",
	"apps": "/pools/prod/checkout-eu1/apps", "events": "/pools/prod/checkout-eu1/events?range=1h", "repairing": "/pools/prod/catalog-ap1?range=6h",
	"filtered": "/pools?q=eu1", "filtered-empty": "/pools?q=zzz",
}

// inDark are the pages whose colours are checked in the dark scheme too.
var inDark = []string{"filtered", "pool-cursor", "decision", "pool-no-tick", "node", "app", "events"}

// The plots are the same without script, and all pages are complete.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	url, b := large(t), webtest.Browse(t, 1440, 1000, false)
	plots := func(script bool) string {
		b.Run(chromedp.Navigate("about:blank"), // no script of a page is at work when scripts are disabled
			emulation.SetScriptExecutionDisabled(!script), chromedp.Navigate(url+"/pools/prod/checkout-eu1"))
		return webtest.Eval[string](b, `[...document.querySelectorAll("svg.plot")].map(e => e.outerHTML).join("\n")`)
	}
	with, without := plots(true), plots(false)
	if with != without || strings.Count(without, "<svg") < 20 {
		t.Errorf("%d plots without script, %d with", strings.Count(without, "<svg"), strings.Count(with, "<svg"))
	}
	b.Run(chromedp.Navigate(url+"/pools"), chromedp.SetValue("#q", "ads", chromedp.ByQuery), chromedp.Submit("form.filter", chromedp.ByQuery),
		chromedp.WaitVisible(`//a[text()="ads-us1"]`))
	if n := webtest.Eval[int](b, `document.querySelectorAll(".pool").length`); n != 4 {
		t.Errorf("the filter shows %d pools, want 4", n)
	}
}

// axe-core finds no violation on any page, light and dark.
func TestAccessibility(t *testing.T) {
	t.Parallel()
	url, axe := large(t), webtest.Axe(t)
	for _, dark := range []bool{false, true} {
		b := webtest.Browse(t, 1440, 1000, dark)
		b.Run(page.SetBypassCSP(true))
		for name, path := range paths {
			if slices.Contains([]string{"fleet", "pool", "steady", "paused"}, name) || dark && !slices.Contains(inDark, name) {
				continue // other pages have the same parts
			}
			b.Run(chromedp.Navigate(url+path), chromedp.Evaluate(axe, nil))
			b.Forgive("404")
			var result struct {
				Violations []struct {
					ID, Help string
					Nodes    []struct{ HTML, FailureSummary string }
				}
			}
			b.Run(chromedp.Evaluate(`axe.run()`, &result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
			for _, v := range result.Violations {
				t.Errorf("%s (dark: %v): %s: %s (%d times)\n%.200s\n%.300s", path, dark, v.ID, v.Help, len(v.Nodes), v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
			}
		}
	}
}

// states are pools with one condition each.
var states = map[string]string{
	"missing": "ads-us1", "backoff": "render-eu2", "signal-failed": "feed-eu2", "signal-stale": "ads-ap1", "tick-failed": "batch-us1", "starting": "chat-eu1", "draining": "audit-ap1",
}

// Pictures of each page and state, for review: one browser loads each page once.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	b := webtest.Browse(t, 1440, 1000, false)
	show := func(name, address string) {
		b.Run(chromedp.Navigate(address))
		b.Shots(name)
	}
	for name, path := range paths {
		show(name, large(t)+path)
	}
	for name, pool := range states {
		show("state-"+name, large(t)+"/pools/prod/"+pool+"?range=6h")
	}
	b.Run(chromedp.Navigate(large(t)+"/pools/prod/checkout-eu1?range=6h"), chromedp.Focus("#plots", chromedp.ByQuery), chromedp.KeyEvent("\u0308"))
	b.Await(`document.getElementById("pool").classList.contains("then") && document.getElementById("live").textContent.startsWith("held")`)
	b.Shots("held")
	busy := serve(t, crowdedWorld())
	for name, path := range crowded {
		show(name, busy+path)
	}
	empty := serve(t, &webtest.World{})
	// Its first event loads the empty page again: a picture of that moment can wait for a frame that never comes.
	awaitText(t, empty+"/pools", func(page string) bool { return strings.Contains(page, "/events?at=1&amp;") })
	show("empty", empty+"/pools")
	show("well", serve(t, &webtest.World{Size: 8, Every: time.Minute})+"/pools")
	show("young", serve(t, &webtest.World{Size: 1, Every: 10 * time.Second, Past: 2 * time.Minute})+"/pools/prod/checkout-eu1")
	many := serve(t, &webtest.World{Size: 1, Every: time.Minute, Large: true, Live: time.Hour})
	show("large", many+"/pools/prod/checkout-eu1?range=1h")
	away := &webtest.World{Size: 4, Every: time.Minute, Trouble: true}
	url := serve(t, away)
	for name, path := range map[string]string{"away-fleet": "/pools", "away-pool": "/pools/prod/checkout-eu1", "away-app": "/pools/prod/checkout-eu1/apps/receipts"} {
		away.SetAway(true)
		awaitText(t, url+"/pools", func(page string) bool { return strings.Contains(page, "out of date") })
		show(name, url+path)
	}
	b.Forgive("404")
	b.Forgive("503")
	b.Run(chromedp.Navigate("about:blank")) // before its server ends
}

// While the source is away the page shows that, and it shows new values when the source is back.
func TestAwayAndBack(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 4, Every: time.Minute, Trouble: true}
	url, b := serve(t, w), webtest.Browse(t, 1440, 1000, false)
	b.Run(chromedp.Navigate(url+"/pools"), chromedp.WaitVisible("#fleet", chromedp.ByQuery))
	w.SetAway(true)
	b.Run(chromedp.WaitVisible("#away .notice", chromedp.ByQuery))
	if got := b.Text("#away"); !strings.Contains(got, "out of date") || !strings.Contains(got, "no servers available") {
		t.Errorf("the notice is %q", got)
	}
	if got := b.Text("#live"); got != "not live" {
		t.Errorf("the page claims %q", got)
	}
	w.SetAway(false)
	b.Await(`!document.querySelector("#away .notice")`)
}

// The page of a pool shows too that the source is away. When the source is back, a tick that is too old is not called live.
func TestPoolAwayAndBack(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 12, Every: time.Minute, Trouble: true}
	url, b := serve(t, w), webtest.Browse(t, 1440, 1000, false)
	b.Run(chromedp.Navigate(url+"/pools/prod/mail-eu1"), chromedp.WaitVisible("#plots", chromedp.ByQuery))
	w.SetAway(true)
	b.Run(chromedp.WaitVisible("#away .notice", chromedp.ByQuery))
	if got := b.Text("#live"); got != "not live" {
		t.Errorf("the page claims %q", got)
	}
	w.SetAway(false)
	b.Await(`!document.querySelector("#away .notice")`)
	if got := b.Text(".live.away #live"); got != "last tick 21 min ago" {
		t.Errorf("the page of a pool without ticks claims %q", got)
	}
}

// A tick changes the row of a pool and its page, without a click.
func TestLive(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 4, Every: time.Minute}
	url := serve(t, w)
	fleet, pool := webtest.Browse(t, 1440, 1000, false), webtest.Browse(t, 1440, 1000, false)
	fleet.Run(chromedp.Navigate(url+"/pools"), chromedp.WaitVisible("#fleet", chromedp.ByQuery))
	pool.Run(chromedp.Navigate(url+"/pools/prod/ads-eu1"), chromedp.WaitVisible("#plots", chromedp.ByQuery))
	want := grow(t, w, web.Name{Cluster: "prod", Pool: "ads-eu1"}, 7)
	fleet.Await(`document.getElementById("p:prod/ads-eu1").cells[4].textContent === "` + want + `"`)
	fleet.Await(`document.getElementById("p:prod/ads-eu1").closest("tbody").id === "group-changing"`)
	pool.Await(`document.querySelector('.figures [data-key="target"]').textContent === "` + want + `"`)
	pool.Await(`document.getElementById("say").textContent.includes("to ` + want + `")`)
}

// grow publishes a tick that adds machines to the last target that a world has recorded for a pool. It returns the target.
func grow(t *testing.T, w *webtest.World, name web.Name, more int) string {
	t.Helper()
	tick, err := w.Tick(t.Context(), name, webtest.Now())
	if err != nil {
		t.Fatal(err)
	}
	last := tick.Summary
	last.At, last.Before, last.Target = webtest.Now().Add(time.Duration(more-10)*time.Second), last.Target, new(*last.Target+float64(more))
	last.Groups = slices.Clone(last.Groups)
	last.Groups[0].Before, last.Groups[0].Target = last.Groups[0].Target, last.Groups[0].Target+more
	w.Publish(name, last)
	return fmt.Sprint(*last.Target)
}

// A tick between the press and the release of a click changes the page after the release, so that the link is followed.
func TestClickAcrossATick(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 1, Every: time.Minute}
	url, b := serve(t, w), webtest.Browse(t, 1440, 1000, false)
	b.Run(chromedp.Navigate(url+"/pools/prod/checkout-eu1"), chromedp.WaitVisible("#plots", chromedp.ByQuery))
	click := func(selector string, more int) (target string) {
		t.Helper()
		at := webtest.Eval[struct{ X, Y float64 }](b, `document.querySelector('`+selector+`').getBoundingClientRect().toJSON()`)
		const reads = `performance.getEntriesByType("resource").filter(e => e.name.includes("part=plots")).length`
		before := webtest.Eval[int](b, reads)
		b.Run(chromedp.MouseEvent("mousePressed", at.X+5, at.Y+5, chromedp.ButtonLeft, chromedp.ClickCount(1)))
		target = grow(t, w, webtest.Hero, more)
		b.Await(fmt.Sprintf("%s > %d", reads, before))
		b.Run(chromedp.MouseEvent("mouseReleased", at.X+5, at.Y+5, chromedp.ButtonLeft, chromedp.ClickCount(1)))
		return target
	}
	target := click("h1", 5)
	b.Await(`document.querySelector('.figures [data-key="target"]').textContent === "` + target + `"`)
	click(`.tabs a[href$="/nodes"]`, 7)
	b.Run(chromedp.WaitVisible("section#nodes", chromedp.ByQuery), chromedp.Navigate("about:blank")) // before its server ends
}

// A drag over the plots opens the time below it.
func TestZoom(t *testing.T) {
	t.Parallel()
	url, b := large(t), webtest.Browse(t, 1440, 1000, false)
	b.Run(chromedp.Navigate(url+"/pools/prod/checkout-eu1"), chromedp.WaitVisible("#plots", chromedp.ByQuery))
	y := webtest.Eval[float64](b, `document.getElementById("plots").getBoundingClientRect().top + 100`)
	b.Run(chromedp.MouseEvent("mousePressed", 500, y, chromedp.ButtonLeft), chromedp.MouseEvent("mouseMoved", 600, y, chromedp.ButtonLeft),
		chromedp.MouseEvent("mouseReleased", 700, y, chromedp.ButtonLeft), chromedp.WaitVisible(`//nav[@aria-label="Time range"]/a[contains(., "earlier")]`))
	if !webtest.Eval[bool](b, `location.search.includes("from=2026-11-2")`) {
		t.Error("the address does not have the time")
	}
	if n := webtest.Eval[int](b, `document.querySelectorAll(".ranges a").length`); n != 8 {
		t.Errorf("%d links, want 8 with earlier and later", n)
	}
}

// decode is a helper for answers in JSON.
func decode[T any](t *testing.T, text string) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
