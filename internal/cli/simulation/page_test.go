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
func weir(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := cli.Run(args, nil, &out, &out); code != 0 {
		t.Fatalf("weir %s ended with %d: %s", strings.Join(args, " "), code, out.String())
	}
	return out.String()
}

// The example of the guide prints the text of the guide. SOAK compares all numbers, else the runs are of three hours, and the columns
// and the policies count.
func TestNumbersOfTheGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "simulate.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## An example")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	runs, all := strings.Split(text, "$ weir "), os.Getenv("SOAK") != ""
	if len(runs) != 3 {
		t.Fatalf("the guide has %d runs, want 2:\n%s", len(runs)-1, text)
	}
	for _, run := range runs[1:] {
		line, want, _ := strings.Cut(run, "\n")
		args := strings.Fields(line)
		shorter := "delay: 1m, duration: 3h"
		if all {
			shorter = "delay: 1m"
		}
		scenario := example(t, args[1], "delay: 1m", shorter)
		dir := filepath.Dir(scenario)
		args[1] = scenario
		for i, a := range args {
			if strings.HasSuffix(a, ".yaml") || strings.HasSuffix(a, ".html") {
				args[i] = filepath.Join(dir, strings.TrimPrefix(a, dir))
			}
		}
		got := weir(t, args...)
		if all && got != want {
			t.Errorf("weir %s printed\n%s\nthe guide has\n%s", line, got, want)
		}
		if was, is := firstWords(want), firstWords(got); was != is {
			t.Errorf("weir %s has the rows %s, and the guide %s", line, is, was)
		}
	}
}

// firstWords returns the first word of each row of a table, without those of the last line.
func firstWords(table string) string {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	var all []string
	for _, line := range lines[:len(lines)-1] {
		all = append(all, strings.Fields(line)[0])
	}
	return strings.Join(all, " ")
}

// Runs of a sweep are side by side and share the scenario: the race detector covers them here, since larger sweeps run
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
