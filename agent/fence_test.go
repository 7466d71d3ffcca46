package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// condition returns the latest condition of that type.
func (e *observer) condition(name string) (api.NodeCondition, bool) {
	list := e.lastFacts().Conditions
	i := slices.IndexFunc(list, func(c api.NodeCondition) bool { return c.Type == name })
	if i < 0 {
		return api.NodeCondition{}, false
	}
	return list[i], true
}

func TestFence(t *testing.T) {
	r := newRig(t)
	r.start(t, "polite", "exec sleep 60")
	r.start(t, "deaf", "trap '' TERM; while :; do sleep 60; done")
	r.until(t, "deaf=RUNNING polite=RUNNING")
	if left, err := r.Fence(t.Context(), "n1", true); err != nil || left != 2 {
		t.Errorf("Fence = %d left, %v; want 2, and not to wait for them", left, err)
	}
	if err := r.Start(t.Context(), "n1", request("b", "true")); !errors.Is(err, wire.ErrFenced) {
		t.Errorf("start on a fenced node: %v", err)
	}
	for _, instance := range []string{"polite", "deaf"} {
		if e := r.awaitExit(t, instance); e.Reason != api.ExitEvacuation {
			t.Errorf("%s: reason %s, want %s", instance, e.Reason, api.ExitEvacuation)
		}
	}
	localtest.Until(t, "nothing is left", func() bool {
		left, err := r.Fence(t.Context(), "n1", true)
		if err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	localtest.Until(t, "the fence is published", func() bool {
		c, ok := r.condition("Fenced")
		return ok && c.Failed && r.lastFacts().Draining
	})

	if _, err := r.Fence(t.Context(), "n1", false); err != nil {
		t.Fatal(err)
	}
	r.start(t, "c", "exec sleep 60")
	r.until(t, "c=RUNNING")
	if _, ok := r.condition("Fenced"); ok || r.lastFacts().Draining {
		t.Errorf("lifted: facts = %+v", r.lastFacts())
	}
}

func TestStartedFenced(t *testing.T) {
	bus := localtest.NewBus(t)
	e, client := observe(t, bus.Conn), wire.NewClient(bus.Conn, "c", "p")
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Heartbeat: 100 * time.Millisecond, DataDir: t.TempDir(), Fenced: true,
	}, bus.Conn, localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	localtest.Run(t, a.Run)
	localtest.Until(t, "joined, fenced", func() bool { return e.lastFacts().Draining })
	one := wire.StartRequest{App: "web", Instance: "a", Command: "exec sleep 60"}
	if err := client.Start(t.Context(), "n1", one); !errors.Is(err, wire.ErrFenced) {
		t.Errorf("start: %v", err)
	}
	if _, err := client.Fence(t.Context(), "n1", false); err != nil {
		t.Fatal(err)
	}
	if err := client.Start(t.Context(), "n1", one); err != nil {
		t.Errorf("start once the fence is lifted: %v", err)
	}
}

func TestConditionsArePublished(t *testing.T) {
	r := newRig(t)
	is := func(name string, failed bool) func() bool {
		return func() bool { c, ok := r.condition(name); return ok && c.Failed == failed }
	}
	for _, name := range []string{"ReadonlyFilesystem", "DiskFull", "DiskError", "ConditionsFile"} {
		localtest.Until(t, name+" is checked", is(name, false))
	}
	file := filepath.Join(r.dir, "conditions.json")
	for _, test := range []struct {
		data, want string
		unknown    bool
	}{
		{`[{"type":"KernelDeadlock","failed":true,"why":"task hung"}]`, "KernelDeadlock", false},
		{`nonsense`, "ConditionsFile", true},
	} {
		if err := os.WriteFile(file, []byte(test.data), 0o600); err != nil {
			t.Fatal(err)
		}
		localtest.Until(t, test.want+" is reported", func() bool {
			c, ok := r.condition(test.want)
			return ok && c.Unknown == test.unknown && c.Failed != test.unknown
		})
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "the detector is gone", func() bool {
		_, there := r.condition("KernelDeadlock")
		return !there && is("ConditionsFile", false)()
	})
}

func TestBadFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bus := localtest.NewBus(t)
	e := observe(t, bus.Conn)
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Heartbeat: 50 * time.Millisecond, DataDir: filepath.Join(file, "sub"),
	}, bus.Conn, localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	localtest.Run(t, a.Run)
	localtest.Until(t, "the disk has failed", func() bool {
		c, ok := e.condition("DiskError")
		return ok && c.Failed && c.Why != ""
	})
}

// newServer runs a NATS server for one test, and returns its address.
func newServer(t *testing.T) string {
	return bustest.Serve(t, server.Options{}).Addr().String()
}

func dial(t *testing.T, url string) *nats.Conn {
	return bustest.Connect(t, url, nats.ReconnectBufSize(-1))
}

// selfFencing returns an agent behind a wire, with one running copy.
func selfFencing(t *testing.T, after time.Duration) (rig, *bustest.Wire) {
	address := newServer(t)
	path := bustest.NewWire(t, address)
	direct, theirs := dial(t, "nats://"+address), dial(t, "nats://"+path.Address())
	r := rig{observer: observe(t, direct), Client: wire.NewClient(direct, "c", "p"), dir: t.TempDir()}
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Resources: resource.Vector{2, 1000, 1000, 0},
		Heartbeat: 100 * time.Millisecond, StopGrace: 200 * time.Millisecond, DataDir: r.dir, SelfFenceAfter: after,
	}, theirs, localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	localtest.Run(t, a.Run)
	localtest.Until(t, "first facts", func() bool { return r.lastFacts().ID == "n1" })
	r.start(t, "a", "touch here; exec sleep 60")
	r.until(t, "a=RUNNING")
	return r, path
}

func TestSelfFence(t *testing.T) {
	const after = 3 * time.Second
	for _, test := range []struct {
		name string
		lose func(*bustest.Wire)
	}{
		{"black hole", (*bustest.Wire).Cut},
		{"connection cut", (*bustest.Wire).Shut},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, path := selfFencing(t, after)
			began := time.Now()
			test.lose(path)
			// The copy's folder is removed with its process. Without the bus it is the only visible
			// effect.
			localtest.Until(t, "the copy is gone", func() bool {
				_, err := os.Stat(filepath.Join(r.dir, "a"))
				return errors.Is(err, os.ErrNotExist)
			})
			if took := time.Since(began); took < after/2 {
				t.Errorf("fenced after %v, want not before about %v", took, after)
			}
			if _, reported := r.exit("a"); reported {
				t.Error("the exit was received without a connection")
			}
			path.Mend()
			if e := r.awaitExit(t, "a"); e.Reason != api.ExitEvacuation {
				t.Errorf("reason %s, want %s", e.Reason, api.ExitEvacuation)
			}
			localtest.Until(t, "the node takes app instances again", func() bool {
				return r.Start(t.Context(), "n1", request("b", "exec sleep 60")) == nil
			})
			r.until(t, "b=RUNNING")
			if r.lastFacts().Draining {
				t.Error("it reports that it accepts nothing")
			}
		})
	}
}

func TestNoSelfFence(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
	}{{"off", 0}, {"contact is back in time", time.Minute}} {
		t.Run(test.name, func(t *testing.T) {
			r, path := selfFencing(t, test.after)
			heard := r.lastFacts().At
			path.Cut()
			select {
			case <-time.After(time.Second):
			case <-t.Context().Done():
			}
			path.Mend()
			localtest.Until(t, "received again", func() bool { return r.lastFacts().At.After(heard.Add(time.Second)) })
			r.until(t, "a=RUNNING")
			if e, ok := r.exit("a"); ok {
				t.Errorf("exit = %+v", e)
			}
		})
	}
}
