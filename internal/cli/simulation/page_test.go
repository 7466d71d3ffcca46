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
	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// examples is the folder of the scenarios that the guide uses.
var examples = filepath.Join("..", "..", "..", "examples", "simulate")

// weir runs a command line in this process.
func weir(t *testing.T, args ...string) {
	t.Helper()
	var out bytes.Buffer
	if code := cli.Run(args, nil, &out, &out); code != 0 {
		t.Fatalf("weir %s ended with %d: %s", strings.Join(args, " "), code, out.String())
	}
}

// The page of two policies is complete: it loads no other file, runs no script, and has what a review needs.
func TestPageOfTwoPolicies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "review.html")
	weir(t, "simulate", filepath.Join(examples, "elb.yaml"), "--with", filepath.Join(examples, "configs", "prod", "slow.yaml"), "--seeds", "1", "--html", path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"src=", "@import", "<script", "<link", "http://", "https://"} {
		if strings.Contains(string(text), part) {
			t.Errorf("the page has %q", part)
		}
	}
	for _, size := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"simulation", 1280, 900, false}, {"simulation-dark", 1280, 900, true}, {"simulation-phone", 390, 844, false}} {
		tab := webtest.Browse(t, size.width, size.height, size.dark)
		tab.Run(chromedp.Navigate("file://" + path))
		tab.Shot(size.name)
		if wide := webtest.Eval[int](tab, "document.documentElement.scrollWidth"); int64(wide) > size.width {
			t.Errorf("%s: the page is %d px wide, want at most %d", size.name, wide, size.width)
		}
		if n := webtest.Eval[int](tab, "document.querySelectorAll('.plot.chart').length"); n < 10 {
			t.Errorf("%s: the page has %d plots", size.name, n)
		}
		var result struct {
			Violations []struct {
				ID, Help string
				Nodes    []struct{ HTML, FailureSummary string }
			}
		}
		tab.Run(chromedp.Evaluate(webtest.Axe(t), nil), chromedp.Evaluate(`axe.run()`, &result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		for _, v := range result.Violations {
			t.Errorf("%s: %s: %s (%d times)\n%.200s\n%.300s", size.name, v.ID, v.Help, len(v.Nodes), v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
		}
	}
}
