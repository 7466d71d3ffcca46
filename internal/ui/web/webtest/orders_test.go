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

	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// The page sends an order with the reason and the token of the operator to the API, and shows its answer.
func TestOrderFromThePage(t *testing.T) {
	t.Parallel()
	w := &webtest.World{Size: 38, Every: time.Minute, Trouble: true}
	pages := web.New(web.Config{Source: w, Details: w, Cluster: "prod", Now: webtest.Now, Retry: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = pages.Run(ctx) }) // ends with the test
	got := make(chan string, 6)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/", func(out http.ResponseWriter, r *http.Request) {
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
	mux.Handle("/", pages)
	server := httptest.NewServer(mux)
	t.Cleanup(func() { cancel(); wg.Wait(); server.CloseClientConnections(); server.Close() })
	awaitText(t, server.URL+"/pools", func(page string) bool { return !strings.Contains(page, "out of date") })
	b := webtest.Browse(t, 1440, 1000, false)
	order := func(path, form, token, body, answer string) {
		t.Helper()
		b.Run(chromedp.Navigate(server.URL+path), chromedp.WaitVisible(form, chromedp.ByQuery),
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
