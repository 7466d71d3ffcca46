package simulation_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/internal/cli"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// example copies the example of the guide, with another time in one of its scenarios, and returns the path of the scenario.
func example(t *testing.T, name, before, after string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "examples", "simulate"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), before, after, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// weir runs a command line in this process.
func weir(t *testing.T, args ...string) {
	t.Helper()
	var out bytes.Buffer
	if code := cli.Run(args, nil, &out, &out); code != 0 {
		t.Fatalf("weir %s ended with %d: %s", strings.Join(args, " "), code, out.String())
	}
}

// The other scenario of the example runs too.
func TestIncident(t *testing.T) {
	t.Parallel()
	scenario := example(t, "asg.yaml", "delay: 1m", "delay: 1m, duration: 3h")
	weir(t, "simulate", scenario, "--with", filepath.Join(filepath.Dir(scenario), "configs", "prod", "slow.yaml"))
}

// Runs of a sweep are side by side and share the scenario: this is what the race detector sees of them, since larger sweeps run
// without it.
func TestSweepSideBySide(t *testing.T) {
	t.Parallel()
	scenario := example(t, "elb.yaml", "seeds: 3", "duration: 1h, seed: 1")
	weir(t, "simulate", scenario, "--sweep", "autoscaling.setpoint=0.6,0.8", "--seeds", "2", "--html", filepath.Join(t.TempDir(), "sweep.html"))
}

// A page is complete: it loads no other file and runs no script. It fits a screen and a phone, light and dark, and has no problem that
// axe-core finds.
func TestPageForAReview(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "internal/cli/simulation") {
		return
	}
	scenario := example(t, "elb.yaml", "seeds: 3", "duration: 24h, seed: 1")
	dir := filepath.Dir(scenario)
	two, many := filepath.Join(dir, "two.html"), filepath.Join(dir, "many.html")
	weir(t, "simulate", scenario, "--with", filepath.Join(dir, "configs", "prod", "slow.yaml"), "--html", two)
	weir(t, "simulate", scenario, "--sweep", "autoscaling.setpoint=0.5..0.9:0.1", "--objective", "cost,unmet<=8%", "--seeds", "2", "--html", many)
	for _, test := range []struct {
		name, path    string
		width, height int64
		dark          bool
		plots         int
	}{{"simulation", two, 1280, 900, false, 12}, {"simulation-phone", two, 390, 844, false, 12}, {"sweep", many, 1280, 900, true, 12}} {
		text, err := os.ReadFile(test.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"src=", "@import", "<script", "<link", "http://", "https://"} {
			if strings.Contains(string(text), part) {
				t.Errorf("%s: the page has %q", test.name, part)
			}
		}
		tab := webtest.Browse(t, test.width, test.height, test.dark)
		tab.Run(chromedp.Navigate("file://" + test.path))
		if wide := webtest.Eval[int64](tab, "document.documentElement.scrollWidth"); wide > test.width {
			t.Errorf("%s: the page is %d px wide, want at most %d", test.name, wide, test.width)
		}
		if n := webtest.Eval[int](tab, "document.querySelectorAll('.plot.chart').length"); n < test.plots {
			t.Errorf("%s: the page has %d plots, want at least %d", test.name, n, test.plots)
		}
		var result struct {
			Violations []struct {
				ID, Help string
				Nodes    []struct{ HTML, FailureSummary string }
			}
		}
		tab.Run(chromedp.Evaluate(webtest.Axe(t), nil), chromedp.Evaluate(`axe.run()`, &result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		for _, v := range result.Violations {
			t.Errorf("%s: %s: %s (%d times)\n%.200s\n%.300s", test.name, v.ID, v.Help, len(v.Nodes), v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
		}
		if test.width > 1000 { // the pictures have all widths
			tab.Shots(test.name)
		}
	}
}
