package promtest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"
)

// deploy returns a path below the folder deploy.
func deploy(parts ...string) string {
	return filepath.Join(append([]string{"..", "..", "..", "deploy"}, parts...)...)
}

// The checker of Prometheus accepts the rules, their tests and the example.
func TestRules(t *testing.T) {
	promtool := promtest.Program(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "weir-alerts.yml"}, {"check", "config", "prometheus.yml"}, {"test", "rules", "weir-alerts_test.yml"},
	} {
		c := exec.Command(promtool, args...)
		c.Dir = deploy("prometheus")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Each alert has a test, and a row in the page of the folder.
func TestAlertsAreListed(t *testing.T) {
	page, tests := read(t, "README.md"), read(t, "weir-alerts_test.yml")
	alerts := 0
	for line := range strings.Lines(read(t, "weir-alerts.yml")) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: ")
		if !ok {
			continue
		}
		alerts++
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("deploy/prometheus/README.md has no row for %s", name)
		}
		if !strings.Contains(tests, "alertname: "+name+"\n        exp_alerts:") {
			t.Errorf("no test makes %s fire", name)
		}
	}
	if alerts != 23 {
		t.Errorf("%d alerts, want 23", alerts)
	}
}

// The example scrapes each daemon.
func TestExampleScrapesEachDaemon(t *testing.T) {
	example := read(t, "prometheus.yml")
	for _, daemon := range config.Daemons() {
		address, _ := config.Admin{}.Address(daemon)
		if address != config.AdminOff && !strings.Contains(example, "- "+address+" # "+daemon+"\n") {
			t.Errorf("deploy/prometheus/prometheus.yml does not scrape %s at %s", daemon, address)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(deploy("prometheus", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// known returns the labels of each series that the tables of package metric describe.
func known() map[string][]string {
	out := map[string][]string{}
	for _, table := range tables() {
		for _, m := range table {
			out[m.Name] = append([]string{"cluster", "pool"}, m.Labels...)
		}
	}
	return out
}

// checkQuery reports what a query names that no daemon exports. It returns the number of metrics.
func checkQuery(t *testing.T, where, query string) (n int) {
	t.Helper()
	query = strings.NewReplacer("$cluster", "c", "$pool", "p").Replace(query)
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %s: %v", where, query, err)
		return 0
	}
	tables := known()
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		n++
		labels, exists := tables[selector.Name]
		if !exists {
			t.Errorf("%s: no daemon exports %s", where, selector.Name)
		}
		for _, m := range selector.LabelMatchers {
			if m.Name != "__name__" && !slices.Contains(labels, m.Name) {
				t.Errorf("%s: %s has no label %s", where, selector.Name, m.Name)
			}
		}
		return nil
	})
	return n
}

// The queries of the dashboard name existing metrics and labels only.
func TestDashboardQueries(t *testing.T) {
	text, err := os.ReadFile(deploy("grafana", "weir-pool.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Query string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			queries += checkQuery(t, panel.Title, target.Expr)
		}
	}
	for _, variable := range board.Templating.List {
		if inner, ok := strings.CutPrefix(variable.Query, "label_values("); ok {
			query, _, _ := strings.Cut(inner, ", ")
			queries += checkQuery(t, variable.Query, query)
		}
	}
	if queries < 40 {
		t.Errorf("only %d metrics are in the queries", queries)
	}
}

// Each number of the dashboard has thresholds and a text for an unknown value. Marks of alerts, pauses and takeovers are on all
// plots, and links lead to existing pages of the program.
func TestDashboardShowsStates(t *testing.T) {
	text, err := os.ReadFile(deploy("grafana", "weir-pool.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Type, Title string
			FieldConfig struct {
				Defaults struct {
					Thresholds struct{ Steps []struct{ Color string } }
					Mappings   []struct{ Type string }
				}
			}
		}
		Annotations struct{ List []struct{ Name, Expr string } }
		Links       []struct{ URL string }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		special := slices.ContainsFunc(p.FieldConfig.Defaults.Mappings, func(m struct{ Type string }) bool { return m.Type == "special" })
		if p.Type == "stat" && (len(p.FieldConfig.Defaults.Thresholds.Steps) < 2 || !special) {
			t.Errorf("panel %s: want thresholds, and a text for an unknown value", p.Title)
		}
	}
	for _, a := range board.Annotations.List {
		if a.Name != "Alerts" { // Prometheus itself exports ALERTS
			checkQuery(t, a.Name, a.Expr)
		}
	}
	if len(board.Annotations.List) != 3 || len(board.Links) != 2 || !strings.HasSuffix(board.Links[0].URL, "/pools/${cluster}/${pool}") {
		t.Errorf("%d annotations, links %v", len(board.Annotations.List), board.Links)
	}
}

// The expressions of the alerts name existing metrics and labels only.
func TestAlertQueries(t *testing.T) {
	c := exec.Command(promtest.Program(t, "promtool"), "check", "rules", "--lint-fatal", "weir-alerts.yml")
	c.Dir = deploy("prometheus")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, group := range rules(t) {
		for _, rule := range group.Rules {
			if checkQuery(t, rule.Alert, rule.Expr) == 0 {
				t.Errorf("%s names no metric", rule.Alert)
			}
		}
	}
}
