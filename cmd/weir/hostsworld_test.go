package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// Addresses of a hostsWorld.
const (
	hostsBridge   = "hosts0"
	hostsProvider = "10.77.0.1" // of the test's namespace: the provider, the agents and the commands
	hostsAddress  = "10.77.0.1%d"
)

// hostsRestart is the pause of a service manager before it starts an ended process again.
const hostsRestart = time.Second

// hostsPoolFile is the pool file: the default signal requests the resources of the instances. The first machines stay
// although the pool starts without an application.
const hostsPoolFile = `resource_groups: [{asg: {tag: "weir:pool"}}]
scaling_limits: {min_capacity: %d, max_capacity: 40, max_weight_to_add: 10, max_weight_to_remove: 10, max_tasks_to_kill: inf}
autoscaling: {tick: 1s, lease: 10s}
`

// hostsSize is the size of a hostsWorld.
type hostsSize struct {
	nodes, instances int // of each pool
	length           time.Duration
	pause            time.Duration // between two faults, at most
	hold             time.Duration // of a fault of a host, at most
	recovery         time.Duration // after the last fault, at most
}

// hostsWorld is a cluster on three hosts, each a network namespace. Every host has a NATS server. Hosts 1 and 2 have
// bootstrap and a placer of each pool, and a harmonizer. Host 3 has the metrics store. The agents are beside the hosts,
// in the namespace of the test, as the machines of the pools: no fault of a host stops an app instance. A machine that
// starts later has no agent: it only shows that the provider obeys the pool.
type hostsWorld struct {
	busUsers
	hostsSize
	random   *rand.Rand
	cloud    *awsfake.Server
	hosts    []*netHost
	agents   []*unit
	units    []*unit
	running  sync.WaitGroup // of units
	started  string         // folder with a file for each instance that has started
	bucket   string         // section aws of weir.yaml, for the releases of applications; the bucket is on no host
	first    []string       // machines at the start
	added    int            // machines of each pool by the order in force
	ordered  bool           // an order is in force
	apps     map[string]int // expected instances
	releases int            // published
	ran      map[string]bool
}

func hostsPools() []string { return []string{"web", "batch"} }

// newHostsWorld starts the world and waits until everything runs.
func newHostsWorld(t *testing.T, size hostsSize, seed uint64) *hostsWorld {
	installations.take(t)
	t.Helper()
	w := &hostsWorld{
		busUsers: busUsers{T: t}, hostsSize: size, random: rand.New(rand.NewPCG(seed, 0)), started: t.TempDir(),
		apps: map[string]int{}, ran: map[string]bool{},
	}
	endAllBelow(t, filepath.Dir(w.started))
	t.Cleanup(w.end)
	if err := ip(nil, "link add "+hostsBridge+" type bridge", "addr add "+hostsProvider+"/24 dev "+hostsBridge, "link set "+hostsBridge+" up", "link set lo up"); err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for i := range 3 {
		w.hosts = append(w.hosts, w.newHost(i+1))
		addresses = append(addresses, w.hosts[i].address)
	}
	w.cloud = awstest.New(t, awsfake.Config{Start: time.Now(), Boot: 3 * time.Second, Leave: time.Second})
	w.every(100*time.Millisecond, func() { w.cloud.Advance(max(0, time.Since(w.cloud.Now()))) })
	var cluster natsconf.Cluster
	cluster.Name = busCluster
	for _, pool := range hostsPools() {
		w.cloud.AddGroup(awsfake.ASG{
			Name: pool, Tags: map[string]string{"weir:pool": busCluster + "/" + pool}, Min: 1, Max: 40, Desired: size.nodes,
			Types: []awsfake.Type{{Name: "m5.xlarge"}}, // 4 cpus
		})
		cluster.Pools = append(cluster.Pools, natsconf.Pool{Name: pool, Nodes: w.machines(pool)})
		w.first = append(w.first, w.machines(pool)...)
	}
	w.nats = bustest.Configure(t, addresses, cluster)
	w.viewer = w.folder(roles.User{Role: roles.Viewer, Cluster: busCluster}, w.urls(), "")
	w.startBucket()
	w.startAll()
	w.command(w.folder(roles.User{Role: roles.Admin, Cluster: busCluster}, w.urls(), ""), "nats", "streams", "--cluster", busCluster, "--pool", strings.Join(hostsPools(), ","))
	for _, pool := range hostsPools() {
		// The instances use half of the machines, and a little less for the small applications of the orders.
		w.setApp("app-"+pool, pool, size.instances, (2*float64(size.nodes)-0.5)/float64(size.instances), "")
	}
	eventually(t, "a world as wanted", w.asWanted)
	w.every(500*time.Millisecond, w.watch)
	return w
}

// startBucket starts the bucket of releases.
func (w *hostsWorld) startBucket() {
	w.Helper()
	keys := filepath.Join(w.TempDir(), "keys.json")
	if err := os.WriteFile(keys, fmt.Appendf(nil, `{"accessKeyId": %q, "secretAccessKey": %q}`, s3test.AccessKey, s3test.SecretKey), 0o600); err != nil {
		w.Fatal(err)
	}
	w.bucket = fmt.Sprintf("aws: {region: us-east-1, endpoint_url: %q, path_style: true, access_key_file: %s, signals_bucket: releases}\n",
		s3test.Serve(w, "releases").Endpoint, keys)
}

// startAll starts every process.
func (w *hostsWorld) startAll() {
	w.Helper()
	door := httptest.NewUnstartedServer(w.cloud)
	listener, err := net.Listen("tcp", hostsProvider+":0")
	if err != nil {
		w.Fatal(err)
	}
	door.Listener.Close()
	door.Listener = listener
	door.Start()
	w.Cleanup(door.Close)
	for i, h := range w.hosts {
		w.keep(&unit{name: h.name + " nats", host: h, command: func() *exec.Cmd { return w.nats.Command(w, i, 0) }})
	}
	metrics := w.folder(roles.User{Role: roles.Metrics, Cluster: busCluster}, w.urls(), "")
	w.daemon(w.hosts[2], "metrics", metrics, "metrics", "serve", "--addr", "127.0.0.1:0")
	for i, h := range w.hosts[:2] {
		w.daemon(h, "harmonizer", w.folder(roles.User{Role: roles.Harmonizer, Cluster: busCluster}, w.urls(), ""), "harmonizer")
		for _, pool := range hostsPools() {
			file := w.poolFolder(pool, fmt.Sprintf(hostsPoolFile, w.nodes), "10s", keyOf(pool)+fmt.Sprint(i+1), w.cloud.Region(), door.URL, w.urls())
			w.daemon(h, "bootstrap "+pool, file, "bootstrap", "--pool", pool)
			w.daemon(h, "placer "+pool, w.folder(roles.User{Role: roles.Placer, Cluster: busCluster, Pool: pool}, w.urls(), ""), "placer", pool)
		}
	}
	for _, pool := range hostsPools() {
		for _, node := range w.machines(pool) {
			dir := w.folder(roles.User{Role: roles.Agent, Cluster: busCluster, Pool: pool, Node: node}, w.urls(), w.bucket)
			w.agents = append(w.agents, w.daemon(nil, "agent "+node, dir, "agent", "--pool", pool, "--group", pool, "--id", node, "--dir", w.TempDir(),
				"--cpus", "4", "--mem", "8192", "--disk", "10000"))
		}
	}
}

// keyOf returns the access key of a pool at the provider, without the number of the host.
func keyOf(pool string) string { return "AKID" + strings.ToUpper(pool) }

// machines returns the machines of a pool that are not terminated.
func (w *hostsWorld) machines(pool string) (ids []string) {
	for _, i := range w.cloud.Instances(pool) {
		ids = append(ids, i.ID)
	}
	return ids
}

// setApp orders an application, whose instances report their start with a file. Its program is in a release, if one is named.
func (w *hostsWorld) setApp(name, pool string, instances int, cpus float64, release string) {
	w.Helper()
	line := []string{"app", "set", name, "--pool", pool, "--instances", fmt.Sprint(instances), "--cpus", fmt.Sprintf("%.4f", cpus), "--mem", "1"}
	if release != "" {
		line = append(line, "--release", release, "--command", "exec $WEIR_RELEASE_DIR/run")
	} else {
		line = append(line, "--command", w.program())
	}
	w.command(w.operator(), line...)
	w.apps[name] = instances
}

// program is a shell program that reports its start and runs.
func (w *hostsWorld) program() string {
	return fmt.Sprintf("echo $$ >> %s/$$; exec sleep 100000", w.started)
}

// publish publishes a release with a program of its own, and returns its name.
func (w *hostsWorld) publish() string {
	w.Helper()
	w.releases++
	version, file := fmt.Sprintf("shop/run@v1.0.%d", w.releases), filepath.Join(w.TempDir(), "run")
	if err := os.WriteFile(file, fmt.Appendf(nil, "#!/bin/sh\n# %s\n%s\n", version, w.program()), 0o700); err != nil {
		w.Fatal(err)
	}
	w.command(w.folder(roles.User{Role: roles.Operator, Cluster: busCluster}, w.urls(), w.bucket), "release", "publish", version, file)
	return version
}

// unit is a process that a service manager keeps running.
type unit struct {
	name    string
	host    *netHost // nil: the namespace of the test
	command func() *exec.Cmd
	pid     atomic.Int64 // of the last start
	log     string
}

// daemon keeps a daemon running on a host.
func (w *hostsWorld) daemon(h *netHost, name, config string, args ...string) *unit {
	w.Helper()
	line := append(args, "--cluster", busCluster, "--data", w.TempDir(), "--config-dir", config)
	u := &unit{name: name, host: h, command: func() *exec.Cmd {
		cmd := exec.Command(weirOf(w), line...)
		cmd.Env = append(os.Environ(), asWeir+"=1")
		return cmd
	}}
	if h != nil {
		u.name = h.name + " " + name
	}
	w.keep(u)
	return u
}

// keep starts a process, and starts it again when it has ended, until the test ends.
func (w *hostsWorld) keep(u *unit) {
	w.Helper()
	dir := w.TempDir() // where all its processes are: end kills them
	u.log = filepath.Join(dir, "log")
	log, err := os.Create(u.log)
	if err != nil {
		w.Fatal(err)
	}
	w.units = append(w.units, u)
	w.running.Go(func() {
		defer log.Close()
		for w.Context().Err() == nil {
			cmd := u.command()
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
			err := u.run(w.Context(), cmd)
			fmt.Fprintf(log, "%s %s ended: %v\n", time.Now().Format(time.TimeOnly), u.name, err)
			select {
			case <-w.Context().Done():
			case <-time.After(hostsRestart):
			}
		}
	})
}

// run runs the process until it ends, or until ctx ends. A host without power starts nothing.
func (u *unit) run(ctx context.Context, cmd *exec.Cmd) error {
	stdin, err := cmd.StdinPipe() // a NATS server ends with it
	if err != nil {
		return err
	}
	defer stdin.Close()
	if u.host == nil {
		err = offspring.Start(cmd)
	} else {
		u.host.power.Lock()
		err = u.host.inside(cmd.Start)
		u.host.power.Unlock()
	}
	if err != nil {
		return err
	}
	u.pid.Store(int64(cmd.Process.Pid))
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	return cmd.Wait()
}

// end waits for the end of the units, and shows their logs. It runs after the end of w.Context().
func (w *hostsWorld) end() {
	w.running.Wait()
	for _, u := range w.units {
		if w.Failed() {
			text, err := os.ReadFile(u.log)
			lines := strings.Split(string(text), "\n")
			w.Logf("%s, %v:\n%s", u.name, err, strings.Join(lines[max(0, len(lines)-80):], "\n"))
		}
	}
}

// watch checks that no instance that ran has ended. It is called periodically.
func (w *hostsWorld) watch() {
	for pid, runs := range startedInstances(w.started) {
		if w.ran[pid] && !runs {
			w.Errorf("%v: the instance with process %s has ended", time.Now().Format(time.TimeOnly), pid)
		}
		w.ran[pid] = runs
	}
}

// removeByHand removes the machines without an agent that their pools report as silent, as docs/operating.md tells an operator to. Such a machine has
// started while its pool could not be read, so it may have joined.
func (w *hostsWorld) removeByHand() {
	for _, pool := range hostsPools() {
		out := w.run(w.viewer, "--timeout", "3s", "status", "--pool", pool).stdout
		for _, id := range w.machines(pool) {
			if !slices.Contains(w.first, id) && strings.Contains(out, "! node "+id+" was silent at the last tick") {
				w.Logf("%v: machine %s is silent: removed by hand", time.Now().Format(time.TimeOnly), id)
				w.cloud.Lose(id)
			}
		}
	}
}

// asWanted reports whether each application runs with its count, and each pool has its target and no warning.
func (w *hostsWorld) asWanted() error {
	running, expected := 0, 0
	for _, runs := range startedInstances(w.started) {
		if runs {
			running++
		}
	}
	for _, n := range w.apps {
		expected += n
	}
	if running != expected {
		return fmt.Errorf("%d instances run, want %d", running, expected)
	}
	for _, pool := range hostsPools() {
		r := w.run(w.viewer, "--timeout", "3s", "status", "--pool", pool)
		out := r.stdout + r.stderr
		if w.ordered { // the first line is the order
			line, rest, _ := strings.Cut(out, "\n")
			if !strings.HasPrefix(line, fmt.Sprintf("! the target is pinned at %d,", w.nodes+w.added)) {
				return fmt.Errorf("the order of pool %s is lost: %s", pool, line)
			}
			out = rest
		}
		if line, _, _ := strings.Cut(out, "\n"); !asWanted(line) {
			return errors.New(line)
		}
		if n := len(w.machines(pool)); n != w.nodes+w.added {
			return fmt.Errorf("pool %s has %d machines, want %d", pool, n, w.nodes+w.added)
		}
	}
	r := w.run(w.viewer, "--timeout", "3s", "app", "list", "--output", "name")
	for name := range w.apps {
		if !slices.Contains(strings.Fields(r.stdout), name) {
			return fmt.Errorf("application %s is missing: %s", name, r.stdout+r.stderr)
		}
	}
	return nil
}

// netHost is a network namespace with one link to the bridge of the test's namespace.
type netHost struct {
	name, address string
	namespace     *os.File
	power         sync.Mutex // locked while the host starts nothing
}

// newHost creates a host.
func (w *hostsWorld) newHost(number int) *netHost {
	w.Helper()
	h := &netHost{name: fmt.Sprint("host", number), address: fmt.Sprintf(hostsAddress, number)}
	err := inNetwork(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() (err error) {
		h.namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		w.Fatalf("create a network namespace: %v", err)
	}
	w.Cleanup(func() { h.namespace.Close() })
	err = ip(h.namespace, "link add "+h.name+" type veth peer name eth0 netns /proc/self/fd/3", "link set "+h.name+" master "+hostsBridge+" up")
	if err == nil {
		err = h.inside(func() error {
			return ip(nil, "addr add "+h.address+"/24 dev eth0", "link set eth0 up", "link set lo up")
		})
	}
	if err != nil {
		w.Fatal(err)
	}
	return h
}

// inNetwork calls do in a thread that has joined another network namespace. The thread returns afterwards, or ends.
func inNetwork(join, do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err == nil {
			defer home.Close()
			if err = join(); err == nil {
				err = do()
			}
			if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}
		result <- err
	}()
	return <-result
}

// inside calls do in the namespace of the host.
func (h *netHost) inside(do func() error) error {
	return inNetwork(func() error { return unix.Setns(int(h.namespace.Fd()), unix.CLONE_NEWNET) }, do)
}

// ip runs lines of the command ip. In them, /proc/self/fd/3 is the given namespace.
func ip(namespace *os.File, lines ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if namespace != nil {
		cmd.ExtraFiles = []*os.File{namespace}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("configure the network with the command ip, of the package iproute2: %q: %w\n%s", lines, err, out)
	}
	return nil
}

// link sets the link of the host up or down. The processes of the host detect no change.
func (h *netHost) link(state string) error {
	return ip(nil, "link set "+h.name+" "+state)
}

// processes returns the processes of the host, also those that its daemons have started.
func (h *netHost) processes() (pids []int) {
	own, err := h.namespace.Stat()
	links, _ := filepath.Glob("/proc/[0-9]*/ns/net") // the pattern is valid
	for _, link := range links {
		var pid int
		one, errStat := os.Stat(link)
		if n, _ := fmt.Sscanf(link, "/proc/%d/ns/net", &pid); err == nil && errStat == nil && n == 1 && os.SameFile(own, one) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal to all processes of the host, and returns how many it has.
func (h *netHost) signal(s syscall.Signal) int {
	pids := h.processes()
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
	return len(pids)
}
