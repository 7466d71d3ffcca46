package webtest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// serveOrders starts the pages over a world, and a handler of orders, until the end of the test.
func serveOrders(t *testing.T, w *webtest.World, orders http.HandlerFunc) (url string) {
	t.Helper()
	pages := web.New(web.Config{Source: w, Details: w, Cluster: "prod", Now: webtest.Now, Retry: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = pages.Run(ctx) }) // ends with the test
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/", orders)
	mux.Handle("/", pages)
	server := httptest.NewServer(mux)
	t.Cleanup(func() { cancel(); wg.Wait(); server.CloseClientConnections(); server.Close() })
	awaitText(t, server.URL+"/pools", func(page string) bool { return !strings.Contains(page, "out of date") })
	return server.URL
}

// The page sends an order with the reason and the token of the operator to the API, and shows its answer.
func TestOrderFromThePage(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 38, Every: time.Minute, Trouble: true}
	got := make(chan string, 6)
	url := serveOrders(t, w, func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- r.URL.Path + " " + string(body) + " " + r.Header.Get("Authorization")
		if r.Header.Get("Authorization") != "Bearer right" {
			out.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(out, `{"error":"an order needs the token of an operator"}`)
			return
		}
		_, _ = io.WriteString(out, "{}")
	})
	b := webtest.Browse(t, 1440, 1000, false)
	order := func(path, form, token, body, answer string) {
		t.Helper()
		b.Run(chromedp.Navigate(url+path), chromedp.WaitVisible(form, chromedp.ByQuery),
			chromedp.SendKeys(form+` [name="reason"]`, "a test", chromedp.ByQuery), chromedp.SendKeys(form+` [name="token"]`, token, chromedp.ByQuery))
		if strings.HasSuffix(form, `offset"]`) {
			b.Run(chromedp.SendKeys(form+` [name="weight"]`, "3", chromedp.ByQuery))
		}
		b.Run(chromedp.Click(form+" button", chromedp.ByQuery))
		b.Await(`document.querySelector('` + form + ` .answer').textContent.includes("` + answer + `")`)
		if text := <-got; text != body+" Bearer "+token {
			t.Errorf("the API got %q, want %q", text, body+" Bearer "+token)
		}
	}
	const pool = "/api/v1/pools/prod/checkout-eu1"
	order("/pools/prod/checkout-eu1", `form[data-order$="pause"]`, "right", pool+`/pause {"reason":"a test","for":1800}`, "ordered")
	order("/pools/prod/checkout-eu1", `form[data-order$="offset"]`, "right", pool+`/offset {"reason":"a test","for":1800,"weight":3}`, "ordered")
	order("/pools/prod/media-us1", `form[data-order$="resume"]`, "right", `/api/v1/pools/prod/media-us1/resume {"reason":"a test"}`, "ordered")
	order("/pools/prod/checkout-eu1/apps/receipts", `form[data-order$="retry"]`, "right", pool+`/apps/receipts/retry {"reason":"a test"}`, "ordered")
	order("/pools/prod/checkout-eu1/apps/receipts", `form[data-order$="retry"]`, "wrong", pool+`/apps/receipts/retry {"reason":"a test"}`, "needs the token")
	b.Forgive("403")
	b.Run(chromedp.Navigate("about:blank")) // before its server ends
}

// A tick replaces no order that is half written or under way. The forms of a pool that was paused come when none is.
func TestTickKeepsTheOrder(t *testing.T) {
	t.Parallel()
	w, answer := &webtest.World{Size: 1, Every: time.Minute}, make(chan struct{})
	url := serveOrders(t, w, func(out http.ResponseWriter, r *http.Request) {
		select {
		case <-answer:
			_, _ = io.WriteString(out, "{}")
		case <-r.Context().Done():
		}
	})
	b := webtest.Browse(t, 1440, 1000, false)
	const pause, offset = `form[data-order$="pause"] `, `form[data-order$="offset"] `
	write := func(field, text string) { t.Helper(); b.Run(chromedp.SendKeys(field, text, chromedp.ByQuery)) }
	written := func(want string) {
		t.Helper()
		if got := webtest.Eval[string](b, `[...document.querySelectorAll("form.order input")].map(e => e.value).join("|")`); got != want {
			t.Errorf("the forms have %q, want %q", got, want)
		}
	}
	ticks := 0
	tick := func(why string) {
		t.Helper()
		ticks++
		w.Publish(webtest.Hero, api.Summary{Schema: history.SummarySchema, Pool: webtest.Hero.Pool, Every: time.Minute, At: webtest.Now().Add(time.Duration(ticks-10) * time.Second),
			Paused: &api.Note{By: "kim@ops", Why: why}})
		b.Await(`document.querySelector(".states").textContent.includes("` + why + `")`)
	}
	b.Run(chromedp.Navigate(url+"/pools/prod/checkout-eu1"), chromedp.WaitVisible(pause, chromedp.ByQuery))
	write(pause+`[name="reason"]`, "moving")
	write(offset+`[name="weight"]`, "3")
	tick("network work")
	written("30|moving||3|30||")
	write(":focus", "4") // the field of the weight
	write(offset+`[name="reason"]`, "a test")
	write(offset+`[name="token"]`, "right")
	b.Run(chromedp.Click(offset+"button", chromedp.ByQuery))
	tick("more network work")
	written("30|moving||34|30|a test|right")
	close(answer)
	b.Await(`document.querySelector('` + offset + `.answer').textContent.includes("ordered")`)
	written("30|moving|||30||")
	b.Run(chromedp.Evaluate(`document.querySelector('`+pause+`[name="reason"]').value = ""`, nil))
	tick("the last network work")
	b.Run(chromedp.WaitVisible(`form[data-order$="resume"]`, chromedp.ByQuery), chromedp.Navigate("about:blank"))
}

// A page that shows a window of the past has no forms. It reads its state when its tab shows again.
func TestPastInATabThatShowsAgain(t *testing.T) {
	t.Parallel()
	url := serveOrders(t, &webtest.World{Size: 1, Every: time.Minute}, http.NotFound)
	b := webtest.Browse(t, 1440, 1000, false)
	from, to := webtest.Now().Add(-2*time.Hour).UTC().Format(time.RFC3339), webtest.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	b.Run(chromedp.Navigate(url+"/pools/prod/checkout-eu1?from="+from+"&to="+to), chromedp.WaitVisible("#now", chromedp.ByQuery),
		chromedp.Evaluate(`document.getElementById("now").dataset.old = "1"; document.dispatchEvent(new Event("visibilitychange"))`, nil))
	b.Await(`!document.getElementById("now").dataset.old`)
	b.Run(chromedp.Navigate("about:blank"))
}
