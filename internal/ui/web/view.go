package web

import (
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// frame is what all pages have.
type frame struct {
	Title               string
	Crumbs              []crumb
	Style, Script, Icon string // addresses
	Away                string // why the source is away; empty: it answers
	AwaySince           string
	Events              string // address of the stream of a live page; empty: the page is not live
	Live                string // beside the dot
	Old                 bool   // the last tick is too old for a live page
}

// crumb is a link to a page above; without Href it is the page itself.
type crumb struct{ Text, Href string }

// figure is a key figure of a page's head.
type figure struct{ Key, Label, Value, Rest string }

// stateClass returns the colour of a rank in the style sheet.
func stateClass(r condition.Rank) string {
	switch {
	case r <= condition.NotServed:
		return "bad"
	case r.NeedsAttention():
		return "warn"
	case r == condition.Paused:
		return "paused"
	case r == condition.Changing:
		return "changing"
	}
	return "steady"
}

// glyph returns the name of a state's glyph in the page.
func glyph(s series.State) string {
	switch s.Rank {
	case condition.NoTick:
		return "#no-tick"
	case condition.NotServed:
		return "#cross"
	case condition.AtLimit:
		return "#filled"
	case condition.Degraded, condition.Repairing:
		return "#triangle"
	case condition.Paused:
		return "#pause"
	case condition.Changing:
		if s.Down {
			return "#down"
		}
		return "#up"
	}
	return "#dot"
}

// weight formats a value that may be unknown.
func weight(x float64, ok bool) string {
	if !ok {
		return "–"
	}
	return plot.Number(x)
}

// cutName splits "CLUSTER/POOL".
func cutName(text string) (cluster, pool string, ok bool) { return strings.Cut(text, "/") }

// href returns the address of a pool.
func (n Name) href() string { return "/pools/" + escape(n.Cluster) + "/" + escape(n.Pool) }

// apiPath returns the address of a pool in the API of the same server.
func (n Name) apiPath() string { return "/api/v1" + n.href() }

// stamp is the format of a tick in an address. Ticks are at least 1 ms apart.
const stamp = "2006-01-02T15:04:05.000Z"

// tickHref returns the address of a decision.
func (n Name) tickHref(at time.Time) string {
	return n.href() + "/ticks/" + at.UTC().Format(stamp)
}

// keyNames has the names of the tracks for the script.
var keyNames = map[series.Quantity]string{
	series.Target: "target", series.Unlimited: "unlimited", series.Joined: "joined", series.Minimum: "min", series.Maximum: "max",
	series.Offered: "offered", series.Setpoint: "setpoint", series.Group: "g:", series.Request: "q:", series.Verdict: "v:",
	series.Latency: "l:", series.Expected: "e:", series.Running: "r:",
}

// keyName returns the name of a track for the script.
func keyName(k series.Key) string { return keyNames[k.Quantity] + k.Name }

// marks returns the times on the axis of a window, at most about 8.
func marks(w series.Window, live bool) (out []plot.Mark) {
	span := w.To.Sub(w.From)
	const day = 24 * time.Hour
	var step time.Duration
	for _, step = range []time.Duration{
		time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 182 * day, 364 * day, 728 * day,
	} {
		if span/step <= 8 {
			break
		}
	}
	for t := w.From.Truncate(step).Add(step); t.Before(w.To); t = t.Add(step) {
		x := float64(t.Sub(w.From)) / float64(span)
		if x < 0.03 || x > 0.94 {
			continue
		}
		text := t.UTC().Format("15:04")
		switch {
		case span > 300*day:
			text = t.UTC().Format("2 Jan 2006")
		case step < time.Minute:
			text = t.UTC().Format(time.TimeOnly)
		case text == "00:00":
			text = t.UTC().Format("Mon 2 Jan")
		}
		out = append(out, plot.Mark{X: x, Text: text, At: t.UnixMilli()})
	}
	if live {
		return append(out, plot.Mark{X: 1, Text: "now", Now: true})
	}
	end := "15:04"
	if span > 9*day {
		end = "2 Jan"
	}
	return append(out, plot.Mark{X: 1, Text: w.To.UTC().Format(end), Now: true, At: w.To.UnixMilli()})
}

// byteSafe are the bytes that a path segment may have as they are.
const byteSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"

// escape escapes a path segment, so that no name has a meaning in a path.
func escape(segment string) string {
	if segment == "." || segment == ".." {
		return strings.ReplaceAll(segment, ".", "%2E")
	}
	var b strings.Builder
	for i := range len(segment) {
		if c := segment[i]; strings.IndexByte(byteSafe, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(strconv.FormatInt(int64(c)|0x100, 16)[1:]))
		}
	}
	return b.String()
}
