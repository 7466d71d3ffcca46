package webtest_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// Questions of an operator on call. Each answer is read from the page after at most two clicks from the fleet.
func TestQuestionsInTwoClicks(t *testing.T) {
	t.Parallel()
	const pool = `//a[text()="checkout-eu1"]`
	for _, q := range []struct {
		question string
		clicks   []string // links, from the fleet
		where    string   // selector of the answer
		want     []string // parts of the answer
	}{
		{"Is anything wrong?", nil, "h1", []string{"8 of 100 pools need attention"}},
		{"Who paused the pool, why and until when?", nil, `[id="p:prod/media-us1"]`, []string{"Paused", "by kim@ops: network work", "until it is resumed"}},
		{"What does the pool need, what has it, and what holds it?", []string{pool}, "#sentence", []string{"Apps need 4", "machines, max_capacity allows 40: stays 40", "5 instances of cart wait: no node has so much room now"}},
		{"What is broken, and for how long?", []string{pool}, ".states", []string{"Instances missing", "for 32 min", "app cart: 5 of", "At maximum", "Crash-looping"}},
		{"May I deploy now?", []string{pool}, "#deploy", []string{"Not safe to deploy: instances missing, at maximum, crash-looping"}},
		{"What changed the target at 14:54?", []string{pool, ".changes tbody a"}, ".waterfall .changed:last-child", []string{"limits", "max_capacity allows 40"}},
		{"Why does an instance of cart wait?", []string{pool, `//ul[@class="states"]//a[contains(., "app cart")]`}, "#sentence", []string{"missing: no node has so much room now"}},
		{"Why does receipts crash, and when is it tried again?", []string{pool, `//ul[@class="states"]//a[contains(., "app receipts")]`}, "main", []string{"Copy 1 crashed 3 times in 40 s (exit 1); next start in 20 s", "panic: no such table: <receipts>"}},
		{"Which nodes run copies of which version?", []string{pool, `//section[contains(@class, "apps")]//a[text()="payments"]`}, "#copies", []string{"i-on-demand-1", "v1.4.3", "ready", "2 h"}},
		{"Why is the node repaired, by which action, which attempt, and what is next?", []string{`//a[text()="catalog-ap1"]`, `//ul[@class="states"]//a[contains(., "i-2e9203")]`}, "main",
			[]string{"Repairing for 24 min: disk read-only; REBOOT, repair 2 is under way", "a1", "still read-only", "ReadonlyFilesystem"}},
		{"What does the pool cost?", []string{pool}, ".figures", []string{"cost per hour 7.68 USD"}},
		{"What happened in the last hour?", []string{pool, `//nav[@class="tabs"]/a[text()="Events"]`}, "#events", []string{"decision target", "receipts", "times in"}},
	} {
		t.Run(q.question, func(t *testing.T) {
			t.Parallel()
			url, b := large(t), webtest.Browse(t, 1440, 1000, false)
			b.Run(chromedp.Navigate(url))
			for _, click := range q.clicks {
				b.Run(chromedp.WaitVisible(click), chromedp.Click(click))
			}
			got := strings.Join(strings.Fields(b.Text(q.where)), " ")
			for _, want := range q.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s\nthe answer is %q\nwant %q", q.question, got, want)
				}
			}
			if len(q.clicks) > 2 {
				t.Errorf("%d clicks, want at most 2", len(q.clicks))
			}
		})
	}
}
