package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// fixture is an owner with the facts of its nodes.
type fixture struct {
	*owner
	*local.Pool
	nodes *local.Nodes
}

func newFixture(t *testing.T, n int, change ...func(*local.Config)) fixture {
	o := ownerOf(t, groupOf(pooltest.Setup{ID: "g", Max: 5, Target: n}), func(c *local.Config) {
		for _, f := range change {
			f(c)
		}
	})
	c := fixture{o, local.NewPool(o.bus.Conn, "c", "p", "g"), local.NewNodes(o.bus.Conn, "c", "p", 5*time.Second, localtest.Log(t))}
	localtest.Run(t, c.nodes.Run)
	return c
}

// boot returns the boot id in the latest facts of a node, also of a silent one.
func (c fixture) boot(id string) string {
	for _, f := range c.nodes.Received(time.Now()) {
		if f.ID == id {
			return f.BootID
		}
	}
	return ""
}

// joined waits until a node publishes a boot id other than that, and returns it.
func (c fixture) joined(t *testing.T, id, other string) string {
	t.Helper()
	var boot string
	localtest.Until(t, id+" joins", func() bool { boot = c.boot(id); return boot != "" && boot != other })
	return boot
}

func (c fixture) inspection(t *testing.T, id string) pools.Inspection {
	t.Helper()
	all, err := c.Inspect(t.Context(), pools.Inspecting{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(i pools.Inspection) bool { return i.ID == id })
	if i < 0 {
		return pools.Inspection{}
	}
	return all[i]
}

func (c fixture) stopped(t *testing.T, id string) {
	t.Helper()
	localtest.Until(t, id+" is stopped", func() bool { return c.inspection(t, id).Stopped })
}

// left stops the owner's own repairs.
func (c fixture) left(t *testing.T) {
	t.Helper()
	if err := c.ReleaseRepair(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// repairEnded repeats RepairInPlace until it is done.
func (c fixture) repairEnded(t *testing.T, m pools.InPlaceRepair) {
	t.Helper()
	localtest.Until(t, string(m.Kind)+" is done", func() bool {
		done, err := c.RepairInPlace(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return done
	})
}

// freeze stops the processes of an agent; thaw lets them continue.
func freeze(t *testing.T, id string) {
	t.Helper()
	for _, pid := range pidsOf(t, "--id="+id) {
		if err := await.Halt(pid); err != nil {
			t.Error(err)
		}
	}
}

func thaw(t *testing.T, id string) {
	t.Helper()
	for _, pid := range pidsOf(t, "--id="+id) {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) { // a fence may end it now
			t.Errorf("continue %s: %v", id, err)
		}
	}
}

func TestReleaseRepair(t *testing.T) {
	c := newFixture(t, 2)
	if why, err := c.OwnsRepair(t.Context()); err != nil || why == "" {
		t.Errorf("at first: owner = %q, %v", why, err)
	}
	ids := c.running(t, 2)
	dead, living := ids[0], ids[1]
	boot := c.joined(t, living, "")
	for range 2 {
		c.left(t)
	}
	if why, err := c.OwnsRepair(t.Context()); err != nil || why != "" {
		t.Errorf("after the release: owner = %q, %v", why, err)
	}
	kill(t, dead)
	c.stopped(t, dead)
	if got := c.inspection(t, dead); got.Machine.Why != "killed by SIGKILL" {
		t.Errorf("inspection = %+v", got)
	}
	for _, f := range c.nodes.Received(time.Now()) {
		if f.BootID == "" || time.Since(f.At) > 20*time.Second {
			t.Errorf("received %+v", f)
		}
	}
	if got := c.inspection(t, living); got.Stopped || got.Machine.Fitness != pools.Fit {
		t.Errorf("inspection of the other one = %+v", got)
	}

	c.stop()
	if _, err := c.Inspect(t.Context(), pools.Inspecting{}); !errors.Is(err, local.ErrNoOwner) {
		t.Errorf("inspect without an owner: %v", err)
	}
	c.start(t)
	c.stopped(t, dead)
	if why, err := c.OwnsRepair(t.Context()); err != nil || why != "" {
		t.Errorf("after a restart of the owner: repair owner = %q, %v", why, err)
	}
	c.joined(t, living, boot)
	if got := c.running(t, 2); !slices.Equal(got, ids) {
		t.Errorf("after a restart of the owner: %v, want %v", got, ids)
	}

	if err := c.Terminate(t.Context(), []string{dead}); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Snapshot(t.Context()); err != nil || s.Target != 1 || len(s.Instances) != 1 {
		t.Errorf("the stopped one ended: %+v, %v", s, err)
	}
	kill(t, living)
	c.stopped(t, living)
	if err := c.ResumeRepair(t.Context()); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "the stopped one is replaced", func() bool {
		s, err := c.Snapshot(t.Context())
		return err == nil && len(s.Instances) == 1 && !slices.Contains(ids, s.Instances[0].ID)
	})
}

func TestRepairInPlace(t *testing.T) {
	for _, test := range []struct {
		kind  api.RepairKind
		spoil func(t *testing.T, c fixture, id string)
		keeps bool // the machine's folder is kept
	}{
		{api.RepairStart, func(t *testing.T, c fixture, id string) { kill(t, id); c.stopped(t, id) }, true},
		{api.RepairReboot, func(*testing.T, fixture, string) {}, true},
		{api.RepairReset, func(t *testing.T, _ fixture, id string) { freeze(t, id) }, true},
		{api.RepairRebuild, func(t *testing.T, _ fixture, id string) { freeze(t, id) }, false},
	} {
		t.Run(string(test.kind), func(t *testing.T) {
			c := newFixture(t, 1)
			c.left(t)
			id := c.running(t, 1)[0]
			boot := c.joined(t, id, "")
			file := filepath.Join(c.cfg.DataDir, "machines", id, "file")
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil { // the machine may have joined before it created its folder
				t.Fatal(err)
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			test.spoil(t, c, id)
			first := pools.InPlaceRepair{Instance: id, Kind: test.kind, Attempt: "a1"}
			c.repairEnded(t, first)
			boot = c.joined(t, id, boot)
			if _, err := os.Stat(file); (err == nil) != test.keeps {
				t.Errorf("the file in its folder: %v, want it kept %v", err, test.keeps)
			}
			if got := c.running(t, 1); got[0] != id {
				t.Errorf("now it is %v, want %s", got, id)
			}

			c.stop()
			c.start(t)
			boot = c.joined(t, id, boot)
			c.repairEnded(t, first)
			if pids := pidsOf(t, "--id="+id); len(pids) != 1 {
				t.Errorf("processes %v", pids)
			}
			if done, err := c.RepairInPlace(t.Context(), first); !done || err != nil || c.boot(id) != boot {
				t.Errorf("the same attempt again: %v, %v; boot %s, want %s", done, err, c.boot(id), boot)
			}
			c.repairEnded(t, pools.InPlaceRepair{Instance: id, Kind: api.RepairReset, Attempt: "a2"})
			c.joined(t, id, boot)
		})
	}
}

func TestRepairWhileOwnerReplaces(t *testing.T) {
	c := newFixture(t, 2)
	ids := c.running(t, 2)
	boot := c.joined(t, ids[0], "")
	for i, kind := range []api.RepairKind{api.RepairReboot, api.RepairRebuild} {
		c.repairEnded(t, pools.InPlaceRepair{Instance: ids[0], Kind: kind, Attempt: "a" + strconv.Itoa(i)})
		boot = c.joined(t, ids[0], boot)
	}
	if got := c.running(t, 2); !slices.Equal(got, ids) {
		t.Errorf("now it is %v, want %v", got, ids)
	}
}

func TestRepairRejected(t *testing.T) {
	c := newFixture(t, 2)
	c.left(t)
	ids := c.running(t, 2)
	gone, stopped := ids[0], ids[1]
	if err := c.Terminate(t.Context(), []string{gone}); err != nil {
		t.Fatal(err)
	}
	c.running(t, 1)
	kill(t, stopped)
	c.stopped(t, stopped)
	for _, test := range []struct {
		name string
		m    pools.InPlaceRepair
		want error
	}{
		{"no such machine", pools.InPlaceRepair{Instance: "i-0", Kind: api.RepairStart, Attempt: "a"}, pools.ErrNotOwned},
		{"one that is gone", pools.InPlaceRepair{Instance: gone, Kind: api.RepairStart, Attempt: "a"}, pools.ErrRepairFailed},
		{"reboot of a stopped one", pools.InPlaceRepair{Instance: stopped, Kind: api.RepairReboot, Attempt: "a"}, pools.ErrRepairFailed},
		{"an image", pools.InPlaceRepair{Instance: stopped, Kind: api.RepairRebuild, Attempt: "a", Image: "x"}, pools.ErrRepairFailed},
	} {
		if done, err := c.RepairInPlace(t.Context(), test.m); done || !errors.Is(err, test.want) {
			t.Errorf("%s: %v, %v; want %v", test.name, done, err, test.want)
		}
	}
	for name, m := range map[string]pools.InPlaceRepair{
		"kind":    {Instance: stopped, Kind: "pray", Attempt: "a"},
		"attempt": {Instance: stopped, Kind: api.RepairStart},
		"long":    {Instance: stopped, Kind: api.RepairStart, Attempt: strings.Repeat("a", 300)},
	} {
		if done, err := c.RepairInPlace(t.Context(), m); done || err == nil || errors.Is(err, pools.ErrRepairFailed) {
			t.Errorf("%s: %v, %v; want a refusal that is no failure", name, done, err)
		}
	}
}

// The owner is killed right after it reported a begun attempt, and after it reported the end.
func TestRepairOutlivesOwner(t *testing.T) {
	bus := localtest.NewBus(t)
	cfg := local.Config{
		Cluster: "c", Pool: "p", Groups: []local.GroupConfig{groupOf(pooltest.Setup{ID: "g", Max: 5, Target: 1})},
		Argv: localtest.MachineArgv(), Heartbeat: 200 * time.Millisecond, StopGrace: 300 * time.Millisecond, DataDir: t.TempDir(),
	}
	c := fixture{
		&owner{bus: bus, Group: local.NewGroup(bus.Conn, "c", "p", "g"), cfg: cfg},
		local.NewPool(bus.Conn, "c", "p", "g"), local.NewNodes(bus.Conn, "c", "p", 5*time.Second, localtest.Log(t)),
	}
	localtest.Run(t, c.nodes.Run)
	start := func() (kill func()) {
		kill = localtest.StartOwner(t, bus, cfg)
		localtest.Until(t, "the owner answers", func() bool { _, err := c.Snapshot(t.Context()); return err == nil })
		return kill
	}
	killOwner := start()
	c.left(t)
	id := c.running(t, 1)[0]
	boot := c.joined(t, id, "")
	for i, kind := range []api.RepairKind{api.RepairReboot, api.RepairReset, api.RepairRebuild} {
		m := pools.InPlaceRepair{Instance: id, Kind: kind, Attempt: "attempt-" + strconv.Itoa(i)}
		if _, err := c.RepairInPlace(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if kept, err := os.ReadFile(filepath.Join(cfg.DataDir, "groups.json")); !strings.Contains(string(kept), m.Attempt) {
			t.Errorf("%s is begun, and not kept: %s, %v", m.Attempt, kept, err)
		}
		killOwner()
		killOwner = start()
		c.repairEnded(t, m)
		boot = c.joined(t, id, boot)

		killOwner()
		killOwner = start()
		boot = c.joined(t, id, boot)
		if done, err := c.RepairInPlace(t.Context(), m); !done || err != nil {
			t.Errorf("%s under the same attempt: %v, %v", kind, done, err)
		}
		if got := c.running(t, 1); got[0] != id {
			t.Fatalf("now it is %v, want %s", got, id)
		}
	}
	killOwner()
	localtest.Until(t, "nothing is left", func() bool { return pidsOf(t, "--id="+id) == nil })
}

func (c fixture) isolated(t *testing.T, id string, way pools.Fence) {
	t.Helper()
	localtest.Until(t, string(way)+" is confirmed", func() bool {
		confirmed, err := c.Isolate(t.Context(), id, way)
		if err != nil {
			t.Fatal(err)
		}
		return confirmed
	})
}

// run starts a copy on the node. The copy writes its process id, which run returns.
func (c fixture) run(t *testing.T, id string) int {
	t.Helper()
	agents := wire.NewClient(c.bus.Conn, "c", "p")
	err := agents.Start(t.Context(), id, wire.StartRequest{
		App: "web", Instance: "x-" + id, Command: "echo $$; exec sleep 60", Footprint: resource.Vector{1, 1, 1, 0},
	})
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	localtest.Until(t, "it writes its process id", func() bool {
		reply, err := agents.Logs(t.Context(), id, wire.LogsRequest{App: "web"})
		if err != nil || len(reply.Copies) == 0 || len(reply.Copies[0].Lines) == 0 {
			return false
		}
		pid, err = strconv.Atoi(reply.Copies[0].Lines[0])
		return err == nil
	})
	return pid
}

// alive reports whether a process runs. A zombie has an empty command line.
func alive(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && len(line) > 0
}

func TestIsolateService(t *testing.T) {
	c := newFixture(t, 1)
	c.left(t)
	id := c.running(t, 1)[0]
	boot := c.joined(t, id, "")
	pid := c.run(t, id)
	c.isolated(t, id, pools.FenceService)
	if alive(pid) {
		t.Errorf("the app instance runs on as %d", pid)
	}
	refused := func(what string) {
		t.Helper()
		err := wire.NewClient(c.bus.Conn, "c", "p").Start(t.Context(), id, wire.StartRequest{App: "web", Instance: "y", Command: "true"})
		if !errors.Is(err, wire.ErrFenced) {
			t.Errorf("%s: %v, want %v", what, err, wire.ErrFenced)
		}
	}
	refused("fenced")
	c.repairEnded(t, pools.InPlaceRepair{Instance: id, Kind: api.RepairReset, Attempt: "a"})
	boot = c.joined(t, id, boot)
	refused("after a restart of the agent")
	c.stop()
	c.start(t)
	c.joined(t, id, boot)
	refused("after a restart of the owner")
	if err := c.Lift(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c.run(t, id)

	freeze(t, id)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if confirmed, err := c.Isolate(short, id, pools.FenceService); confirmed || err == nil {
		t.Errorf("a frozen agent: confirmed %v, %v", confirmed, err)
	}
	thaw(t, id)
	c.isolated(t, id, pools.FenceService)
	kill(t, id)
	c.stopped(t, id)
	c.isolated(t, id, pools.FenceService)
	if _, err := c.Isolate(t.Context(), "i-0", pools.FenceService); !errors.Is(err, pools.ErrNotOwned) {
		t.Errorf("no such machine: %v", err)
	}
	if _, err := c.Isolate(t.Context(), id, pools.FenceNetwork); err == nil {
		t.Error("there is no network to fence")
	}
}

func TestIsolateCompute(t *testing.T) {
	for _, test := range []struct {
		name string
		left bool // the owner released the repair
	}{{"left", true}, {"replaced by the owner", false}} {
		t.Run(test.name, func(t *testing.T) {
			c := newFixture(t, 1)
			if test.left {
				c.left(t)
			}
			id := c.running(t, 1)[0]
			boot := c.joined(t, id, "")
			pid := c.run(t, id)
			freeze(t, id)
			c.isolated(t, id, pools.FenceCompute)
			if left := pidsOf(t, "--id="+id); left != nil || alive(pid) {
				t.Errorf("left: agents %v, the app instance %v", left, alive(pid))
			}
			c.isolated(t, id, pools.FenceCompute)
			if !test.left {
				localtest.Until(t, "it is replaced", func() bool {
					s, err := c.Snapshot(t.Context())
					return err == nil && len(s.Instances) == 1 && s.Instances[0].ID != id
				})
				return
			}
			c.stop()
			c.start(t)
			c.stopped(t, id)
			if got := c.inspection(t, id).Machine.Why; got != "fenced" {
				t.Errorf("it is stopped for %q, want fenced", got)
			}
			c.repairEnded(t, pools.InPlaceRepair{Instance: id, Kind: api.RepairStart, Attempt: "a"})
			c.joined(t, id, boot)
		})
	}
}

func TestMarkUnhealthy(t *testing.T) {
	c := newFixture(t, 1)
	id := c.running(t, 1)[0]
	c.left(t)
	if err := c.MarkUnhealthy(t.Context(), id, "it smells"); err != nil {
		t.Fatal(err)
	}
	if got := c.inspection(t, id); got.Machine != (pools.HealthCheck{Fitness: pools.Unfit, Why: "it smells"}) {
		t.Errorf("inspection = %+v", got)
	}
	if err := c.ResumeRepair(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.MarkUnhealthy(t.Context(), id, "it smells"); err != nil {
			t.Fatal(err)
		}
	}
	localtest.Until(t, "it is replaced", func() bool {
		s, err := c.Snapshot(t.Context())
		return err == nil && s.Target == 1 && len(s.Instances) == 1 && s.Instances[0].ID != id
	})
	if err := c.MarkUnhealthy(t.Context(), "i-0", ""); !errors.Is(err, pools.ErrNotOwned) {
		t.Errorf("no such machine: %v", err)
	}
}

// An agent that was frozen for too long stops its copies when it continues.
func TestFrozenAgentFencesItself(t *testing.T) {
	c := newFixture(t, 1, func(c *local.Config) { c.SelfFenceAfter = 3 * time.Second })
	id := c.running(t, 1)[0]
	c.joined(t, id, "")
	exits := bustest.SubscribeSync(t, c.bus.Conn, message.ExitedSubject("c", message.Node{Pool: "p", Name: id}))
	pid := c.run(t, id)
	freeze(t, id)
	select {
	case <-time.After(5 * time.Second):
	case <-t.Context().Done():
	}
	thaw(t, id)
	msg, err := exits.NextMsg(localtest.WaitLimit)
	if err != nil {
		t.Fatal(err)
	}
	e, err := message.DecodeExited(message.Node{Pool: "p", Name: "n"}, msg.Data)
	if err != nil || e.Reason != api.ExitEvacuation || alive(pid) {
		t.Errorf("exit = %+v, %v; alive %v", e, err, alive(pid))
	}
	localtest.Until(t, "it takes app instances again", func() bool {
		return wire.NewClient(c.bus.Conn, "c", "p").Start(t.Context(), id, wire.StartRequest{
			App: "web", Instance: "y", Command: "exec sleep 60",
		}) == nil
	})
}

// The console of a machine is the end of its agent's log, including earlier runs of the agent.
func TestConsole(t *testing.T) {
	c := newFixture(t, 1)
	id := c.running(t, 1)[0]
	boot := c.joined(t, id, "")
	c.left(t)
	c.repairEnded(t, pools.InPlaceRepair{Instance: id, Kind: api.RepairReset, Attempt: "a1"})
	c.joined(t, id, boot)
	text, err := c.Console(t.Context(), id)
	if err != nil || strings.Count(string(text), "started, pid ") != 2 || strings.Count(string(text), "killed by SIGKILL") != 1 {
		t.Errorf("Console = %q, %v, want two starts and one end", text, err)
	}
	if _, err := c.Console(t.Context(), "i-other"); !errors.Is(err, pools.ErrNotOwned) {
		t.Errorf("of another pool's machine: %v, want %v", err, pools.ErrNotOwned)
	}
}
