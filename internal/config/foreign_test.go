package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

// Files as in Clusterman's documentation and schemas.
const (
	foreignService = `aws:
  region: us-west-2
  access_key_file: /etc/boto_cfg/clusterman.json
  signals_bucket: the-signals
  state_table: clusterman_cluster_state
autoscale_signal:
  name: DefaultSignal
  branch_or_tag: master
  period_minutes: 10
  required_metrics:
    - {name: cpus_allocated, type: system_metrics, minute_range: 10}
autoscaling:
  default_signal_role: clusterman
  setpoint: 0.7
  setpoint_margin: 0.1
  target_capacity_margin: 0.1
batches: {cluster_metrics: {run_interval_seconds: 60}}
clusters:
  everywhere-prod:
    aws_region: eu-central-1
    mesos_master_fqdn: mesos.example
    warning_queue_url: https://sqs.example/warnings
module_config: []
`
	foreignPool = `resource_groups:
  - sfr: {s3: {bucket: fleets, prefix: everywhere-prod}}
  - asg: {tag: "puppet:role::paasta", aws_api_cache_bucket: cached}
scaling_limits:
  min_capacity: 3
  max_capacity: 345
  max_weight_to_add: 200
  max_weight_to_remove: 10
  max_tasks_to_kill: "inf"
  min_node_scalein_uptime_seconds: 1200
draining_enabled: true
draining: {draining_time_threshold_seconds: 600, redraining_delay_seconds: 15, process_spot_warnings: false}
autoscaling_signal:
  name: BarSignal3
  namespace: bar
  branch_or_tag: v42
  repository: git@example:signals
  period_minutes: 7
  required_metrics:
    - {name: boost, type: app_metrics, minute_range: 10, regex: true}
  parameters:
    - paramA: 20
    - paramB: xyz
autoscaling:
  prevent_scale_down_after_capacity_loss: true
  instance_loss_threshold: 3
  killable_nodes_prioritizing_v2: true
alert_on_max_capacity: false
sensu_config: [{team: compute}]
`
)

func loadForeign(t *testing.T, ending string) (Service, Pool) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "weir.yaml"), foreignService)
	writeFile(t, filepath.Join(dir, "everywhere-prod", "bar"+ending), foreignPool)
	s, p, err := Load(dir, "everywhere-prod", "bar")
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

func TestFilesOfClusterman(t *testing.T) {
	for _, ending := range []string{".yaml", ".mesos", ".kubernetes"} {
		t.Run(ending, func(t *testing.T) {
			s, p := loadForeign(t, ending)
			c := Autoscaler(s, p)
			if len(c.Apps) != 1 || c.Apps[0].App != "bar" || c.Apps[0].Version != "v42" || c.Apps[0].Period != 7*time.Minute || c.Apps[0].Parameters["paramB"] != "xyz" {
				t.Errorf("apps are %+v", c.Apps)
			}
			want := api.PruneLimits{MaxWeight: 10, MaxTasks: api.Unbounded, MinUptime: 900 * time.Second, ByPriority: true}
			if diff := cmp.Diff(want, c.Prune); diff != "" {
				t.Errorf("limits of a prune (-want +got):\n%s", diff)
			}
			if !c.Policy.LossLimit || c.Policy.LossThreshold != 3 || c.Policy.Period != 7*time.Minute {
				t.Errorf("policy is %+v", c.Policy)
			}
			if k, ok := p.Provider(); !ok || k.Environment != "AWS_" {
				t.Errorf("provider is %q", k.Name)
			}
			if s.RegionOf("everywhere-prod") != "eu-central-1" || s.RegionOf("other") != "us-west-2" ||
				s.WarningQueue("everywhere-prod") != "https://sqs.example/warnings" || p.Draining.FollowsWarnings() {
				t.Error("region, queue or draining is not that of the files")
			}
		})
	}
}

func TestWarningsListIgnoredKeys(t *testing.T) {
	s, p := loadForeign(t, ".yaml")
	var keys []string
	for _, w := range Warnings(s, p) {
		keys = append(keys, w.Key)
		if w.Line == 0 || w.What == "" {
			t.Errorf("warning %+v does not say where or what", w)
		}
	}
	want := []string{
		"aws.state_table", "autoscaling.setpoint_margin", "batches", "clusters.everywhere-prod.mesos_master_fqdn", "module_config",
		"resource_groups[1].asg.aws_api_cache_bucket", "draining_enabled", "draining.redraining_delay_seconds",
		"autoscaling_signal.repository", "alert_on_max_capacity", "sensu_config",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestInternalSignalIsPending(t *testing.T) {
	p := mustReadPool(t, goodPool+"autoscale_signal: {internal: true, period_minutes: 5}\n")
	if len(p.Signals) != 1 || p.Signals[0].Name != "pending" || p.Signals[0].Kind != kindBuiltin || len(p.Signals[0].Metrics) != 6 {
		t.Errorf("signals are %+v", p.Signals)
	}
}

func TestSignalForWholePoolMayHaveNoWindows(t *testing.T) {
	p := mustReadPool(t, goodPool+"autoscale_signal: {name: x, namespace: n, branch_or_tag: v1, period_minutes: 5}\n")
	if len(p.Signals) != 1 || p.Signals[0].Metrics != nil {
		t.Errorf("signals are %+v", p.Signals)
	}
}

func TestPolicy(t *testing.T) {
	const limits = `"scaling_limits": {"min_capacity": 3, "max_capacity": "inf", "max_weight_to_add": 200, "max_weight_to_remove": 10, "max_tasks_to_kill": "inf"}`
	c, err := Policy([]byte(`{` + limits + `, "autoscaling": {"setpoint": 0.8, "budgets": [{"direction": "down", "within": "10m", "at_most": "10%"}]}, "autoscale_signals": [{"app": "a", "name": "x", "period_minutes": 7}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Input.Policy.Setpoint != 0.8 || c.Input.Policy.Limits.Max != api.Unlimited || c.Input.Apps[0].HoldFor != 21*time.Minute || c.Input.Policy.Period != 7*time.Minute {
		t.Errorf("policy is %+v, apps %+v", c.Input.Policy, c.Input.Apps)
	}
	if diff := cmp.Diff([]api.ChangeBudget{{Direction: api.DirectionDown, Within: 10 * time.Minute, Share: 0.1}}, c.Input.Policy.Budgets); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	for _, text := range []string{`{}`, `[]`, `{` + limits + `, "autoscaling": {"setpiont": 1}}`, `{` + limits + `, "autoscaling": {"setpoint": 7}}`} {
		if _, err := Policy([]byte(text)); err == nil {
			t.Errorf("Policy(%s) is no error", text)
		}
	}
}

func TestClaims(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": foreignPool, "b.mesos": foreignPool, "c.yaml": goodPool, "d.yaml": "nonsense: 1\n", "e.txt": "?"} {
		writeFile(t, filepath.Join(dir, "prod", name), text)
	}
	claims, err := Claims(dir, "prod", "a")
	if err == nil || len(claims) != 2 || len(claims["b"]) != 2 || len(claims["c"]) != 1 {
		t.Errorf("Claims = %v, %v; want those of b and c, and an error for d", claims, err)
	}
	if _, err := Claims(dir, "none", "a"); !os.IsNotExist(err) {
		t.Errorf("Claims of no cluster = %v", err)
	}
}

// The node migration of Clusterman becomes a rotation, and each of its other keys is a warning.
func TestNodeMigration(t *testing.T) {
	const migration = "node_migration:\n  trigger: {max_uptime: 90d, event: true}\n  strategy: {rate: 3, prescaling: 1, precedence: highest_uptime, bootstrap_wait: 3m, bootstrap_timeout: 10m}\n  disable_autoscaling: false\n"
	_, p := load(t, "", goodPool+migration)
	got := Autoscaler(Service{Autoscaling: Autoscaling{Setpoint: new(0.7), Margin: new(0.1)}}, p).Rotation
	if len(got.Rules) != 1 || got.Rules[0].Where != "age>90d" || got.Gate.Wait != 3*time.Minute || got.Gate.Within != 10*time.Minute || got.Policy.Rate.Machines != 3 || got.Policy.Rate.Within != 3*time.Minute {
		t.Errorf("rotation %+v", got)
	}
	if n := len(p.document.warnings); n != 4 {
		t.Errorf("%d warnings, want 4: %v", n, p.document.warnings)
	}
	share := strings.NewReplacer("rate: 3", "rate: 10%", "highest_uptime", "lowest_task_count", "bootstrap_wait: 3m, ", "").Replace(migration)
	if _, p = load(t, "", goodPool+share); p.Rotation.Rate != (Rate{}) || !strings.Contains(p.document.warnings.Error(), "rate: is ignored: a share is no number") || strings.Contains(p.document.warnings.Error(), "precedence") {
		t.Errorf("rate %+v of a share, warnings %v", p.Rotation.Rate, p.document.warnings)
	}
	wrong := File{Path: "FILE", Text: []byte(goodPool + strings.Replace(migration, "rate: 3", "rate: fast", 1))}
	if _, err := wrong.pool("here", "web", nil); err == nil || !strings.Contains(err.Error(), "want a number of machines, or a share such as 10%") {
		t.Errorf("a wrong rate: %v", err)
	}
	_, p = load(t, "", goodPool+migration+"rotation: {max_age: 30d, health_gate: {wait: 10m}}\n")
	if r := p.Rotation; r.MaxAge != Age(30*24*time.Hour) || *r.Gate.Wait != 10*time.Minute || p.Migration != nil {
		t.Errorf("rotation %+v beside a migration", r)
	}
}

// An event of Clusterman has what the machines are to be like. The rotation replaces the others.
func TestNodeMigrationObjects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "migration.yaml")
	for _, c := range []struct{ condition, more, want string }{
		{"uptime lt 90d", "", "age>90d"},
		{"uptime le 86400", "", "age>24h"},
		{"instance_type eq M5.Large", "", "type!=m5.large"},
		{"instance_type in m4.large,m4.xlarge", "", "type!=m4.large,type!=m4.xlarge"},
		{"instance_type ne m5.large", "", "type=m5.large"},
		{"instance_type notin m4.large,m4.xlarge", "", "type in m4.large m4.xlarge"},
		{"uptime gt 90d", "", `FILE:8: spec.condition: is "uptime gt 90d": want uptime with lt or le`},
		{"uptime lt soon", "", `FILE:8: spec.condition.target: is "soon"`},
		{"kernel ge 5.10", "", "FILE:8: spec.condition.trait: is kernel, which no provider reports: name the images that have it"},
		{"uptime lt 90d", ", label_selectors: [a=b]", "FILE:8: spec.label_selectors: has labels"},
		{"uptime lt 90d", ", pool: other", "is a duplicate"},
	} {
		f := strings.Fields(c.condition)
		text := "apiVersion: clusterman.yelp.com/v1\nkind: NodeMigration\nmetadata:\n  name: a\n  labels:\n    clusterman.yelp.com/migration_status: pending\nspec:\n" +
			fmt.Sprintf("  {cluster: here, pool: web, condition: {trait: %s, operator: %s, target: %q}%s}\n", f[0], f[1], f[2], c.more)
		writeFile(t, file, text)
		where, err := ReadNodeMigration(file, "here", "web")
		if err != nil {
			where = strings.ReplaceAll(err.Error(), file, "FILE")
		}
		if !strings.Contains(where, c.want) || err == nil && where != c.want {
			t.Errorf("%s: %s, want %s", c.condition, where, c.want)
		}
	}
	if _, err := ReadNodeMigration(file, "here", "mail"); err == nil || !strings.Contains(err.Error(), "is of here/") || !strings.Contains(err.Error(), "and the command is of here/mail") {
		t.Errorf("another pool: %v", err)
	}
}
