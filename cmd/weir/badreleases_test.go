package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// siteFile is the pool file of a world of websites: eight machines, so that the instances of a website stand apart.
const siteFile = `resource_groups:
  - local: {name: blue, min: 4, max: 4, machine: {cpus: 4, mem: 8192}}
  - local: {name: green, min: 4, max: 4, machine: {cpus: 4, mem: 8192}}
scaling_limits: {min_capacity: 8, max_capacity: 8, max_weight_to_add: 8, max_weight_to_remove: 8, max_tasks_to_kill: inf}
autoscaling: {tick: 2s}
draining: {draining_time_threshold_seconds: 300}
autoscale_signals:
  - app: apps
    namespace: weir
    name: instance_count
    version: v1.0.0
    period: 2s
    required_metrics:
      - {name: cpus_expected, type: instance_counts, range: 1m, max_age: 20s}
`

// siteSize is the size of a world of websites.
type siteSize struct {
	websites int
	length   time.Duration // of releases and faults
	ready    time.Duration // an instance is ready when it is that old
	within   time.Duration // a version must be ready
	crash    time.Duration // the latest crash of a bad version; the earliest is a twelfth
	release  time.Duration // time between two releases
	fault    time.Duration // time between a fault and the next
	cut      time.Duration // how long a node is cut off
}

// sizeOfSites returns the size that RELEASES requests: a duration such as 20m. Without it, the world is small.
func sizeOfSites(t *testing.T) siteSize {
	text := os.Getenv("RELEASES")
	if text == "" {
		return siteSize{websites: 4, length: 30 * time.Second, ready: 5 * time.Second, within: 10 * time.Second, crash: 4 * time.Second,
			release: 2 * time.Second, fault: 8 * time.Second, cut: 12 * time.Second}
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("RELEASES is %q: want a duration such as 20m", text)
	}
	return siteSize{websites: 40, length: length, ready: 65 * time.Second, within: 90 * time.Second, crash: 60 * time.Second,
		release: 5 * time.Second, fault: 45 * time.Second, cut: 40 * time.Second}
}

// TestBadReleases releases versions of websites of two instances on a running "weir up". Most of them crash at once, crash
// later, or are never ready. Meanwhile nodes are killed, drained and cut off. A client requests each website twice a
// second: each request has a response.
func TestBadReleases(t *testing.T) {
	t.Parallel()
	w := newSites(t, sizeOfSites(t))
	done := make(chan struct{})
	var parts sync.WaitGroup
	parts.Go(func() { w.every(done, w.size.release, w.release) })
	parts.Go(func() { w.every(done, w.size.fault, w.fault) })
	time.AfterFunc(w.size.length, func() { close(done) })
	parts.Wait()
	w.settled("")
	w.conclude()
}

// TestDamagedRows damages the row of each website on a running "weir up", and sets it again. Then the bucket of the
// rows is lost. No instance ends.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	size := sizeOfSites(t)
	size.ready = time.Second
	w := newSites(t, size)
	before := w.instances()
	b := joinAs(t, w.u.data, roles.User{Role: roles.Operator})
	rows := kvbucket.New(b.JetStream(), names.AppsBucket("local"))
	for i, name := range w.names() {
		row, err := rows.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		damage := [][]byte{[]byte("{"), bytes.Repeat([]byte(" "), 70<<10), bytes.Replace(row.Value, []byte(name), []byte("other"), 1), nil}[i%4]
		if _, err := rows.Put(t.Context(), name, damage); err != nil {
			t.Fatal(err)
		}
		w.happened("damaged", "%s: %.20q", name, damage)
	}
	w.unchanged(before, "damaged rows")
	for _, name := range w.names() {
		w.set(name, "good")
	}
	w.settled("v2")
	before = w.instances()
	admin := joinAs(t, w.u.data, roles.User{Role: roles.Admin}).JetStream()
	stream, err := admin.Stream(t.Context(), "KV_"+names.AppsBucket("local"))
	if err == nil {
		err = admin.DeleteStream(t.Context(), stream.CachedInfo().Config.Name)
	}
	if err == nil {
		_, err = admin.CreateStream(t.Context(), stream.CachedInfo().Config)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.unchanged(before, "an empty bucket")
	w.conclude()
}

// instances returns the instances of all websites that respond.
func (w *sites) instances() []string {
	files, _ := filepath.Glob(filepath.Join(w.folder, "*", "*"))
	return slices.DeleteFunc(files, func(path string) bool {
		_, err := get(path)
		return err != nil
	})
}

// unchanged checks for 15 ticks of the pool that the same instances respond.
func (w *sites) unchanged(before []string, what string) {
	w.Helper()
	ticks := 0
	var last time.Time
	w.u.pool(w.T, "15 ticks with "+what, func(s api.PoolStatus) error {
		if at := s.LastTick.At; at.After(last) {
			last = at
			ticks++
		}
		if now := w.instances(); !slices.Equal(now, before) {
			w.Fatalf("with %s, %d instances are %d", what, len(before), len(now))
		}
		if ticks < 15 {
			return fmt.Errorf("%d ticks", ticks)
		}
		return nil
	})
}

// sites is a "weir up" with websites.
type sites struct {
	*testing.T
	size    siteSize
	u       *upProcess
	program string
	folder  string // where instances announce their ports

	mu       sync.Mutex
	luck     *rand.Rand
	said     []string // what happened
	versions map[string]int
	good     map[string]bool // the version serves
	count    map[string]int  // of releases and faults, by kind
	stopped  chan struct{}
	clients  sync.WaitGroup

	requests atomic.Int64
	failures atomic.Int64
}

func newSites(t *testing.T, size siteSize) *sites {
	t.Helper()
	program, err := testprograms.Own(t.Context(), t.TempDir(), "cmd/weir/testdata/website")
	if err != nil {
		t.Fatal(err)
	}
	pool := filepath.Join(t.TempDir(), "pool.yaml")
	if err := os.WriteFile(pool, []byte(siteFile), 0o644); err != nil {
		t.Fatal(err)
	}
	w := &sites{T: t, size: size, program: program, folder: t.TempDir(), luck: rand.New(rand.NewPCG(1, 2)),
		versions: map[string]int{}, good: map[string]bool{}, count: map[string]int{}, stopped: make(chan struct{})}
	w.u = startUp(t, t.TempDir(), "--pool-file", pool)
	for _, name := range w.names() {
		w.set(name, "good")
	}
	for _, name := range w.names() {
		eventually(t, "the instances of "+name, func() error { return w.serving(name) })
	}
	for _, name := range w.names() {
		w.clients.Go(func() { w.every(w.stopped, 500*time.Millisecond, func() { w.request(name) }) })
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		t.Log(w.history())
		for _, name := range w.names() {
			if len(w.responses(name, 10)) != 2 {
				t.Log(w.u.run("app", "explain", name).stdout)
			}
		}
	})
	return w
}

func (w *sites) names() (names []string) {
	for i := range w.size.websites {
		names = append(names, fmt.Sprint("site", i))
	}
	return names
}

// every calls do at that interval until done is closed.
func (w *sites) every(done <-chan struct{}, interval time.Duration, do func()) {
	next := time.NewTicker(interval)
	defer next.Stop()
	for {
		select {
		case <-done:
			return
		case <-next.C:
			do()
		}
	}
}

// happened records a line of what happened.
func (w *sites) happened(kind, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[kind]++
	w.said = append(w.said, time.Now().Format("15:04:05.000 ")+kind+": "+fmt.Sprintf(format, args...))
}

func (w *sites) history() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.said, "\n")
}

// chance returns a number below n.
func (w *sites) chance(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.luck.IntN(n)
}

// release releases a version of some website: in one of four cases a good one.
func (w *sites) release() {
	name := fmt.Sprint("site", w.chance(w.size.websites))
	w.set(name, []string{"good", "crashes at once", "crashes later", "is never ready"}[w.chance(4)])
}

func (w *sites) set(name, kind string) {
	w.mu.Lock()
	w.versions[name]++
	version := fmt.Sprint("v", w.versions[name])
	w.mu.Unlock()
	run := fmt.Sprintf("exec %s -folder %s -version %s", w.program, w.folder, version)
	switch kind {
	case "crashes at once":
		run = "echo " + version + "; exit 3"
	case "crashes later":
		first := w.size.crash / 12
		run += " -crash " + (first + time.Duration(w.chance(int((w.size.crash-first)/time.Millisecond)))*time.Millisecond).String()
	case "is never ready":
		run += " -unready"
	}
	r := w.u.run("app", "set", name, "--instances", "2", "--cpus", "0.1", "--mem", "16", "--command", run, "--port", "web=auto", "--ready-http", "web/",
		"--ready-after", w.size.ready.String(), "--ready-within", w.size.within.String())
	if r.code != 0 {
		w.Errorf("weir app set %s: %s", name, r.stderr)
	}
	w.happened(kind, "%s of %s", version, name)
}

// fault kills, drains or cuts off a node, when each website is served by two instances.
func (w *sites) fault() {
	for _, name := range w.names() {
		if w.serving(name) != nil {
			return
		}
	}
	var agents []process
	for _, p := range processesWith(w.u.data) {
		if p.role() == "agent" {
			agents = append(agents, p)
		}
	}
	if len(agents) == 0 {
		return
	}
	p := agents[w.chance(len(agents))]
	node := nodeOf(p)
	switch w.chance(3) {
	case 0:
		w.happened("killed", "%s", node)
		for _, q := range w.family(p.id) {
			syscall.Kill(number(q), syscall.SIGKILL)
		}
	case 1:
		r := w.u.run("pool", "drain", node, "--why", "a test")
		w.happened("drained", "%s %s", node, r.stderr)
	default:
		w.happened("cut off", "%s", node)
		syscall.Kill(number(p.id), syscall.SIGSTOP)
		<-time.After(w.size.cut)
		syscall.Kill(number(p.id), syscall.SIGCONT)
		w.happened("back", "%s", node)
	}
}

// nodeOf returns the node of the process of an agent.
func nodeOf(p process) string {
	for _, arg := range p.args {
		if id, found := strings.CutPrefix(arg, "--id="); found {
			return id
		}
	}
	return ""
}

// family returns a process and all that it has started.
func (w *sites) family(id string) []string {
	all := []string{id}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for i := 0; i < len(all); i++ {
		for _, path := range stats {
			text, _ := os.ReadFile(path)
			if _, rest, ok := strings.Cut(string(text), ") "); ok && strings.Fields(rest)[1] == all[i] {
				all = append(all, filepath.Base(filepath.Dir(path)))
			}
		}
	}
	return all
}

// serving returns an error unless two instances of a website respond as ready ones.
func (w *sites) serving(name string) error {
	if n := len(w.responses(name, 2)); n < 2 {
		return fmt.Errorf("%d instances of %s respond", n, name)
	}
	return nil
}

// responses returns the versions that instances of a website respond with, at most n.
func (w *sites) responses(name string, n int) (versions []string) {
	files, _ := filepath.Glob(filepath.Join(w.folder, name, "*"))
	for _, path := range files {
		if len(versions) == n {
			break
		}
		if version, err := get(path); err == nil {
			versions = append(versions, version)
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(path) // its machine was killed
		}
	}
	return versions
}

// siteClient connects anew each time, as different users do.
var siteClient = http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// get returns the version that an instance responds with. The path is its file.
func get(path string) (string, error) {
	address, err := os.ReadFile(path)
	if err != nil {
		return "", err // it has ended
	}
	answer, err := siteClient.Get("http://" + string(address) + "/")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if other := answer.Header.Get("Server"); err == nil && !strings.HasSuffix(path, "/"+other) {
		err = fmt.Errorf("%s has the port of %s now", other, path)
	}
	return string(body), err
}

// request is a request of a user, which any instance answers.
func (w *sites) request(name string) {
	w.requests.Add(1)
	if w.responses(name, 1) == nil {
		w.failures.Add(1)
		w.happened("no response", "%s", name)
	}
}

// settled waits until each website is served by two instances of that version, or of some version if it is empty, and no instance
// beside them.
func (w *sites) settled(version string) {
	w.Helper()
	for _, name := range w.names() {
		eventually(w.T, "one version of "+name, func() error {
			versions := w.responses(name, 10)
			if len(versions) != 2 || versions[0] != versions[1] || version != "" && versions[0] != version {
				return fmt.Errorf("%v respond", versions)
			}
			return nil
		})
	}
}

// conclude ends the clients, and judges their observations.
func (w *sites) conclude() {
	close(w.stopped)
	w.clients.Wait()
	w.mu.Lock()
	var counts []string
	for kind, n := range w.count {
		counts = append(counts, fmt.Sprintf("%s %d", kind, n))
	}
	w.mu.Unlock()
	slices.Sort(counts)
	w.Logf("%d requests, %d without a response; %s", w.requests.Load(), w.failures.Load(), strings.Join(counts, ", "))
	if w.failures.Load() > 0 {
		w.Errorf("%d of %d requests had no response", w.failures.Load(), w.requests.Load())
	}
}
