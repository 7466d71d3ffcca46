package main

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// row is a line of a terminal, and when it appeared.
type row struct {
	at   time.Duration
	text string
}

// terminal is a window of the picture.
type terminal struct {
	title string
	rows  []row
}

// Sizes in pixels.
const (
	charWidth  = 7.25
	lineHeight = 17
	barHeight  = 26
	padding    = 12
	gap        = 14
)

// The terminals are dark on a light and on a dark page. Without animations, and for readers who do not want them, all
// lines are visible.
const style = `<style>
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d5dae0;white-space:pre}
.bar{fill:#2a3038}.window{fill:#161a1f;stroke:#59636e}.title{fill:#aab3bd}.command{fill:#7fd6b4;font-weight:bold}.problem{fill:#f0b866}
@media (prefers-reduced-motion:no-preference){.row{animation:show 10ms linear both}}
@keyframes show{from{opacity:0}to{opacity:1}}
</style>
`

// pace returns rows with the pauses of the whole session, which are those of both lists, cut to a maximum.
func pace(rows, others []row, longest time.Duration) []row {
	var times []time.Duration
	for _, r := range slices.Concat(rows, others) {
		times = append(times, r.at)
	}
	slices.Sort(times)
	paced := map[time.Duration]time.Duration{}
	var now, last time.Duration
	for _, at := range times {
		now += min(at-last, longest)
		last = at
		paced[at] = now
	}
	out := make([]row, len(rows))
	for i, r := range rows {
		out[i] = row{paced[r.at], r.text}
	}
	return out
}

// picture returns the terminals, one below the other, as SVG. Lines longer than a terminal continue in the next row.
func picture(terminals []terminal, columns int) string {
	width := int(float64(columns)*charWidth) + 2*padding
	var body strings.Builder
	y := 1
	for _, t := range terminals {
		var rows []row
		for _, r := range t.rows {
			for _, part := range wrap(r.text, columns) {
				rows = append(rows, row{r.at, part})
			}
		}
		height := barHeight + len(rows)*lineHeight + 2*padding
		fmt.Fprintf(&body, "<rect class=\"window\" x=\"1\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", y, width, height)
		fmt.Fprintf(&body, "<rect class=\"bar\" x=\"1\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", y, width, barHeight)
		fmt.Fprintf(&body, "<text class=\"title\" x=\"%d\" y=\"%d\">%s</text>\n", padding+1, y+17, escape(t.title))
		at := y + barHeight + padding + 11
		for _, r := range rows {
			fmt.Fprintf(&body, "<text class=\"row%s\" x=\"%d\" y=\"%d\" style=\"animation-delay:%.1fs\" xml:space=\"preserve\">%s</text>\n",
				classOf(r.text), padding+1, at, r.at.Seconds(), escape(r.text))
			at += lineHeight
		}
		y += height + gap
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\" aria-label=\"A run of weir up\">\n%s%s</svg>\n",
		width+2, y-gap+1, width+2, style, body.String())
}

// classOf returns the second class of a row: a typed command, a problem, or none.
func classOf(text string) string {
	switch {
	case strings.HasPrefix(text, "$ "):
		return " command"
	case strings.HasPrefix(text, "! "):
		return " problem"
	}
	return ""
}

// wrap cuts a line after each so many characters. An empty line is one part.
func wrap(line string, columns int) (parts []string) {
	for utf8.RuneCountInString(line) > columns {
		cut := len(string([]rune(line)[:columns]))
		parts = append(parts, line[:cut])
		line = line[cut:]
	}
	return append(parts, line)
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes all
	return b.String()
}
