//go:build root

package packages

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/cli/natsinit"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

func TestMain(m *testing.M) {
	s3test.RunIfChild()
	os.Exit(m.Run())
}

// settings are the configuration of the host's daemons. The agent has a file of its own, as on a machine of its own.
const (
	settings = `nats: {servers: [%[1]s], nkey_file: "${CREDENTIALS_DIRECTORY}/nats.nk", tls: {ca_file: /etc/weir/ca.crt}}
aws: {region: us-east-1, endpoint_url: %[2]q, path_style: true, access_key_file: /etc/weir/aws.json, signals_bucket: releases}
auth:
  issuer_key_file: ${CREDENTIALS_DIRECTORY}/issuer.nk
  daemons_file: /etc/weir/daemons.json
  verifiers: {sharedsecret: {key_file: /etc/weir/identity.secrets, pools: [web]}}
admin: {bootstrap: "127.0.0.1:0", harmonizer: "127.0.0.1:0", placer: "127.0.0.1:0", auth: "127.0.0.1:0", web: "127.0.0.1:0", notify: "127.0.0.1:0", agent: "127.0.0.1:0"}
web: {addr: "127.0.0.1:0"}
notify: [{name: test, url: %[3]q}]
`
	agentSettings = `nats: {servers: [%s], tls: {ca_file: /etc/weir/ca.crt}}
identity: {sharedsecret: {key_file: /etc/weir/agent/identity.secrets}}
`
	pool = `resource_groups: [{asg: {tag: "weir:pool"}}]
scaling_limits: {min_capacity: 1, max_capacity: 3, max_weight_to_add: 2, max_weight_to_remove: 2, max_tasks_to_kill: inf}
autoscaling: {tick: 10s, setpoint: 0.8}
autoscale_signals: [{app: web, period: 10s}]
`
	operator = "WEIR_CONFIG_DIR=/etc/weir CREDENTIALS_DIRECTORY=/root/keys CMAN_CLUSTER=prod CMAN_POOL=web"
)

// daemons returns the units of the package. An agent needs weir-auth, and the pool is the last one to end.
func daemons() []string {
	return []string{"weir-metrics", "weir-auth", "weir-harmonizer", "weir-placer", "weir-notify", "weir-web", "weir-agent", "weir-bootstrap@prod-web"}
}

// cluster is a host whose units have a NATS cluster with TLS, the bucket and the API of AWS.
type cluster struct {
	*host
	notified atomic.Int64 // requests to the webhook of weir notify
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	deb, _ := build(t)
	c := &cluster{host: boot(t, deb)}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, name := range daemons() {
			t.Logf("log of %s:\n%s", name, c.journal(name))
		}
	})
	c.configure(t)
	return c
}

// configure follows docs/install.md, and starts what the daemons need.
func (c *cluster) configure(t *testing.T) {
	t.Helper()
	c.run("weir", "nats", "init", "--servers", "n1=127.0.0.1,n2=127.0.0.2,n3=127.0.0.3", "--cluster", "prod", "--pool", "web", "--dir", "/root/nats")
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(c.root, "root/nats"))); err != nil {
		t.Fatal(err)
	}
	servers := bustest.ServeInstalled(t, folder, natsinit.InstallFolder, natsinit.StoreFolder)
	cloud := awstest.New(t, awsfake.Config{Region: "us-east-1", Start: time.Now(), Boot: 100 * time.Millisecond, Leave: 100 * time.Millisecond})
	cloud.AddGroup(awsfake.ASG{Name: "g", Tags: map[string]string{"weir:pool": "prod/web"}, Min: 1, Max: 3, Desired: 1})
	cloud.Advance(time.Second)
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.notified.Add(1) }))
	t.Cleanup(target.Close)
	urls := fmt.Sprintf("%q", servers.URLs)
	urls = strings.ReplaceAll(strings.Trim(urls, "[]"), " ", ", ")
	c.write("/etc/weir/weir.yaml", fmt.Sprintf(settings, urls, awstest.WithS3(t, cloud, s3test.Serve(t, "releases").Endpoint), target.URL))
	c.write("/etc/weir/agent/weir.yaml", fmt.Sprintf(agentSettings, urls))
	c.write("/etc/weir/aws.json", fmt.Sprintf(`{"accessKeyId": %q, "secretAccessKey": %q}`, s3test.AccessKey, s3test.SecretKey))
	c.write("/etc/weir/prod/web.yaml", pool)
	c.write("/etc/weir/weir.env", "CMAN_CLUSTER=prod\nCMAN_POOL=web\nWEIR_POOLS=web\n")
	c.write("/etc/weir/pools/prod-web.env", "CMAN_CLUSTER=prod\nCMAN_POOL=web\n")
	c.write("/etc/weir/agent.env", "WEIR_CONFIG_DIR=/etc/weir/agent\nWEIR_AGENT_ARGS=--id "+cloud.Instances("g")[0].ID+
		" --group g --cpus 2 --mem 2048 --disk 2048 --heartbeat 1s\n")
	c.run("sh", "-ec", `cd /root/nats
cp -p ca.crt daemons.json /etc/weir
keys=/etc/weir/credentials
cp issuer.nk $keys
for d in metrics harmonizer auth notify; do cp roles/prod.$d.nk $keys/weir-$d.nk; done
cp roles/prod.operator.nk $keys/weir-web.nk
cp roles/prod.placer.web.nk $keys/weir-placer.nk
cp roles/prod.pool.web.nk $keys/weir-bootstrap@prod-web.nk
mkdir /root/keys
cp roles/prod.admin.nk /root/keys/nats.nk
env `+operator+` weir nats streams --cluster prod
cp roles/prod.operator.nk /root/keys/nats.nk
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > /etc/weir/identity.secrets
cp /etc/weir/identity.secrets /etc/weir/agent
chmod 600 /etc/weir/aws.json /etc/weir/identity.secrets /etc/weir/agent/identity.secrets
chown weir: /etc/weir/aws.json /etc/weir/identity.secrets
chown weir-agent: /etc/weir/agent/identity.secrets`)
}

// weir runs a command of an operator on the host.
func (c *cluster) weir(args ...string) (string, error) {
	return c.try(slices.Concat([]string{"env"}, strings.Fields(operator), []string{"weir"}, args)...)
}

// prints waits until a command of an operator prints a text.
func (c *cluster) prints(want string, args ...string) {
	c.Helper()
	await.Nil(c, fmt.Sprintf("%q of weir %s", want, strings.Join(args, " ")), func() error {
		out, err := c.weir(args...)
		if !strings.Contains(out, want) {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// well waits until a unit runs again, and returns it.
func (c *cluster) well(name string, also func(unitState) bool) (u unitState) {
	c.Helper()
	await.Nil(c, "unit "+name, func() (err error) {
		if u, err = c.state(name); err == nil && (u.active != "active" || !also(u)) {
			err = fmt.Errorf("%+v\n%s", u, c.journal(name))
		}
		return err
	})
	return u
}

// instances returns the process ids of the application on the host.
func (c *cluster) instances() (pids []string) {
	c.Helper()
	lines, err := filepath.Glob(filepath.Join(c.root, "proc", "[0-9]*", "cmdline"))
	if err != nil {
		c.Fatal(err)
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path) // empty: the process has ended
		if string(line) == "sleep\x00100000\x00" {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// logMemory logs the proportional memory (PSS) of the processes of a unit, in MB, when all of them wait: package atrest
// returns memory to the kernel ten seconds after a start.
func (c *cluster) logMemory(name string) {
	c.Helper()
	await.Nil(c, "a unit at rest", func() error {
		out, err := c.try("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", "--value", name)
		if err != nil {
			return err
		}
		began, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil {
			return err
		}
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return err
		}
		if since := time.Duration(now.Nano()) - time.Duration(began)*time.Microsecond; since < 20*time.Second {
			return fmt.Errorf("it runs for %v", since)
		}
		return nil
	})
	c.Log(c.run("sh", "-ec", `for p in $(find /sys/fs/cgroup$(systemctl show --property=ControlGroup --value "$1") -name cgroup.procs -exec cat {} +); do
awk -v n="$(tr '\0' ' ' < /proc/$p/cmdline | cut -c1-40)" '$1 == "Pss:" || $1 == "Pss_Anon:" { v[$1] = $2 / 1024 }
END { printf "%-40s %5.1f MB, of it anonymous %4.1f\n", n, v["Pss:"], v["Pss_Anon:"] }' /proc/$p/smaps_rollup; done`, "sh", name))
}

// halfInstalled makes the package a half-installed one without its users. The unit fails with the status of docs/install.md,
// doctor names the user, and a second installation is whole.
func (c *cluster) halfInstalled() {
	c.Helper()
	c.run("sed", "-i", "/^weir:/d", "/etc/passwd")
	if out, err := c.try("systemctl", "start", "weir-harmonizer"); err == nil {
		c.Errorf("the unit starts without its user: %s", out)
	}
	if out := c.run("systemctl", "show", "--property=ExecMainStatus", "--value", "weir-harmonizer"); out != "217\n" {
		c.Errorf("the unit ends with status %q, want 217", out)
	}
	c.run("systemctl", "stop", "weir-harmonizer")
	if out, _ := c.weir("doctor"); !strings.Contains(out, "/etc/passwd has no user weir: the package is installed in part") {
		c.Errorf("weir doctor without the user prints\n%s", out)
	}
	c.run("dpkg", "--no-triggers", "--force-depends", "--install", "/opt/weir.deb")
	if out, _ := c.weir("doctor"); !strings.Contains(out, "ok       package: ") {
		c.Errorf("weir doctor after the second installation prints\n%s", out)
	}
}

// systemd starts each unit of the package, starts it again after a crash and when it hangs, and ends it. The application
// outlives its agent, and no daemon runs as root.
func TestUnitsRun(t *testing.T) {
	// A container has no right to mount, so systemd cannot run in it.
	if out, stderr, err := try(t, ".", nil, "unshare", "--mount", "--propagation", "private", "mount", "-t", "cgroup2", "none", t.TempDir()); err != nil {
		t.Logf("systemd cannot run here: %v\n%s%s", err, out, stderr)
		return
	}
	c := newCluster(t)
	c.halfInstalled()
	// Hangs are detected sooner than on a host of production.
	c.write("/etc/systemd/system/weir-.service.d/test.conf", "[Service]\nWatchdogSec=10s\nTimeoutAbortSec=1s\nRestartSec=1s\n")
	c.run("systemctl", "daemon-reload")
	for _, name := range daemons() {
		c.run("systemctl", "enable", "--now", name)
	}
	c.prints("shop: 2 instances", "app", "set", "shop", "--instances", "2", "--cpus", "0.1", "--mem", "16", "--command", "exec sleep 100000")
	c.prints("shop: 2 expected, 2 running", "app", "status", "shop")
	c.prints("target 1, joined 1, limits 1 to 3", "status")
	before := c.instances()
	if len(before) != 2 {
		t.Fatalf("instances %v, want 2", before)
	}
	whole := func(when string) {
		t.Helper()
		c.prints("shop: 2 expected, 2 running", "app", "status", "shop")
		c.prints(", target 1, ", "status")
		if now := c.instances(); !slices.Equal(now, before) {
			t.Errorf("after %s the instances are %v, want %v", when, now, before)
		}
	}

	c.write("/etc/weir/prod/web.yaml", strings.Replace(pool, "max_capacity: 3", "max_capacity: 2", 1))
	c.run("systemctl", "reload", "weir-bootstrap@prod-web")
	c.prints("limits 1 to 2", "status")

	for _, fault := range []string{"KILL", "STOP"} {
		units := map[string]unitState{}
		for _, name := range daemons() {
			u := c.well(name, func(unitState) bool { return true })
			status := c.run("cat", fmt.Sprintf("/proc/%d/status", u.pid))
			if !strings.Contains(status, "NoNewPrivs:\t1") || strings.Contains(status, "\nUid:\t0\t") {
				t.Errorf("%s runs with\n%s", name, status)
			}
			c.run("kill", "-"+fault, strconv.Itoa(u.pid))
			units[name] = u
		}
		for name, u := range units {
			c.well(name, func(now unitState) bool { return now.pid != u.pid && now.restarts > u.restarts })
		}
		whole("signal " + fault)
	}

	c.run("systemctl", "restart", "weir-agent")
	whole("a restart of the agent")
	await.Nil(t, "a notification", func() error {
		if c.notified.Load() == 0 {
			return errors.New("no request")
		}
		return nil
	})
	c.logMemory("weir-bootstrap@prod-web")
	for _, name := range daemons() {
		if name == "weir-bootstrap@prod-web" { // the last one: no other daemon shares the program's pages
			c.logMemory(name)
		}
		c.run("systemctl", "stop", name)
		if u, err := c.state(name); err != nil || u.active != "inactive" || u.result != "success" {
			t.Errorf("%s ends as %+v %v\n%s", name, u, err, c.journal(name))
		}
	}
	if now := c.instances(); !slices.Equal(now, before) {
		t.Errorf("after the end of the daemons the instances are %v, want %v", now, before)
	}
}
