package webtest_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// adjacent is a script that returns the adjacent areas of plots that differ neither by a contrast of 3:1, nor by a line and a pattern.
// The line has that contrast to both areas, and the pattern to the area that it is on. The script reads the computed colours.
const adjacent = `(() => {
	const rgb = text => text.match(/[\d.]+/g).slice(0, 3).map(Number);
	const light = colour => colour.map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
	const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
	const area = path => {
		const style = getComputedStyle(path), out = { name: path.getAttribute("class"), fill: rgb(style.fill), line: style.stroke === "none" ? null : rgb(style.stroke) };
		const clip = [...path.closest(".plot").querySelectorAll("clipPath path")].find(p => p.getAttribute("d") === path.getAttribute("d"));
		if (clip) {
			const over = document.querySelector('[clip-path="url(#' + clip.parentNode.id + ')"]');
			const drawn = getComputedStyle(document.getElementById(getComputedStyle(over).fill.match(/url\("#(.+)"\)/)[1]).firstElementChild);
			out.pattern = rgb(drawn.stroke).map((x, i) => x * drawn.opacity + out.fill[i] * (1 - drawn.opacity));
		}
		return out;
	};
	const out = [];
	let pairs = 0;
	for (const plot of document.querySelectorAll("svg.chart, svg.history")) {
		const areas = [...plot.querySelectorAll("path.fill")].filter(p => p.getAttribute("d")).map(area);
		for (let i = 1; i < areas.length; i++) {
			const [a, b] = [areas[i - 1], areas[i]];
			pairs++;
			if (contrast(a.fill, b.fill) >= 3) continue;
			const patterned = a.pattern ? a : b;
			if (!b.line || contrast(b.line, a.fill) < 3 || contrast(b.line, b.fill) < 3) out.push(a.name + " and " + b.name + " have no line between them");
			if (!a.pattern === !b.pattern) out.push(a.name + " and " + b.name + " have no pattern that differs");
			else if (contrast(patterned.pattern, patterned.fill) < 3) out.push("the pattern on " + patterned.name + " has contrast " + contrast(patterned.pattern, patterned.fill).toFixed(2));
		}
	}
	if (pairs === 0) out.push("the page has no adjacent areas");
	return out.join("\n");
})()`

// Adjacent areas of plots differ without their colours, in both schemes.
func TestAdjacentAreasDiffer(t *testing.T) {
	t.Parallel()
	url, b := large(t), webtest.Browse(t, 1440, 1000, false)
	for _, path := range []string{"/pools", "/pools/prod/checkout-eu1"} {
		b.Run(chromedp.Navigate(url + path))
		for _, dark := range []bool{false, true} {
			b.Scheme(dark)
			if got := webtest.Eval[string](b, adjacent); got != "" {
				t.Errorf("%s (dark: %v):\n%s", path, dark, got)
			}
		}
	}
}
