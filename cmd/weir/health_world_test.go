package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/resource"
)

// wardFile is the pool file of a ward. No signal requests more than its minimum.
const wardFile = `resource_groups:
  - local: {name: blue, min: 0, max: 10, machine: {cpus: 1, mem: 64}}
  - local: {name: green, min: 0, max: 10, machine: {cpus: 1, mem: 64}}
scaling_limits: {min_capacity: 1, max_capacity: 20, max_weight_to_add: 10, max_weight_to_remove: 10, max_tasks_to_kill: inf}
autoscaling: {tick: 400ms, lease: %v}
draining: {draining_time_threshold_seconds: 60}
health:
  mode: act
  detection:
    interval: 5
    node_update_timeout: 0
    node_startup_timeout: 20
    detection_modes:
      - {type: AGENT_HEARTBEAT, options: {expected_interval: 1, miss: 3, failure_threshold: 1, success_threshold: 1}}
      - {type: NODE_STATUS_POLLING, options: {failure_threshold: 1, success_threshold: 1}}
      - {type: LIFECYCLE_EVENTS}
  recovery: {actions: [%s], verify: {healthy_for: 2}%s}
  safety: {rate: {per_hour: 3600, burst: 100}, backoff: {initial: 1, max: 1}, max_attempts: 100, trip_reset: {for: 4}}
`

// ward is a pool of local machines with node health in mode act: NATS and the owner of the
// machines in the process of the test, agents and autoscaler as processes of their own.
type ward struct {
	*twins  // what is typed, and the ticks
	nats    *convergeBus
	machine string // folder of the machines
	holder  *twin  // the autoscaler
	pool    *local.Pool

	mu      sync.Mutex
	history []happening
	boots   map[string]string // of the machines with a heartbeat
}

// happening is one line of what happened to the machines.
type happening struct {
	at             time.Time
	what           string // of the owner's log, "first heard", or the name of a finding
	node           string
	shownElsewhere api.HealthNotification // of a finding
}

// wardOptions are what wards differ in.
type wardOptions struct {
	actions string              // of the policy
	policy  func(string) string // changes the pool file; may be nil
	lease   time.Duration       // default 15 s, which is the product's
	each    int                 // machines of each group
}

// newWard starts a pool, and waits until all of it is known to be well.
func newWard(t *testing.T, o wardOptions) *ward {
	t.Helper()
	w := newEmptyWard(t, o)
	w.holder = w.newAutoscaler("A", strings.TrimPrefix(w.nats.server.ClientURL(), "nats://"), o)
	w.holder.start()
	w.isWell("at first", 2*o.each)
	return w
}

// newEmptyWard starts all but the autoscaler.
func newEmptyWard(t *testing.T, o wardOptions) *ward {
	t.Helper()
	installations.take(t)
	bus := startConvergeBus(t)
	createStreams(t, bus.server.ClientURL(), "ward", "default")
	w := &ward{nats: bus, machine: filepath.Join(t.TempDir(), "local"), boots: map[string]string{}}
	w.twins = &twins{T: t, cluster: "ward", bus: bus.server.ClientURL()}
	w.nc = bustest.Connect(t, w.bus)
	w.pool = local.NewPool(w.nc, w.cluster, "default", "blue", "green")
	w.listen()
	w.own(o.each)
	return w
}

// listen notes the messages of nodes and of node health.
func (w *ward) listen() {
	w.Helper()
	for subject, handle := range map[string]nats.MsgHandler{
		message.FactsSubject(w.cluster, message.Node{Pool: "*", Name: "*"}): func(m *nats.Msg) {
			var f api.NodeFacts
			if err := json.Unmarshal(m.Data, &f); err != nil {
				w.Errorf("facts: %v", err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.boots[f.ID] == "" {
				w.history = append(w.history, happening{at: time.Now(), what: "first heard", node: f.ID})
			}
			w.boots[f.ID] = f.BootID
		},
		events.EventsSubject(w.cluster, "default"): func(m *nats.Msg) {
			var shownElsewhere []api.HealthNotification
			if err := json.Unmarshal(m.Data, &shownElsewhere); err != nil {
				w.Errorf("findings: %v", err)
			}
			for _, f := range shownElsewhere {
				w.note(happening{what: string(f.Event), node: f.Node, shownElsewhere: f})
			}
		},
	} {
		bustest.Subscribe(w, w.nc, subject, handle)
	}
}

func (w *ward) note(h happening) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.at = time.Now()
	w.history = append(w.history, h)
}

// own runs the owner of the machines until the test ends. Each group is a zone.
func (w *ward) own(each int) {
	w.Helper()
	self := weirOf(w)
	log := slog.New(slog.NewTextHandler(bookkeeper{w}, nil))
	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: []string{self, "keep"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.Fatal(err)
	}
	c := local.Config{
		Cluster: w.cluster, Pool: "default", Heartbeat: time.Second, StopGrace: time.Second, DataDir: w.machine,
		Argv: []string{self, "agent", "--data", w.TempDir(), "--log-level", "warn"},
		Env:  append(os.Environ(), asWeir+"=1", "WEIR_NATS="+w.bus),
	}
	for _, zone := range []string{"blue", "green"} {
		c.Groups = append(c.Groups, local.GroupConfig{
			ID: zone, Max: 10, Target: each, Resources: resource.Vector{resource.CPUs: 1, resource.Mem: 64},
			Market: pools.Market{InstanceType: "local", Zone: zone},
		})
	}
	owner, err := local.NewProvider(c, w.nc, launcher, log)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	starting := daemon.NewServices(context.Background())
	starting.Run("launcher", launcher.Run)
	owning := daemon.NewServices(ctx)
	owning.Run("machines", owner.Run)
	w.Cleanup(func() {
		cancel()
		if err := errors.Join(owning.Stop(nil), starting.Stop(nil)); err != nil {
			w.Error(err)
		}
		if left := processesOf(w.machine); left != nil {
			w.Errorf("left: %q", left)
		}
		if w.Failed() {
			w.Logf("what happened:\n%s", w.story())
		}
	})
	eventually(w, "an answer of the machines' owner", func() error {
		_, err := w.readMachines()
		return err
	})
}

// bookkeeper notes what the owner of the machines logs.
type bookkeeper struct{ ward *ward }

var bookkept = regexp.MustCompile(`msg="?([^"=]+)"?( |$)(?:.*? node=(\S+))?`)

func (b bookkeeper) Write(line []byte) (int, error) {
	if m := bookkept.FindSubmatch(line); m != nil {
		b.ward.note(happening{what: strings.TrimSpace(string(m[1])), node: string(m[3])})
	}
	return len(line), nil
}

// story is the history as text.
func (w *ward) story() string {
	var s strings.Builder
	for _, h := range w.since(0) {
		fmt.Fprintf(&s, "%s %s %s %s\n", h.at.Format("05.000"), h.what, h.node, h.shownElsewhere.HealthFinding)
	}
	return s.String()
}

// now is a mark in the history.
func (w *ward) now() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.history)
}

// since returns what has happened after a mark.
func (w *ward) since(mark int) []happening {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.history[mark:])
}

// of returns what of that has one of these names.
func (w *ward) of(mark int, names ...string) (out []happening) {
	for _, h := range w.since(mark) {
		if slices.Contains(names, h.what) {
			out = append(out, h)
		}
	}
	return out
}

// comes waits for something to happen to a node after a mark; an empty node is any.
func (w *ward) comes(mark int, what, node string) (found happening) {
	w.Helper()
	eventually(w, what+" of "+node, func() error {
		for _, h := range w.of(mark, what) {
			if node == "" || h.node == node {
				found = h
				return nil
			}
		}
		return errors.New("not yet")
	})
	return found
}

// boot is the boot id in the last heartbeat of a machine.
func (w *ward) boot(node string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.boots[node]
}

// newAutoscaler returns an autoscaler of the pool that reaches NATS at an address. It does
// not run yet.
func (w *ward) newAutoscaler(name, bus string, o wardOptions) *twin {
	w.Helper()
	a := &twin{name: name, world: w.twins, data: w.TempDir(), config: w.TempDir()}
	a.gate = &gate{tb: w}
	text := wardPool(o)
	if o.policy != nil {
		changed := o.policy(text)
		if changed == text {
			w.Fatal("the policy is not another one")
		}
		text = changed
	}
	for path, text := range map[string]string{
		filepath.Join(a.config, "weir.yaml"):               fmt.Sprintf("nats: {servers: [\"nats://%s\"]}\n", bus),
		filepath.Join(a.config, w.cluster, "default.yaml"): text,
	} {
		if err := daemon.WriteFile(path, []byte(text)); err != nil {
			w.Fatal(err)
		}
	}
	return a
}

// wardPool is the pool file of a ward.
func wardPool(o wardOptions) string {
	deletes := ""
	if strings.Contains(o.actions, "RECREATE") {
		deletes = ", node_delete_timeout: 5"
	}
	text := fmt.Sprintf(wardFile, cmp.Or(o.lease, 15*time.Second), o.actions, deletes)
	return strings.Replace(text, "min_capacity: 1", fmt.Sprintf("min_capacity: %d", 2*o.each), 1)
}

// replacing is an option: one text of the pool file for another.
func replacing(pairs ...string) func(string) string { return strings.NewReplacer(pairs...).Replace }

// machines returns the machines that are there, in order of their launch.
func (w *ward) machines() []pools.Instance {
	w.Helper()
	machines, err := w.readMachines()
	if err != nil {
		w.Fatal(err)
	}
	return machines
}

func (w *ward) readMachines() (out []pools.Instance, err error) {
	found, err := w.pool.Groups(w.Context())
	for _, g := range found.Groups {
		var s pools.GroupSnapshot
		if err == nil {
			s, err = g.Snapshot(w.Context())
		}
		out = append(out, s.Instances...)
	}
	slices.SortStableFunc(out, func(a, b pools.Instance) int { return a.Launched.Compare(b.Launched) })
	return out, err
}

// oldest is the machine that was launched first.
func (w *ward) oldest() string {
	w.Helper()
	return w.machines()[0].ID
}

// signalTo sends a signal to the agents of machines.
func (w *ward) signalTo(s syscall.Signal, nodes ...string) {
	w.Helper()
	for _, node := range nodes {
		var err error
		if pid := agentPID(w, node); s == syscall.SIGSTOP {
			err = await.Halt(pid)
		} else {
			err = syscall.Kill(pid, s)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// health is the state of node health, as "weir node status --all" requests it.
func (w *ward) health() (api.HealthStatus, error) {
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	return events.NewClient(w.nc, w.cluster, "default").Status(ctx, api.HealthQuery{All: true})
}

// isWell waits until n machines are there, known to be well, and nothing is under way.
func (w *ward) isWell(when string, n int) {
	w.Helper()
	eventually(w, fmt.Sprintf("%s, a pool of %d that is well", when, n), func() error {
		if w.holder.ended() {
			w.Fatal("the autoscaler has ended")
		}
		s, err := w.health()
		if err != nil {
			return err
		}
		there, err := w.readMachines()
		if err != nil {
			return err
		}
		s.Nodes = slices.DeleteFunc(s.Nodes, func(s api.NodeHealth) bool { // it is dropped when two lists miss it
			return s.Attempt == "" && !slices.ContainsFunc(there, func(i pools.Instance) bool { return i.ID == s.Node })
		})
		if len(there) != n || len(s.Nodes) != n || len(s.Open) > 0 || slices.ContainsFunc(s.Nodes, unsure) {
			return fmt.Errorf("%+v, open %v, %+v", s.Census, s.Open, s.Nodes)
		}
		r, err := w.record()
		if err != nil {
			return err
		}
		now := r.Snapshot
		if now.Target != float64(n) || now.Fulfilled != now.Target || now.Joined != now.Target || len(r.Drains) > 0 || r.Account.Sum(api.EntryPendingIncrease) != 0 || r.Account.Sum(api.EntrySurplus) != 0 {
			return fmt.Errorf("%+v, drains %+v, account %v", now, r.Drains, r.Account)
		}
		return nil
	})
}

// unsure reports whether something is done for a node, or a mode that votes does not
// know it to be well.
func unsure(n api.NodeHealth) bool {
	return n.State != api.StateHealthy || slices.ContainsFunc(n.Modes, func(m api.ModeVerdict) bool { return m.Mode != api.DetectLifecycleEvents && m.Verdict != api.CheckOK })
}

// expectStarted checks how many machines were started, and how many are gone, since a mark.
func (w *ward) expectStarted(mark, started int) {
	w.Helper()
	if got := w.of(mark, "machine started"); len(got) != started {
		w.Errorf("%d machines were started, want %d: %+v", len(got), started, got)
	}
}

// expectUntouched checks that nothing was done since a mark.
func (w *ward) expectUntouched(mark int) {
	w.Helper()
	for _, h := range w.since(mark) {
		switch h.what {
		case "machine started", "machine ended", "target set", "repair begun", "machine fenced", string(api.HealthRepairStarted), string(api.HealthRepairAttempt), string(api.HealthFenceStarted):
			w.Errorf("%s %s %s: want nothing done", h.what, h.node, h.shownElsewhere.HealthFinding)
		}
	}
}
