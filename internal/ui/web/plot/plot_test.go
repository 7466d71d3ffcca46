package plot_test

import (
	"encoding/xml"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// bins returns columns with one value each; NaN: a gap.
func bins(values ...float64) []series.Bin {
	out := make([]series.Bin, len(values))
	for i, x := range values {
		if !math.IsNaN(x) {
			out[i] = series.Bin{Min: float32(x), Max: float32(x), Last: float32(x), Mean: float32(x), OK: true}
		}
	}
	return out
}

var gap = math.NaN()

const hostile = `<script>alert("1")</script>&'`

func chart() plot.Chart {
	target := bins(4, 4, gap, gap, 6, 6, 6, 8)
	target[5] = series.Bin{Min: 2, Max: 9, Last: 6, Mean: 6, OK: true} // a spike of one tick
	return plot.Chart{
		Name: "Capacity: target 8", Columns: 8, Height: 220,
		Stack: []plot.Layer{
			{Class: "g0", Name: "on-demand", Key: "g:on-demand", Value: "4", Bins: bins(2, 2, gap, gap, 3, 3, 3, 4)},
			{Class: "g1", Name: hostile, Key: "g:" + hostile, Value: "4", Bins: bins(2, 2, gap, gap, 3, 3, 3, 4)},
		},
		Lines:  []plot.Layer{{Class: "strong", Name: "target", Key: "target", Value: "8", Bins: target}},
		Limits: []plot.Layer{{Class: "limit", Name: "max", Key: "max", Value: "10", Bins: bins(10, 10, 10, 10, 10, 10, 10, 10)}},
		Bands:  []plot.Band{{Class: "backoff", From: 4, To: 6, Text: "▲ spot-a backoff"}},
		Gaps:   []plot.Band{{From: 2, To: 4, Text: "paused by " + hostile}},
	}
}

// Each plot is what its golden file has, is well-formed, and has no markup from a name.
func TestGolden(t *testing.T) {
	steps := []plot.Step{{Before: 39, After: 39}, {Before: 39, After: 43.19}, {Before: 43.19, After: 40}}
	limits := map[string]float64{"min": 8, "max": 40}
	fall := plot.NewWaterfall(steps)
	plots := map[string][]byte{
		"chart":  chart().Draw(),
		"labels": chart().Labels(),
		"signal": plot.SignalLane{
			Name: "signal of " + hostile, Columns: 8, Verdict: bins(0, 1, 2, 3, gap, 0, 0, 0), Latency: bins(1, 2, 1000, 5000, gap, 3, 3, 3),
			Difference: bins(gap, gap, gap, gap, gap, 0.1, 0.1, 0.1), Flags: []plot.Flag{{Column: 1, Text: hostile}, {Column: 7, Text: "v2"}}, Notes: []plot.Flag{{Column: 3, Text: "✕ failed"}},
			Shadow: "shadow v2 requests 10 % more",
		}.Draw(),
		"nodes": plot.Nodes{
			Name: "nodes of spot-a", Columns: 8, Others: "+ 1740 without an event", Until: 7, Steady: bins(3, 3, 3, 5, 5, 5, 5, gap),
			Nodes: []plot.Node{
				{ID: "i-1", Parts: []plot.Stretch{{Part: plot.Ordered, From: 0, To: 1, Text: ""}, {Part: plot.InPool, From: 1, To: 3, Text: ""}}},
				{ID: "i-2", Parts: []plot.Stretch{{Part: plot.InPool, From: 0, To: 4, Text: ""}, {Part: plot.Repair, From: 4, To: 6, Text: "repair " + hostile}, {Part: plot.InPool, From: 6, To: 8, Text: ""}}},
				{ID: "i-3", Parts: []plot.Stretch{{Part: plot.InPool, From: 6, To: 7, Text: ""}, {Part: plot.Draining, From: 7, To: 8, Text: ""}}}, // in the lane of i-1
			},
		}.Draw(),
		"app": plot.AppLane{Name: "cart", Class: "a0", Columns: 8, Expected: bins(9, 9, gap, gap, 9, 9, 9, 9), Running: bins(9, 9, gap, gap, 9, 9, 8, 8),
			Flapping: []plot.Band{{From: 4, To: 5}}, Notes: []plot.Flag{{Column: 6, Text: "✕ 1 missing"}}}.Draw(),
		"order":   plot.OrderLane{Name: "offset", Columns: 8, Band: plot.Band{From: 2, To: 3, Text: "offset +6"}}.Draw(),
		"spark":   plot.Spark{Name: "web", Columns: 8, Height: 36, Joined: bins(4, 4, gap, gap, 4, 4, 4, 5), Target: bins(4, 4, gap, gap, 5, 5, 5, 5), Maximum: bins(9, 9, 9, 9, 9, 9, 9, 9), Trouble: bins(0, 0, gap, gap, 2, 3, 0, 0)}.Draw(),
		"history": plot.History{Name: "pools in trouble", Height: 40, NotServed: []int{0, 1, 0, 2}, Warn: []int{1, 0, 0, 5}}.Draw(),
		"overlay": plot.Overlay{Columns: 8, Marks: []plot.Mark{{X: 0.5, Text: "12:00", Now: false}}, Gaps: []plot.Band{{From: 2, To: 4}}}.Draw(),
		"scatter": plot.Scatter{Name: "cost against unmet demand", X: "cost", Y: "unmet cpu-hours", Height: 300, Dots: []plot.Dot{
			{X: 346.2, Y: 400.1, HalfX: 0.4, HalfY: 10.1, Class: "a0", Text: "0.7"}, {X: 305, Y: 557.9, Class: "a1", Text: hostile}}}.Draw(),
		"cursor": plot.Overlay{Columns: 8}.Front(0.75),
		"ruler":  plot.Ruler([]plot.Mark{{X: 0.25, Text: "09:00", Now: false}, {X: 0.5, Text: "12:00", Now: false}, {X: 1, Text: "now", Now: true}}),
		"fall": []byte(string(fall.Head(39, limits, []string{"min", "max"})) + string(fall.Row(steps[0], limits, nil)) +
			string(fall.Row(steps[1], limits, nil)) + string(fall.Row(steps[2], limits, new(43.19)))),
		"share": plot.Share("a0", 0.44),
	}
	for name, got := range plots {
		t.Run(name, func(t *testing.T) {
			wellFormed(t, got)
			if strings.Contains(string(got), "<script") || strings.Contains(string(got), "style=") {
				t.Errorf("the plot has a script or an inline style: %s", got)
			}
			file := filepath.Join("testdata", name+".svg")
			text := strings.ReplaceAll(string(got), "><", ">\n<") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if text != string(want) {
				t.Errorf("%s differs from %s; run with -update and read the difference:\n%s", name, file, text)
			}
		})
	}
}

func wellFormed(t *testing.T, markup []byte) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader("<p>" + string(markup) + "</p>"))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, markup)
		}
	}
}

// A gap draws nothing: no line reaches zero.
func TestGapIsNotZero(t *testing.T) {
	c := plot.Chart{Columns: 3, Height: 10, Lines: []plot.Layer{{Class: "thin", Bins: bins(5, gap, 5)}}}
	if got := string(c.Draw()); !strings.Contains(got, `d="M0 6h1M2 6h1"`) {
		t.Errorf("Draw = %s", got)
	}
}

// A limit far above the peak is a text, so that the plot keeps its height. It leaves room for the text of each band.
func TestFarLimitIsText(t *testing.T) {
	c := chart()
	c.Limits[0].Bins = bins(1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000)
	for from := range c.Columns {
		c.Bands[0].From, c.Bands[0].To = from, c.Columns
		got := string(c.Draw())
		for _, want := range []string{"max 1000 is above ↑", "▲ spot-a backoff"} {
			if !strings.Contains(got, want) {
				t.Errorf("a band from column %d: Draw is without %q: %s", from, want, got)
			}
		}
	}
}
