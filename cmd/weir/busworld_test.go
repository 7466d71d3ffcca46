package main

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// Names and sizes of the world of a busWorld.
const (
	busCluster   = "prod"
	busPool      = "web"
	busProbePool = "probes" // a pool without daemons, whose role the probes have
	busNodes     = 3
	busInstances = 6 // of the application: half of the cpus of the nodes
)

// busPoolFile is the pool file. The default signal requests what the instances need, so the pool has busNodes machines.
const busPoolFile = `resource_groups: [{asg: {tag: "weir:pool"}}]
scaling_limits: {min_capacity: 1, max_capacity: 6, max_weight_to_add: 10, max_weight_to_remove: 10, max_tasks_to_kill: inf}
autoscaling: {tick: 1s}
autoscale_signals: [{app: shop, period: 1s, required_metrics: [{name: cpus_allocated, type: system_metrics, range: 1m}]}]
`

// busService is the service file without its section nats.
const busService = `aws: {region: %s, endpoint_url: "%s", access_key_file: %s}
autoscale_signal:
  name: default
  period: 1s
  required_metrics:
    - {name: cpus_allocated, type: system_metrics, range: %s}
autoscaling: {default_signal_role: weir, setpoint: 0.5, target_capacity_margin: 0}
`

// busWorld is a cluster of three NATS servers with all daemons of one pool: two hosts with bootstrap and autoscaler, two
// harmonizers, two placers, a metrics store, and an agent for each machine.
type busWorld struct {
	busUsers
	servers *bustest.Processes
	wires   []*bustest.Wire // to each server: the paths of the hosts
	cloud   *awsfake.Server
	daemons []*busDaemon
	started string // folder with a file for each instance that has started
	running int    // instances of all applications, as wanted
}

// busUsers are the users of a cluster of NATS servers: daemons, commands and connections of the test.
type busUsers struct {
	*testing.T
	nats   *bustest.Cluster
	viewer string // configuration folder of commands that only read
	paused []pause
}

// pause is a time in which processes were paused.
type pause struct{ from, to time.Time }

// busDaemon is one process.
type busDaemon struct {
	name string
	args []string
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	lines []string
}

// newBusWorld starts the world and waits until the application runs and the pool matches it.
func newBusWorld(t *testing.T) *busWorld {
	t.Helper()
	w := startBusWorld(t, busNodes)
	w.setApp("shop", busInstances, "1")
	eventually(t, "a pool that matches its application", w.settled)
	return w
}

// startBusWorld starts the world without an application, and with the agents of that many machines.
func startBusWorld(t *testing.T, agents int) *busWorld {
	t.Helper()
	installations.take(t)
	w := &busWorld{busUsers: busUsers{T: t}, started: t.TempDir()}
	endAllBelow(t, filepath.Dir(w.started))
	w.cloud = awstest.New(t, awsfake.Config{Start: time.Now(), Boot: time.Second, Leave: time.Second})
	w.cloud.AddGroup(awsfake.ASG{
		Name: busPool, Tags: map[string]string{"weir:pool": busCluster + "/" + busPool}, Min: 1, Max: 6, Desired: busNodes,
		Types: []awsfake.Type{{Name: "m5.xlarge"}}, // 4 cpus
	})
	w.every(200*time.Millisecond, func() { w.cloud.Advance(max(0, time.Since(w.cloud.Now()))) })
	nodes := w.nodes()
	w.servers = bustest.StartProcesses(t, false, natsconf.Cluster{
		Name: busCluster, Pools: []natsconf.Pool{{Name: busPool, Nodes: nodes}, {Name: busProbePool}},
	})
	w.nats = w.servers.Cluster
	w.createStreams()
	for i := range w.servers.Site.Servers {
		w.wires = append(w.wires, bustest.NewWire(t, strings.TrimPrefix(w.servers.URL(i), "tls://")))
	}
	w.viewer = w.folder(roles.User{Role: roles.Viewer, Cluster: busCluster}, w.urls(), "")
	metrics := w.folder(roles.User{Role: roles.Metrics, Cluster: busCluster}, w.urls(), "")
	w.start("metrics", metrics, "metrics", "serve", "--addr", "127.0.0.1:0")
	for i := range 2 {
		w.startHost(i)
	}
	for i := range 2 {
		dir := w.folder(roles.User{Role: roles.Harmonizer, Cluster: busCluster}, w.urls(), "")
		w.daemons = append(w.daemons, w.start(fmt.Sprint("harmonizer ", i), dir, "harmonizer"))
	}
	for _, node := range nodes[:agents] {
		w.startAgent(node)
	}
	for i := range 2 {
		dir := w.folder(roles.User{Role: roles.Placer, Cluster: busCluster, Pool: busPool}, w.urls(), "")
		w.daemons = append(w.daemons, w.start(fmt.Sprint("placer ", i), dir, "placer", busPool))
	}
	return w
}

// startAgent starts the agent of a machine.
func (w *busWorld) startAgent(node string) {
	w.Helper()
	dir := w.folder(roles.User{Role: roles.Agent, Cluster: busCluster, Pool: busPool, Node: node}, w.urls(), "")
	w.daemons = append(w.daemons, w.start("agent "+node, dir, "agent", "--pool", busPool, "--group", busPool, "--id", node, "--dir", w.TempDir(),
		"--cpus", "4", "--mem", "8192", "--disk", "10000"))
}

// setApp creates an application whose instances sleep.
func (w *busWorld) setApp(name string, instances int, cpus string) {
	w.Helper()
	w.command(w.operator(), "app", "set", name, "--instances", fmt.Sprint(instances), "--cpus", cpus, "--mem", "16",
		"--command", fmt.Sprintf("echo $$ >> %s/$$; exec sleep 100000", w.started))
	w.running += instances
}

// every calls do periodically until the test ends.
func (w *busUsers) every(d time.Duration, do func()) {
	var wg sync.WaitGroup
	w.Cleanup(wg.Wait) // after the end of w.Context()
	wg.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-w.Context().Done():
				return
			case <-tick.C:
				do()
			}
		}
	})
}

func (w *busUsers) urls() (all []string) {
	for i := range w.nats.Site.Servers {
		all = append(all, w.nats.URL(i))
	}
	return all
}

// createStreams creates all missing streams as an admin.
func (w *busWorld) createStreams() {
	w.Helper()
	admin := w.open(roles.User{Role: roles.Admin, Cluster: busCluster}, w.urls()...)
	defer admin.Close()
	bustest.Streams(w.T, admin.JetStream(), busCluster, 3, busPool, busProbePool)
}

// wired returns the near ends of the wires.
func (w *busWorld) wired() (all []string) {
	for _, one := range w.wires {
		all = append(all, "tls://"+one.Address())
	}
	return all
}

func (w *busWorld) nodes() (ids []string) {
	for _, i := range w.cloud.Instances(busPool) {
		ids = append(ids, i.ID)
	}
	return ids
}

// folder writes the configuration of a process with the credentials of a user.
func (w *busUsers) folder(u roles.User, servers []string, more string) string {
	w.Helper()
	dir := w.TempDir()
	seed, err := w.nats.Seed(w, u.Name()).Seed()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "user.nk"), seed, 0o600)
	}
	text := fmt.Sprintf("nats:\n  servers: [%s]\n  nkey_file: user.nk\n  tls: {ca_file: %s}\n%s", strings.Join(servers, ", "), w.nats.CAFile(), more)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(text), 0o600)
	}
	if err != nil {
		w.Fatal(err)
	}
	return dir
}

// startHost starts bootstrap with a configuration of its own.
func (w *busWorld) startHost(i int) {
	w.Helper()
	door := httptest.NewServer(w.cloud)
	w.Cleanup(door.Close)
	dir := w.poolFolder(busPool, busPoolFile, "1m", fmt.Sprint("AKID", i), w.cloud.Region(), door.URL, w.wired())
	w.daemons = append(w.daemons, w.start(fmt.Sprint("host ", i), dir, "bootstrap", "--pool", busPool))
}

// poolFolder writes the configuration of bootstrap for a pool, with the range of its metrics, and an access key of the
// provider at that address.
func (w *busUsers) poolFolder(pool, file, window, key, region, provider string, servers []string) string {
	w.Helper()
	keys := filepath.Join(w.TempDir(), "keys.json")
	dir := w.folder(roles.User{Role: roles.Pool, Cluster: busCluster, Pool: pool}, servers, fmt.Sprintf(busService, region, provider, keys, window))
	path := filepath.Join(dir, busCluster, pool+".yaml")
	if err := errors.Join(
		os.WriteFile(keys, fmt.Appendf(nil, `{"accessKeyId": %q, "secretAccessKey": "SECRET"}`, key), 0o600),
		os.Mkdir(filepath.Dir(path), 0o700),
		os.WriteFile(path, []byte(file), 0o600),
	); err != nil {
		w.Fatal(err)
	}
	return dir
}

// start starts a daemon, which ends with the test.
func (w *busWorld) start(name, config string, args ...string) *busDaemon {
	w.Helper()
	return w.startProcess(name, args, append(args, "--cluster", busCluster, "--data", w.TempDir(), "--config-dir", config))
}

// startProcess starts a daemon with this command line.
func (w *busWorld) startProcess(name string, args, line []string) *busDaemon {
	w.Helper()
	d := &busDaemon{name: name, args: args, done: make(chan struct{})}
	d.cmd = exec.Command(weirOf(w), line...)
	d.cmd.Env = append(os.Environ(), asWeir+"=1")
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	d.cmd.Stderr = d.cmd.Stdout
	if err := offspring.Start(d.cmd); err != nil {
		w.Fatal(err)
	}
	go func() {
		defer close(d.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			d.mu.Lock()
			d.lines = append(d.lines, time.Now().Format("05.000 ")+lines.Text())
			d.mu.Unlock()
		}
		_ = d.cmd.Wait() // its exit code does not count at the end of a test
	}()
	w.Cleanup(func() {
		_ = d.cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(20*time.Second, func() { _ = d.cmd.Process.Kill() })
		<-d.done
		late.Stop()
		if w.Failed() {
			w.Logf("%s:\n%s", d.name, strings.Join(d.log(), "\n"))
		}
	})
	return d
}

// log returns the last lines.
func (d *busDaemon) log() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines[max(0, len(d.lines)-120):])
}

// ended reports whether the process has ended.
func (d *busDaemon) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// open connects as a user to these servers, in this order.
func (w *busUsers) open(u roles.User, servers ...string) *bus.Bus {
	w.Helper()
	seed := filepath.Join(w.TempDir(), "user.nk")
	text, err := w.nats.Seed(w, u.Name()).Seed()
	if err == nil {
		err = os.WriteFile(seed, text, 0o600)
	}
	if err != nil {
		w.Fatal(err)
	}
	b, err := bus.Open(w.Context(), bus.Config{
		NATS: bus.NATS{Servers: servers, NKeyFile: seed, TLS: bus.TLS{CAFile: w.nats.CAFile()}},
		Name: w.Name(), InboxPrefix: u.InboxPrefix(), Log: quiet(),
		Login: func(o *nats.Options) error { o.NoRandomize = true; return nil },
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(b.Close)
	return b
}

// operator returns the configuration folder of an operator.
func (w *busUsers) operator() string {
	return w.folder(roles.User{Role: roles.Operator, Cluster: busCluster}, w.urls(), "")
}

// command runs a command, which succeeds in the end.
func (w *busUsers) command(config string, args ...string) (out string) {
	w.Helper()
	eventually(w, fmt.Sprintf("weir %q", args), func() error {
		r := w.run(config, args...)
		out = r.stdout
		if r.code != 0 {
			return errors.New(r.stderr)
		}
		return nil
	})
	return out
}

func (w *busUsers) run(config string, args ...string) result {
	return weir(append([]string{"--config-dir", config, "--cluster", busCluster, "--pool", busPool, "--data", w.viewer}, args...)...)
}

// settled reports whether the applications run as expected on a pool without a warning.
func (w *busWorld) settled() error {
	if n := len(w.instances()); n != w.running {
		return fmt.Errorf("%d instances have started, want %d", n, w.running)
	}
	r := w.run(w.viewer, "--timeout", "3s", "status")
	if line, _, _ := strings.Cut(r.stdout+r.stderr, "\n"); !asWanted(line) {
		return errors.New(line)
	}
	return nil
}

// instances returns the processes of the instances that have started, and whether each runs.
func (w *busWorld) instances() map[string]bool { return startedInstances(w.started) }

// startedInstances returns the instances of a folder with a file for each one, which has the name of its process. The shell of an
// instance writes the file before it becomes sleep.
func startedInstances(dir string) map[string]bool {
	found := map[string]bool{}
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		line, err := os.ReadFile(filepath.Join("/proc", f.Name(), "cmdline"))
		program, _, _ := strings.Cut(string(line), "\x00")
		found[f.Name()] = err == nil && slices.Contains([]string{"sleep", "sh"}, filepath.Base(program))
	}
	return found
}

// endBelow kills the processes that work in a folder or below it, and reports whether it found any.
func endBelow(dir string) (found bool) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is valid
	for _, link := range links {
		var pid int
		at, err := os.Readlink(link)
		if n, _ := fmt.Sscanf(link, "/proc/%d/cwd", &pid); err == nil && n == 1 && strings.HasPrefix(at, dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			found = true
		}
	}
	return found
}

// quiet drops log lines.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
