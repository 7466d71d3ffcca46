package webtest_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// A click selects a tick and Enter opens it. Back returns to the cursor. Escape ends it and keeps the focus. While a tick is read,
// the page reports that it is held, and shows no state of now.
func TestCursorStaysAndEscapeKeepsTheFocus(t *testing.T) {
	t.Parallel()
	url, b := large(t), webtest.Browse(t, 1440, 1000, false)
	b.Run(chromedp.Navigate(url+"/pools/prod/checkout-eu1?range=6h"), chromedp.WaitVisible("#plots", chromedp.ByQuery))
	y := webtest.Eval[float64](b, `document.getElementById("plots").getBoundingClientRect().top + 100`)
	b.Run(chromedp.MouseClickXY(600, y))
	b.Await(`document.getElementById("moment").textContent.startsWith("Sun 22 Nov 2026, 1")`)
	b.Await(`document.getElementById("live").textContent.startsWith("held, ")`)
	b.Await(`new URL(location.href).searchParams.has("at")`)
	if got := webtest.Eval[string](b, `getComputedStyle(document.querySelector(".states")).visibility`); got != "hidden" {
		t.Errorf("the states of now are %s beside a tick of the past", got)
	}
	b.Run(chromedp.MouseEvent("mouseMoved", 10, 10)) // the pointer leaves, and the tick stays
	moment := webtest.Eval[string](b, `document.getElementById("moment").textContent`)
	b.Run(chromedp.KeyEvent("\r"), chromedp.WaitVisible(".waterfall", chromedp.ByQuery), chromedp.NavigateBack(), chromedp.WaitVisible("#plots", chromedp.ByQuery))
	b.Await(`!document.getElementById("cursor").classList.contains("off")`)
	if got := b.Text("#moment"); got[:22] != moment[:22] {
		t.Errorf("Back shows %q, want the cursor at %q", got, moment)
	}
	b.Run(chromedp.Navigate(url+"/pools/prod/checkout-eu1?range=6h"), chromedp.Focus("#plots", chromedp.ByQuery), chromedp.KeyEvent("\u0302"))
	b.Await(`document.getElementById("pool").classList.contains("then")`)
	b.Run(chromedp.KeyEvent("\u001b"))
	b.Await(`!document.getElementById("pool").classList.contains("then") && document.activeElement.id === "plots" && !new URL(location.href).searchParams.has("at")`)
}

// Times are in the zone of the reader, with its name, and in UTC by a switch that the next page keeps.
func TestTimesAreLocalAndUTCByASwitch(t *testing.T) {
	t.Parallel()
	url, b := large(t), webtest.Browse(t, 1440, 1000, false)
	const page = "/pools/prod/checkout-eu1/ticks/2026-11-22T14:55:00Z"
	b.Run(emulation.SetTimezoneOverride("Asia/Kolkata"), chromedp.Navigate(url+page), chromedp.WaitVisible("#zone", chromedp.ByQuery))
	if got := b.Text(".state-line"); !strings.Contains(got, "Sun 22 Nov 2026, 20:2") || !strings.Contains(got, "GMT+5:30") {
		t.Errorf("the local time is %q", got)
	}
	b.Run(chromedp.Click("#zone", chromedp.ByQuery))
	b.Await(`document.querySelector(".state-line").textContent.includes("14:5") && document.querySelector(".state-line").textContent.includes("UTC")`)
	b.Run(chromedp.Navigate(url+"/pools/prod/checkout-eu1"), chromedp.WaitVisible("#zone", chromedp.ByQuery))
	if got := b.Text("#zone"); got != "times in UTC: show local time" {
		t.Errorf("the next page: %q", got)
	}
}
