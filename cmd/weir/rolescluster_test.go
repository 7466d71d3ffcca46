package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/natsinit"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// rolesPool is the pool file of a roleWorld. The signal reads an application metric.
const rolesPool = `resource_groups: [{asg: {tag: "weir:pool"}}]
scaling_limits: {min_capacity: 2, max_capacity: 4, max_weight_to_add: 4, max_weight_to_remove: 4, max_tasks_to_kill: inf}
autoscaling: {tick: 500ms, setpoint: 0.5}
autoscale_signals:
  - {app: web, name: default, kind: builtin, period: 500ms, required_metrics: [{name: cpus_allocated, type: system_metrics, range: 5s}]}
health: {mode: observe, detection: {interval: 5, detection_modes: [{type: AGENT_HEARTBEAT, options: {expected_interval: 1, miss: 5}}, {type: NODE_STATUS_POLLING}]}}
`

const rolesHarmonizer = "intervals: {heartbeat_period: 1s, droplet_lost: 5s, min_restart_delay: 5s, delay_time_noise: 1s}\n"

// roleWorld is a production cluster: three NATS servers with TLS, which "weir nats init" has configured, and each daemon
// as a process with the key of its own role.
type roleWorld struct {
	*testing.T
	folder string // of "weir nats init"
	nats   *bustest.Installed
	cloud  *awsfake.Server
	nodes  []string
	aws    string // the block of weir.yaml

	mu   sync.Mutex
	logs map[string][]string // of the processes, by user
}

const rolesCluster, rolesPoolName = "prod", "web"

func newRoleWorld(t *testing.T) *roleWorld {
	t.Helper()
	installations.take(t)
	w := &roleWorld{T: t, folder: filepath.Join(t.TempDir(), "nats"), logs: map[string][]string{}}
	w.cloud = awstest.New(t, awsfake.Config{Region: "us-east-1", Start: time.Now(), Boot: 100 * time.Millisecond, Leave: 100 * time.Millisecond})
	w.cloud.AddGroup(awsfake.ASG{Name: "g", Tags: map[string]string{"weir:pool": rolesCluster + "/" + rolesPoolName}, Min: 1, Max: 4, Desired: 2})
	w.cloud.Advance(time.Second)
	var agents strings.Builder
	for _, i := range w.cloud.Instances("g") {
		w.nodes = append(w.nodes, i.ID)
		agents.WriteString("," + rolesPoolName + "/" + i.ID)
	}
	r := weir("nats", "init", "--servers", "n1=127.0.0.1,n2=127.0.0.2,n3=127.0.0.3", "--cluster", rolesCluster, "--pool", rolesPoolName,
		"--agent", strings.TrimPrefix(agents.String(), ","), "--dir", w.folder)
	if r.code != 0 {
		t.Fatalf("weir nats init: %+v", r)
	}
	w.nats = bustest.ServeInstalled(t, w.folder, natsinit.InstallFolder, natsinit.StoreFolder)
	w.createStreams()
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, fmt.Appendf(nil, `{"accessKeyId": %q, "secretAccessKey": %q}`, s3test.AccessKey, s3test.SecretKey), 0o600); err != nil {
		t.Fatal(err)
	}
	const bucket = "releases"
	w.aws = fmt.Sprintf("aws: {region: %s, endpoint_url: %q, path_style: true, access_key_file: %s, signals_bucket: %s}\n",
		w.cloud.Region(), awstest.WithS3(t, w.cloud, s3test.Serve(t, bucket).Endpoint), keys, bucket)
	return w
}

// createStreams creates the streams as an admin does.
func (w *roleWorld) createStreams() {
	w.Helper()
	u := w.user(roles.Admin)
	b, err := bus.Open(w.Context(), bus.Config{NATS: w.block(u), Name: "admin", User: u, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.Fatal(err)
	}
	defer b.Close()
	bustest.Streams(w.T, b.JetStream(), rolesCluster, 3, rolesPoolName)
}

func (w *roleWorld) user(r roles.Role, more ...string) roles.User {
	w.Helper()
	u, err := roles.Parse(strings.Join(append([]string{rolesCluster, string(r)}, more...), "."))
	if err != nil {
		w.Fatal(err)
	}
	return u
}

// block returns how a user connects, as the block of weir.yaml.
func (w *roleWorld) block(u roles.User) bus.NATS {
	return bus.NATS{
		Servers: w.nats.URLs, NKeyFile: filepath.Join(w.folder, "roles", u.Name()+".nk"), TLS: bus.TLS{CAFile: filepath.Join(w.folder, "ca.crt")},
	}
}

// flags returns the flags with which a process or a command has the role of a user.
func (w *roleWorld) flags(u roles.User) []string {
	w.Helper()
	n, configs := w.block(u), w.TempDir()
	for path, text := range map[string]string{
		"weir.yaml":       fmt.Sprintf("nats: {servers: [\"%s\"], nkey_file: %s, tls: {ca_file: %s}}\n%s", strings.Join(n.Servers, `", "`), n.NKeyFile, n.TLS.CAFile, w.aws),
		"harmonizer.yaml": rolesHarmonizer,
		rolesCluster + "/" + rolesPoolName + ".yaml": rolesPool,
	} {
		path = filepath.Join(configs, path)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	return []string{
		"--config-dir", configs, "--data", w.TempDir(), "--cluster", rolesCluster, "--pool", rolesPoolName, "--timeout", patience.String(),
	}
}

// start runs a daemon until the test ends.
func (w *roleWorld) start(u roles.User, args ...string) {
	w.Helper()
	cmd := exec.Command(weirOf(w), slices.Concat(args, w.flags(u))...)
	cmd.Env = append(os.Environ(), asWeir+"=1")
	out, err := cmd.StderrPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := offspring.Start(cmd); err != nil {
		w.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.keep(u.Name(), out)
		_ = cmd.Wait() // a process that fails shows in its log
	}()
	w.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		limit := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		<-done
		if !limit.Stop() {
			w.Errorf("%s does not end", u.Name())
		}
		if w.Failed() {
			w.mu.Lock()
			defer w.mu.Unlock()
			all := w.logs[u.Name()]
			w.Logf("%s:\n%s", u.Name(), strings.Join(all[max(0, len(all)-40):], "\n"))
		}
	})
}

// startAll starts each daemon of the cluster.
func (w *roleWorld) startAll() {
	w.Helper()
	w.start(w.user(roles.Metrics), "metrics", "serve", "--addr", "127.0.0.1:0")
	w.start(w.user(roles.Harmonizer), "harmonizer")
	u := w.user(roles.Placer, rolesPoolName)
	log := slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b, err := bus.Open(w.Context(), bus.Config{NATS: w.block(u), Name: "placer", User: u, Log: log})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(b.Close)
	for _, bucket := range []string{names.PlacerBucket(rolesCluster, rolesPoolName), names.AppsBucket(rolesCluster)} {
		eventually(w, "the bucket "+bucket, func() error {
			ctx, cancel := context.WithTimeout(w.Context(), patience)
			defer cancel()
			_, err := kvbucket.Check(ctx, b.JetStream(), bucket)
			return err
		})
	}
	w.start(w.user(roles.Pool, rolesPoolName), "bootstrap")
	for _, node := range w.nodes {
		dir := w.TempDir()
		w.Cleanup(func() { endBelow(dir) }) // instances outlive their agents
		w.start(w.user(roles.Agent, rolesPoolName, node), "agent", "--group", "g", "--id", node, "--dir", dir,
			"--heartbeat", "1s", "--cpus", "2", "--mem", "1024", "--disk", "1024")
	}
	w.start(u, "placer")
}

// roleRow is a command: its line, its exit code, and a part of what it prints.
type roleRow struct {
	line string
	code int
	want string
}

// readingRows are commands that a viewer may run.
func readingRows(node string) []roleRow {
	return []roleRow{
		{"status", 0, "joined 2"}, {"pool status", 0, "joined 2"}, {"explain", 0, "tick of"}, {"explain --since 1m --output json", 0, `"at"`},
		{"plan", 0, "dry run: no request to the provider"}, {"pool groups", 0, "asg"}, {"pool target", 0, ""},
		{"node list", 0, node}, {"node status", 0, "mode observe"}, {"node history", 0, ""},
		{"node evidence " + node, 1, "has no evidence"},
		{"app list", 0, "web"}, {"app get web", 0, "web"}, {"app status", 0, "web"}, {"app explain web", 0, "2 running"}, {"app crashes web", 0, ""}, {"app history web", 0, "of the row"},
		{"app diff -f testdata/apps-web.yaml", 1, "job: would be created"},
		{"state check", 0, "no damage is reported"}, {"signal ps", 0, "running"}, {"signal shadow", 0, ""},
		{"metrics get --app web load", 0, "web,load"}, {"metrics try", 0, "cpus_allocated"}, {"signal try forecast --app web --metric none", 1, "no complete slot of 5m"}, {"decide --help", 0, "Recompute"},
		{"pool list", 0, rolesPoolName}, {"signal where shop/none", 0, "No resources found"}, {"pool roll --status", 0, ""}, {"pool rotate --status", 0, "No resources found"}, {"events --since 1h", 0, ""}, {"events --since 1h --kind harmonizer", 0, "harmonizer start: web: copy "},
		{"diff last last", 0, "ticks of"}, {"cost --since 1h", 1, "no machine-hour has a price"}, {"pool decide --set scaling_limits.max_capacity=40 --since 1h", 0, "otherwise"},
		{"simulate init /proc/none.yaml", 1, ""}, // it reads the ledger, and cannot write there
	}
}

// orderRows are commands that an operator may run too, in this order.
func orderRows(node string) []roleRow {
	return []roleRow{
		{"app set api --instances 1 --command true", 0, "api: 1 instance "}, {"app logs web", 0, "begun"}, {"app retry web", 0, "web"},
		{"app scale api 1", 0, "api: 1 instance "}, {"app restart api", 0, "api: 1 instance "}, {"app rollback api", 0, "api: 1 instance "},
		{"app apply -f testdata/apps-web.yaml", 0, "job: created"}, {"app delete job", 0, "job: deleted"},
		{"app stop api", 0, "api: stopped "}, {"app start api", 0, "api: 1 instance "},
		{"harmonizer release", 0, "nothing is held"}, {"metrics put --app web load=3", 0, "1 values written"},
		{"metrics import testdata/metrics.lp", 0, "values written"},
		{"offset 1 --for 1h", 0, "offset of +1"}, {"offset 0", 0, ""},
		{"pool target 2", 0, "from its next tick on"}, {"pool target --clear", 0, ""}, {"pool mark-stale g", 0, ""}, {"pool accept", 0, ""},
		{"node pause " + node, 0, ""}, {"node resume " + node, 0, ""}, {"node release " + node, 1, ""}, {"node recover " + node + " --why test", 0, ""}, {"node check", 0, "AGENT_HEARTBEAT"},
		{"signal logs web", 0, "started"}, {"signal restart web", 0, "is being restarted"}, {"pool roll --dry-run", 0, ""}, {"pool rotate --where age>99d", 0, "are replaced"}, {"pool drain " + node, 0, ""},
		{"release forget shop/rps@v1", 0, "the next fetch accepts"},
		{"state accept apps --reason x", 1, "reports no damage"}, {"app delete api", 0, "api: deleted"},
		{"pause --for 1h --why test", 0, "is paused"}, {"resume", 0, "continues"}, // last: node health reads the end of a pause later
	}
}

// adminRows are commands that an admin may run, after all others.
func adminRows(folder string) []roleRow {
	backup := filepath.Join(folder, "prod.tar")
	return []roleRow{
		{"nats streams --pool " + rolesPoolName, 0, "0 streams created"},
		{"state backup " + backup, 0, "KV_weir-apps_prod"}, {"state restore " + backup, 1, "--replace deletes what exists first"},
		{"state aside pool." + rolesPoolName + " --reason x", 1, "nothing to set aside"},
	}
}

// doctorRows are what doctor prints for each role. The servers report the permissions that it tests.
func doctorRows() map[roles.Role][]string {
	return map[roles.Role][]string{
		roles.Viewer:   {"(role viewer) has all", "ok       bootstrap: process"},
		roles.Operator: {"(role operator) has all", "ok       bootstrap: process"},
		roles.Admin:    {"(role admin) has all", "unknown  bootstrap: ", "weir.prod.bootstrap.web.status", "run doctor with credentials of role operator or viewer too"},
	}
}

// Each command that reads the bus is run by each role that may run it.
func TestEveryBusCommandHasARole(t *testing.T) {
	rows := slices.Concat(readingRows("n"), orderRows("n"), adminRows("d"), []roleRow{{line: "doctor"}})
	for path := range busCommands() {
		for _, short := range shortForms() {
			if path == "pool "+short {
				path = short
			}
		}
		if !slices.ContainsFunc(rows, func(row roleRow) bool { return strings.HasPrefix(row.line+" ", path+" ") }) {
			t.Errorf("no role runs weir %s", path)
		}
	}
}

// Each daemon runs a pool and an application with the key of its own role, and each command has what it needs: no server
// refuses anything.
func TestRolesRunEverything(t *testing.T) {
	t.Parallel()
	w := newRoleWorld(t)
	w.startAll()
	operator, viewer := w.flags(w.user(roles.Operator)), w.flags(w.user(roles.Viewer))
	as := func(flags []string, line string) result {
		return runInTime(t, slices.Concat(strings.Fields(line), flags)...)
	}
	set := append([]string{"app", "set", "web", "--instances", "2", "--cpus", "0.1", "--command", "echo begun; sleep 1000"}, operator...)
	eventually(t, "app web", func() error {
		if r := weir(set...); r.code != 0 {
			return errors.New(r.stderr)
		}
		return nil
	})
	eventually(t, "a pool of two nodes, two instances of web and a value of a metric", func() error {
		for line, want := range map[string]string{"status": "joined 2", "app explain web": "2 running", "signal ps": "running", "metrics put --app web load=2": "1 value"} {
			if r := as(operator, line); r.code != 0 || !strings.Contains(r.stdout, want) {
				return fmt.Errorf("weir %s: %+v, want %q", line, r, want)
			}
		}
		return nil
	})
	check := func(who string, flags []string, rows []roleRow) {
		for _, row := range rows {
			r := as(flags, row.line)
			if out := r.stdout + r.stderr; r.code != row.code || !strings.Contains(out, row.want) || strings.Contains(out, "ermission") {
				t.Errorf("%s: weir %s ended with %d and printed\n%s%s\nwant code %d and %q", who, row.line, r.code, r.stdout, r.stderr, row.code, row.want)
			}
		}
	}
	w.storeApps(manyApps)
	if r := as(viewer, "app list --output name"); r.code != 0 || strings.Count(r.stdout, "\n") != manyApps+1 {
		t.Errorf("a viewer: weir app list ended with %d and printed %d lines, want %d and web: %s", r.code, strings.Count(r.stdout, "\n"), manyApps, r.stderr)
	}
	check("viewer", viewer, readingRows(w.nodes[0]))
	check("operator", operator, append(readingRows(w.nodes[0]), orderRows(w.nodes[0])...))
	check("admin", w.flags(w.user(roles.Admin)), adminRows(t.TempDir()))
	for _, line := range w.nats.Violations() {
		t.Errorf("a server reports: %s", line)
	}
	w.mu.Lock()
	for user, lines := range w.logs {
		for _, line := range lines {
			if rejected(line) {
				t.Errorf("%s: %s", user, line)
			}
		}
	}
	w.mu.Unlock()

	for _, row := range []roleRow{
		{"pause --for 1h", command.ExitFailed, "give its role this permission"}, {"app set api --command true", command.ExitFailed, "give its role this permission"},
		{"signal restart web", command.ExitFailed, "give its role this permission"},
		{"state backup " + filepath.Join(t.TempDir(), "prod.tar"), command.ExitFailed, "give its role this permission"},
	} {
		if r := as(viewer, row.line); r.code != row.code || !strings.Contains(r.stderr, row.want) {
			t.Errorf("a viewer: weir %s ended with %d: %s, want code %d and %q", row.line, r.code, r.stderr, row.code, row.want)
		}
	}
	if got := len(w.nats.Violations()); got < 4 {
		t.Errorf("the servers report %d refusals of the viewer's orders, so the check above may find none", got)
	}
	for role, wants := range doctorRows() {
		r := as(w.flags(w.user(role)), "doctor")
		for _, want := range wants {
			if !strings.Contains(r.stdout, want) || strings.Contains(r.stderr, "level=") {
				t.Errorf("%s: weir doctor printed\n%s%s\nwant %q and no log", role, r.stdout, r.stderr, want)
			}
		}
	}
}

// manyApps are more applications than a reader with consumers reads one by one.
const manyApps = 1100

// storeApps writes n applications without instances, as an operator.
func (w *roleWorld) storeApps(n int) {
	w.Helper()
	u := w.user(roles.Operator)
	b, err := bus.Open(w.Context(), bus.Config{NATS: w.block(u), Name: "operator", User: u, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	apps := kvbucket.New(b.JetStream(), names.AppsBucket(rolesCluster))
	const writers = 32
	var wg sync.WaitGroup
	for first := range writers {
		wg.Go(func() {
			for i := first; i < n; i += writers {
				name := fmt.Sprintf("app-%d", i)
				if _, err := apps.Put(ctx, name, fmt.Appendf(nil, `{"name":%q,"pool":%q,"instances":0,"version":"v1","command":"true","cpus":0.1,"mem":64,"disk":0}`, name, rolesPoolName)); err != nil {
					w.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// keep stores the lines of a process until it ends.
func (w *roleWorld) keep(user string, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		w.mu.Lock()
		w.logs[user] = append(w.logs[user], lines.Text())
		w.mu.Unlock()
	}
}
