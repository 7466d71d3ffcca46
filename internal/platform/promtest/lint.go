package promtest

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
)

// Lint returns what the linter of Prometheus reports about a page of metrics, without what it reports about deprecated ones.
func Lint(t *testing.T, page string) (problems []string) {
	t.Helper()
	old := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# HELP (\S+) `+metric.Deprecated).FindAllStringSubmatch(page, -1) {
		old[m[1]] = true
	}
	c := exec.Command(Program(t, "promtool"), "check", "metrics")
	c.Stdin = strings.NewReader(page)
	out, err := c.CombinedOutput() // it fails for deprecated names too
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" && !old[name] {
			problems = append(problems, strings.TrimSpace(line))
		}
	}
	return problems
}
