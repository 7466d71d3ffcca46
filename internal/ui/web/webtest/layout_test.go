package webtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// overlaps is a script that returns the pairs of visible labels whose boxes overlap by more than a pixel, labels of a plot on one line
// without a gap, and labels that leave the page.
const overlaps = `(() => {
	const out = [], boxes = [];
	for (const e of document.querySelectorAll("main svg text, .states li > *, .figures dt, .figures dd, .lane-name > span > *, .lane-value:not(.labels-cell), h1, .sentence, .tabs a, .ranges a, #deploy, td, th")) {
		if (e.closest(".hidden, thead.hidden, caption") || !e.checkVisibility({ checkVisibilityCSS: true }) || !e.textContent.trim()) continue;
		const head = e.closest("thead");
		if (head && getComputedStyle(head).position === "absolute") continue; // it is for screen readers
		const label = e.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
		for (const r of e.getClientRects()) { // one for each line of an inline element
			if (r.width < 2 || r.height < 2) continue;
			if (r.right > document.documentElement.clientWidth + 1 || r.left < -1) out.push(label + " leaves the page: " + Math.round(r.left) + " to " + Math.round(r.right));
			boxes.push([e, r, label]);
		}
	}
	for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
		const [a, p, x] = boxes[i], [b, q, y] = boxes[j];
		if (a === b || a.contains(b) || b.contains(a)) continue;
		const w = Math.min(p.right, q.right) - Math.max(p.left, q.left), h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
		const least = a.ownerSVGElement && a.ownerSVGElement === b.ownerSVGElement ? -3 : 1;
		if (w > least && h > 3) out.push(x + " | " + y);
	}
	return out.slice(0, 12).join("\n");
})()`

// squeezed is a script that returns reasons in a narrow column beside free room, and texts of gaps below the areas of a plot.
const squeezed = `[...document.querySelectorAll(".fleet .state")].filter(e => e.checkVisibility() && e.clientWidth < 240).map(e => "a reason has " + e.clientWidth + " px: " + e.textContent.trim().slice(0, 40))
	.concat([...document.querySelectorAll(".under text")].map(e => "below the plots: " + e.textContent)).slice(0, 5).join("\n")`

// crowdedWorld is a pool with many events in a short time.
func crowdedWorld() *webtest.World {
	return &webtest.World{Size: 1, Every: 10 * time.Second, Past: 9 * time.Minute, Live: 8 * time.Minute, Crowded: true}
}

// crowded are pages of a pool with many events in a short time.
var crowded = map[string]string{
	"crowded": "/pools/prod/checkout-eu1", "crowded-hour": "/pools/prod/checkout-eu1?range=1h", "crowded-day": "/pools/prod/checkout-eu1?range=24h", "crowded-node": "/pools/prod/checkout-eu1/events",
}

// No label is over another one, or cut off, at any width.
func TestLabelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	all := map[string]string{}
	for name, path := range paths {
		all[name] = large(t) + path
	}
	busy := serve(t, crowdedWorld())
	for name, path := range crowded {
		all[name] = busy + path
	}
	b := webtest.Browse(t, 1440, 900, false)
	for name, path := range all {
		b.Run(chromedp.Navigate(path))
		for _, width := range webtest.Widths() {
			b.Run(chromedp.EmulateViewport(width, 900))
			if got := webtest.Eval[string](b, overlaps); got != "" {
				t.Errorf("%s at %d px:\n%s", name, width, got)
			}
			if got := webtest.Eval[string](b, `[...document.querySelectorAll(".why")].filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflow !== "visible" || e.textContent.includes("…")).map(e => e.textContent).join("\n")`); got != "" && !strings.Contains(path, "ticks") {
				t.Errorf("%s at %d px cuts a reason:\n%s", name, width, got)
			}
			if got := webtest.Eval[string](b, squeezed); got != "" {
				t.Errorf("%s at %d px:\n%s", name, width, got)
			}
		}
	}
	b.Forgive("404")
}
