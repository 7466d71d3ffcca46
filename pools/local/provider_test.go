package local_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// owner is a running provider, and its group from the outside.
type owner struct {
	*local.Group
	bus  localtest.Bus
	cfg  local.Config
	stop func()
}

func groupOf(s pooltest.Setup) local.GroupConfig {
	return local.GroupConfig{
		ID: s.ID, Min: s.Min, Max: s.Max, Target: s.Target, Resources: resource.Vector{2, 1000, 1000, 0},
	}
}

func newOwner(t *testing.T, group local.GroupConfig) *owner {
	return ownerOf(t, group, func(*local.Config) {})
}

func ownerOf(t *testing.T, group local.GroupConfig, change func(*local.Config)) *owner {
	bus := localtest.NewBus(t)
	o := &owner{bus: bus, Group: local.NewGroup(bus.Conn, "c", "p", group.ID), cfg: local.Config{
		Cluster: "c", Pool: "p", Groups: []local.GroupConfig{group}, Argv: localtest.MachineArgv(), Env: bus.Env(),
		Heartbeat: 200 * time.Millisecond, StopGrace: 300 * time.Millisecond, DataDir: t.TempDir(),
	}}
	change(&o.cfg)
	o.start(t)
	return o
}

func (o *owner) start(t *testing.T) {
	t.Helper()
	p, err := local.NewProvider(o.cfg, o.bus.Conn, localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	o.stop = localtest.Run(t, p.Run)
	localtest.Until(t, "the provider answers", func() bool { _, err := o.Snapshot(t.Context()); return err == nil })
}

// running waits for n running machines, and returns their ids.
func (o *owner) running(t *testing.T, n int) []string {
	t.Helper()
	var ids []string
	localtest.Until(t, strconv.Itoa(n)+" machines run", func() bool {
		s, err := o.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids = nil
		for _, i := range s.Instances {
			if i.State == api.InstanceRunning {
				ids = append(ids, i.ID)
			}
		}
		return len(ids) == n && len(s.Instances) == n
	})
	return ids
}

// kill ends a machine's process as in a crash.
func kill(t *testing.T, id string) {
	t.Helper()
	for _, pid := range pidsOf(t, "--id="+id) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("kill %s: %v", id, err)
		}
	}
}

// pidsOf returns the processes that have arg on their command line. A forked child has the same
// command line until it executes another program, and is not included.
func pidsOf(t *testing.T, arg string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || !slices.Contains(strings.Split(string(data), "\x00"), arg) {
			continue // it has ended, or is another process
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(f), "stat"))
		if err != nil {
			continue // as above
		}
		var pid, parent int
		var name, state string
		if _, err := fmt.Sscan(string(stat), &pid, &name, &state, &parent); err != nil {
			t.Fatal(err)
		}
		parents[pid] = parent
	}
	var pids []int
	for pid, parent := range parents {
		if _, forked := parents[parent]; !forked {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

func TestNodesJoin(t *testing.T) {
	o := newOwner(t, groupOf(pooltest.Setup{ID: "g", Max: 5, Target: 2}))
	nodes := local.NewNodes(o.bus.Conn, "c", "p", time.Second, localtest.Log(t))
	localtest.Run(t, nodes.Run)
	ids := o.running(t, 2)
	joined := func() []string {
		var out []string
		for _, f := range nodes.Facts(time.Now()) {
			if f.Group != "g" || f.Pool != "p" || f.Resources != (resource.Vector{2, 1000, 1000, 0}) {
				t.Fatalf("facts = %+v", f)
			}
			out = append(out, f.ID)
		}
		return out
	}
	slices.Sort(ids)
	localtest.Until(t, "both nodes join", func() bool { return slices.Equal(joined(), ids) })

	if err := nodes.Cordon(t.Context(), ids[0], true); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "cordoned", func() bool {
		return slices.ContainsFunc(nodes.Facts(time.Now()), func(f api.NodeFacts) bool { return f.ID == ids[0] && f.Draining })
	})
	if err := nodes.Cordon(t.Context(), "nobody", true); !errors.Is(err, wire.ErrNoAgent) {
		t.Errorf("cordon of a node that is not there: %v", err)
	}

	kill(t, ids[0])
	localtest.Until(t, "the dead node is absent, another joins", func() bool {
		now := joined()
		return len(now) == 2 && !slices.Contains(now, ids[0])
	})
	if got := nodes.Facts(time.Now().Add(2 * time.Second)); len(got) != 0 {
		t.Errorf("facts that are too old: %v", got)
	}
}

func TestRestart(t *testing.T) {
	o := newOwner(t, groupOf(pooltest.Setup{ID: "g", Max: 5, Target: 1}))
	if err := o.SetTarget(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	before := o.running(t, 3)
	o.stop()
	for _, id := range before {
		if left := pidsOf(t, "--id="+id); left != nil {
			t.Errorf("the owner left the processes %v of %s", left, id)
		}
	}
	if _, err := o.Snapshot(t.Context()); !errors.Is(err, local.ErrNoOwner) {
		t.Errorf("snapshot without an owner: %v", err)
	}

	o.start(t)
	after := o.running(t, 3)
	for _, id := range after {
		if slices.Contains(before, id) {
			t.Errorf("%s is used twice", id)
		}
	}
	if err := o.Terminate(t.Context(), before); err != nil {
		t.Errorf("terminate machines of the earlier owner: %v", err)
	}
	if s, err := o.Snapshot(t.Context()); err != nil || s.Target != 3 {
		t.Errorf("after that: target %d, %v", s.Target, err)
	}
}

func TestRequestsRefused(t *testing.T) {
	o := newOwner(t, groupOf(pooltest.Setup{ID: "g", Max: 1}))
	if _, err := local.NewGroup(o.bus.Conn, "c", "p", "other").Snapshot(t.Context()); !errors.Is(err, local.ErrUnknownGroup) {
		t.Errorf("unknown group: %v", err)
	}
	for _, body := range []string{"", "{", `{"group": 5}`, `{"group": "g", "target": 1.5}`, `{"grupp": "g"}`, `{"group":"g"} 1`} {
		msg, err := o.bus.Request("weir.c.local.p.set_target", []byte(body), localtest.WaitLimit)
		if err != nil || !strings.Contains(string(msg.Data), `"code":"invalid"`) {
			t.Errorf("request %q: %s, %v", body, msg.Data, err)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	good := local.Config{
		Cluster: "c", Pool: "p", Argv: []string{"/bin/weir"}, DataDir: "d",
		Groups: []local.GroupConfig{groupOf(pooltest.Setup{ID: "g", Max: 3})},
	}
	if err := good.Validate(); err != nil {
		t.Errorf("good: %v", err)
	}
	for name, spoil := range map[string]func(*local.Config){
		"cluster":     func(c *local.Config) { c.Cluster = "a.b" },
		"argv":        func(c *local.Config) { c.Argv = []string{"weir"} },
		"data":        func(c *local.Config) { c.DataDir = "" },
		"group twice": func(c *local.Config) { c.Groups = append(c.Groups, c.Groups[0]) },
		"bounds":      func(c *local.Config) { c.Groups[0].Min = 4 },
		"target":      func(c *local.Config) { c.Groups[0].Target = 4 },
		"weight":      func(c *local.Config) { c.Groups[0].Weight = -1 },
		"too many":    func(c *local.Config) { c.Groups[0].Max = api.Unbounded },
		"resources":   func(c *local.Config) { c.Groups[0].Resources[0] = -1 },
		"heartbeat":   func(c *local.Config) { c.Heartbeat = -1 },
		"self-fence":  func(c *local.Config) { c.SelfFenceAfter = -1 },
	} {
		c := good
		c.Groups = slices.Clone(good.Groups)
		spoil(&c)
		if c.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// With a damaged file the targets are unknown, so no group may begin at its minimum. The error
// names the file and what to do.
func TestDamagedStateOfTheGroups(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "cut short": `{"groups":{"g":{"tar`} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "groups.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			bus := localtest.NewBus(t)
			_, err := local.NewProvider(local.Config{
				Cluster: "c", Pool: "p", DataDir: dir, Argv: localtest.MachineArgv(), Groups: []local.GroupConfig{groupOf(pooltest.Setup{ID: "g", Max: 5, Target: 2})},
			}, bus.Conn, localtest.NewLauncher(t), localtest.Log(t))
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore the file, or move it away") {
				t.Errorf("NewProvider = %v, want an error with %s and what to do", err, path)
			}
		})
	}
}

// The owner does what a client requests, and nothing that the server was made to send: such a message has no reply
// subject of its own, or has headers of the server.
func TestOwnerRefusesServerMadeRequests(t *testing.T) {
	o := newOwner(t, local.GroupConfig{ID: "g", Max: 5, Target: 0, Resources: resource.Vector{1, 100, 100, 0}})
	const subject, request = "weir.c.local.p.set_target", `{"group":"g","target":3}`
	for _, m := range []*nats.Msg{
		{Subject: subject, Data: []byte(request)},
		{Subject: subject, Data: []byte(request), Reply: "$JS.ACK.S.C.1.1.1.1.0"},
		{Subject: subject, Data: []byte(request), Reply: "answer", Header: nats.Header{"Nats-Stream": {"S"}}},
	} {
		if err := o.bus.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	s, err := o.Snapshot(t.Context()) // processed after the messages
	if err != nil || s.Target != 0 {
		t.Errorf("target %d, %v; want 0", s.Target, err)
	}
	if err := o.SetTarget(t.Context(), 1); err != nil {
		t.Errorf("genuine request: %v", err)
	}
}
