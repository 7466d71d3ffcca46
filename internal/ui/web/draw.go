package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// drawer draws the plots of a pool in one window. Values are of the tick at.
type drawer struct {
	name   Name
	ring   *series.Ring
	w      series.Window
	at     time.Time
	cursor bool
	old    bool // the page is of now, and the last tick is too long ago
	kind   resource.Kind
	apps   []string // the largest request first, and then in order of name
}

func (d drawer) value(k series.Key) string {
	x, ok := d.ring.At(k, d.at)
	return weight(x, ok)
}

func (d drawer) pool(q series.Quantity) string { return d.value(series.Key{Quantity: q}) }

// figures returns the values in the head.
func (d drawer) figures() []figure {
	limits := "–"
	if least := d.pool(series.Minimum); least != "–" {
		limits = least + "–" + d.pool(series.Maximum)
	}
	return []figure{
		d.figure("need", series.Unlimited), d.figure("target", series.Target), d.figure("joined", series.Joined), {"limits", "limits", limits, ""},
	}
}

// figure returns a value. An unknown one, and one that is not of now, has its last known value beside the dash.
func (d drawer) figure(label string, q series.Quantity) figure {
	key := series.Key{Quantity: q}
	f := figure{keyName(key), label, d.value(key), ""}
	if x, ok := d.ring.Known(key, d.at); ok && (d.old || f.Value == "–") {
		f.Value, f.Rest = "–", "was "+plot.Number(x)
	}
	return f
}

// kinds returns the kinds of resources that the apps request. If the kind of d is not one of them, d gets the first.
func (d *drawer) kinds() (out []resource.Kind) {
	for _, k := range d.ring.Keys(series.Request) {
		if !slices.Contains(out, k.Kind) {
			out = append(out, k.Kind)
		}
	}
	slices.Sort(out)
	if len(out) > 0 && !slices.Contains(out, d.kind) {
		d.kind = out[0]
	}
	return out
}

// sections returns the plots: cause before effect.
func (d drawer) sections() []section {
	d.kinds()
	d.apps = d.sorted()
	out := []section{{ID: "main", Lanes: []lane{d.capacity(), d.requests()}}}
	add := func(id, title string, lanes []lane) {
		if len(lanes) > 0 {
			out = append(out, section{id, title, lanes})
		}
	}
	add("signals", "Signals", d.signals())
	add("nodes", "Nodes", d.nodes())
	add("apps", "App instances", d.instances())
	add("orders", "Orders", d.orders())
	return out
}

// layer returns a track as a layer of a chart.
func (d drawer) layer(class, name string, k series.Key) plot.Layer {
	return plot.Layer{Class: class, Name: name, Key: keyName(k), Value: d.value(k), Bins: d.ring.Bins(k, d.w)}
}

func (d drawer) capacity() lane {
	c := plot.Chart{Columns: d.w.Columns, Height: 220}
	for i, k := range d.ring.Keys(series.Group) {
		c.Stack = append(c.Stack, d.layer(groupClass(i), k.Name, k))
	}
	for _, l := range []struct {
		class, name string
		q           series.Quantity
	}{{"strong", "target", series.Target}, {"thin", "need", series.Unlimited}} {
		c.Lines = append(c.Lines, d.layer(l.class, l.name, series.Key{Quantity: l.q}))
	}
	c.Limits = []plot.Layer{
		d.layer("limit", "max", series.Key{Quantity: series.Maximum}), d.layer("limit", "min", series.Key{Quantity: series.Minimum}),
	}
	for _, s := range d.ring.Spans(series.Backoff, d.w.From, d.w.To) {
		band := d.band(s)
		band.Class, band.Text = "backoff", "▲ "+s.Name+" backoff"
		c.Bands = append(c.Bands, band)
	}
	c.Gaps = d.gaps()
	c.Name = fmt.Sprintf("Capacity from %s to %s: target %s, need %s, joined %s, limits %s to %s", clock(d.w.From), clock(d.w.To),
		d.pool(series.Target), d.pool(series.Unlimited), d.pool(series.Joined), d.pool(series.Minimum), d.pool(series.Maximum))
	return lane{Name: "Capacity", Sub: "weight, by group", Plot: c.Draw(), Labels: c.Labels(), Legend: c.Stack}
}

func clock(t time.Time) string { return t.UTC().Format("15:04") }

// groupClass returns the colour of the i-th group.
func groupClass(i int) string { return fmt.Sprintf("g%d", i%3) }

// appClass returns the colour of the app with that rank by size.
func appClass(i int) string { return fmt.Sprintf("a%d", min(i, 3)) }

// sorted returns the apps of the window, the largest request first, and then in order of name.
func (d drawer) sorted() (out []string) {
	size := map[string]float64{}
	for _, k := range d.ring.Keys(series.Request) {
		size[k.Name] += 0
		if k.Kind == d.kind {
			for _, b := range d.ring.Bins(k, d.w) {
				size[k.Name] += float64(b.Mean)
			}
		}
	}
	for _, q := range []series.Quantity{series.Verdict, series.Expected} {
		for _, k := range d.ring.Keys(q) {
			size[k.Name] += 0
		}
	}
	for name := range size {
		if sigproto.AppOf(name) == name { // not an advisor
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(a, b)) })
	return out
}

func (d drawer) requests() lane {
	c := plot.Chart{Columns: d.w.Columns, Height: 150}
	var rest []series.Key
	apps := d.apps
	for i, app := range apps {
		k := series.Key{Quantity: series.Request, Name: app, Kind: d.kind}
		if len(apps) > 4 && i >= 3 {
			rest = append(rest, k)
			continue
		}
		c.Stack = append(c.Stack, d.layer(appClass(i), app, k))
	}
	if len(rest) > 0 {
		c.Stack = append(c.Stack, d.sum(rest))
	}
	offered := d.layer("strong", "offered", series.Key{Quantity: series.Offered, Kind: d.kind})
	setpoint := d.layer("thin", "setpoint", series.Key{Quantity: series.Setpoint})
	setpoint.Value = "–"
	if x, ok := d.ring.At(series.Key{Quantity: series.Setpoint}, d.at); ok {
		setpoint.Value = plot.Percent(x)
	}
	for i, b := range offered.Bins {
		if share := setpoint.Bins[i]; share.OK && b.OK {
			b.Min, b.Max, b.Last, b.Mean = b.Min*share.Last, b.Max*share.Last, b.Last*share.Last, b.Mean*share.Last
			setpoint.Bins[i] = b
		}
	}
	c.Lines = []plot.Layer{offered, setpoint}
	c.Name = fmt.Sprintf("Requested %s of %d apps from %s to %s: offered %s, setpoint %s",
		d.kind, len(apps), clock(d.w.From), clock(d.w.To), offered.Value, setpoint.Value)
	return lane{Name: "Requests", Sub: d.kind.String() + ", by app", Plot: c.Draw(), Labels: c.Labels(), Legend: c.Stack}
}

// sum returns the layer "n more apps".
func (d drawer) sum(keys []series.Key) plot.Layer {
	l := plot.Layer{Class: "a3", Name: fmt.Sprintf("%d more apps", len(keys)), Key: "q+", Bins: make([]series.Bin, d.w.Columns)}
	total := 0.0
	for _, k := range keys {
		for i, b := range d.ring.Bins(k, d.w) {
			if b.OK {
				l.Bins[i].Mean += b.Mean
				l.Bins[i].OK = true
			}
		}
		if x, ok := d.ring.At(k, d.at); ok {
			total += x
		}
	}
	l.Value = plot.Number(total)
	return l
}

// band returns the columns of a span.
func (d drawer) band(s series.Span) plot.Band {
	end := s.To.Add(max(d.ring.Every(), time.Second))
	return plot.Band{From: min(max(d.w.Column(s.From), 0), d.w.Columns), To: min(max(d.w.Column(end), 0), d.w.Columns)}
}

// maxLanes bounds the lanes of a section.
const maxLanes = 24

// signals returns a lane for the signal of each app, each followed by those of its advisors.
func (d drawer) signals() (out []lane) {
	advisors := map[string][]string{}
	for _, k := range d.ring.Keys(series.Verdict) {
		if app := sigproto.AppOf(k.Name); app != k.Name {
			advisors[app] = append(advisors[app], k.Name)
		}
	}
	for i, app := range d.apps {
		for _, name := range append([]string{app}, advisors[app]...) {
			bins := d.ring.Bins(series.Key{Quantity: series.Verdict, Name: name}, d.w)
			if !slices.ContainsFunc(bins, func(b series.Bin) bool { return b.OK }) {
				continue
			}
			if len(out) == maxLanes {
				return append(out, lane{Text: "More signals have no lane here."})
			}
			out = append(out, d.signal(name, bins, appClass(i)))
		}
	}
	return out
}

// signal returns the lane of a signal or an advisor with these verdicts.
func (d drawer) signal(name string, bins []series.Bin, class string) lane {
	key := series.Key{Quantity: series.Verdict, Name: name}
	l := plot.SignalLane{
		Columns: d.w.Columns, Verdict: bins, Latency: d.ring.Bins(series.Key{Quantity: series.Latency, Name: name}, d.w),
		Difference: d.ring.Bins(series.Key{Quantity: series.Difference, Name: name}, d.w),
	}
	release := d.releases(&l, name)
	for _, s := range d.named(series.BadSignal, name) {
		band, text := d.band(s), "✕ failed"
		if x, ok := d.ring.At(key, s.From); ok && series.Severity(x) == series.Stale {
			text = "▲ stale"
		}
		l.Notes = append(l.Notes, plot.Flag{Column: band.From, Text: text})
	}
	x, ok := d.ring.At(key, d.at)
	value := verdictText(series.Severity(x), ok)
	if ms, ok := d.ring.At(series.Key{Quantity: series.Latency, Name: name}, d.at); ok {
		value += " · " + plot.Number(ms) + " ms"
	}
	if ok && release != "" {
		value += " · " + release
	}
	app, what := sigproto.AppOf(name), "Signal of app "
	if app != name {
		what = "Advisor "
	}
	l.Name = fmt.Sprintf("%s%s: %s", what, name, value)
	return lane{Name: name, Href: d.name.appHref(app), Swatch: class, Plot: l.Draw(), Value: value, Key: keyName(key)}
}

// releases adds the flags of new releases and the shadow. It returns the release at the cursor.
func (d drawer) releases(l *plot.SignalLane, app string) (release string) {
	for _, s := range d.named(series.Version, app) {
		if s.From.After(d.w.From) && !s.From.Equal(d.ring.First()) {
			l.Flags = append(l.Flags, plot.Flag{Column: d.w.Column(s.From), Text: series.Cut(s.Text, 24)})
		}
		if !s.From.After(d.at) {
			release = series.Cut(s.Text, 24)
		}
	}
	for _, s := range d.named(series.Shadow, app) {
		l.Shadow = "shadow " + series.Cut(s.Text, 24)
		if x, ok := d.ring.At(series.Key{Quantity: series.Difference, Name: app}, s.To); ok {
			switch {
			case x >= 0.005:
				l.Shadow += " requests " + plot.Percent(x) + " more"
			case x <= -0.005:
				l.Shadow += " requests " + plot.Percent(-x) + " less"
			default:
				l.Shadow += " requests the same"
			}
		}
	}
	return release
}

// named returns the spans of a kind and name in the window.
func (d drawer) named(kind series.NoteKind, name string) []series.Span {
	return slices.DeleteFunc(d.ring.Spans(kind, d.w.From, d.w.To), func(s series.Span) bool { return s.Name != name })
}

// verdictText returns a verdict for people.
func verdictText(s series.Severity, ok bool) string {
	if !ok {
		return "–"
	}
	return [...]string{"value", "no opinion", "stale", "failed"}[min(max(int(s), 0), 3)]
}

func (d drawer) instances() (out []lane) {
	for i, app := range d.apps {
		expected, running := series.Key{Quantity: series.Expected, Name: app}, series.Key{Quantity: series.Running, Name: app}
		l := plot.AppLane{Class: appClass(i), Columns: d.w.Columns, Expected: d.ring.Bins(expected, d.w), Running: d.ring.Bins(running, d.w)}
		if !slices.ContainsFunc(l.Expected, func(b series.Bin) bool { return b.OK }) {
			continue
		}
		if len(out) == maxLanes {
			out = append(out, lane{Text: "More apps have no lane here."})
			break
		}
		for _, s := range d.named(series.Missing, app) {
			text, _, _ := strings.Cut(s.Text, " instances")
			l.Notes = append(l.Notes, plot.Flag{Column: d.band(s).From, Text: "✕ " + text + " missing"})
		}
		for _, s := range d.named(series.Flapping, app) {
			band := d.band(s)
			l.Flapping = append(l.Flapping, band)
			l.Notes = append(l.Notes, plot.Flag{Column: band.From, Text: "▲ crash-looping"})
		}
		value := d.value(running)
		if value != "–" {
			value += " of " + d.value(expected)
		}
		l.Name = fmt.Sprintf("Instances of app %s: %s", app, value)
		out = append(out, lane{Name: app, Href: d.name.appHref(app), Swatch: appClass(i), Plot: l.Draw(), Value: value, Key: "i:" + app})
	}
	return out
}

func (d drawer) orders() (out []lane) {
	for _, kind := range []series.NoteKind{series.Pause, series.Offset, series.Pin} {
		for _, s := range d.ring.Spans(kind, d.w.From, d.w.To) {
			if len(out) == maxLanes {
				return append(out, lane{Text: "More orders have no lane here."})
			}
			text := s.Text
			if kind == series.Pause {
				text = "pause " + s.Text
			}
			band := d.band(s)
			band.Text = series.Cut(text, 64)
			l := plot.OrderLane{Name: text, Columns: d.w.Columns, Band: band}
			out = append(out, lane{Plot: l.Draw()})
		}
	}
	return out
}

// gaps returns the times without a decision, with the cause of each that is wide enough for a text.
func (d drawer) gaps() (out []plot.Band) {
	for _, g := range d.ring.Gaps(d.w) {
		band := plot.Band{From: d.w.Column(g.From), To: d.w.Column(g.From) + g.Columns, Text: "no tick"}
		for kind, text := range map[series.NoteKind]string{series.Failure: "tick failed", series.Pause: "paused"} {
			if spans := d.ring.Spans(kind, g.From, g.To.Add(-1)); len(spans) > 0 && band.Text == "no tick" {
				band.Text = text
			}
		}
		if band.To-band.From < d.w.Columns/40 {
			band.Text = ""
		}
		out = append(out, band)
	}
	return out
}

// overlay returns the grid lines, the gaps and the cursor: what is below the plots, and what is over them.
func (d drawer) overlay(axis []plot.Mark) (below, over []byte) {
	o := plot.Overlay{Columns: d.w.Columns, Marks: axis[:len(axis)-1], Gaps: d.gaps()}
	if !d.cursor {
		return o.Draw(), o.Front(-1)
	}
	return o.Draw(), o.Front(float64(d.at.Sub(d.w.From)) / float64(d.w.To.Sub(d.w.From)))
}
