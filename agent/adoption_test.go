package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// world is a machine whose agents are processes of their own.
type world struct {
	rig
	bus localtest.Bus
}

func newWorld(t *testing.T) world {
	bus := localtest.NewBus(t)
	w := world{rig{observer: observe(t, bus.Conn), Client: wire.NewClient(bus.Conn, "c", "p"), dir: t.TempDir()}, bus}
	t.Cleanup(func() { // an agent that keeps nothing stops what is left
		if t.Failed() {
			t.Logf("last heartbeat: %s", w.states())
		}
		kill := w.run(t, false)
		kill(syscall.SIGTERM)
	})
	return w
}

// run starts an agent. The returned function sends it a signal and waits for its end.
func (w world) run(t *testing.T, keep bool) (end func(syscall.Signal)) {
	t.Helper()
	c := agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Resources: resource.Vector{4, 1000, 1000, 0},
		Heartbeat: 200 * time.Millisecond, StopGrace: 500 * time.Millisecond, DataDir: w.dir, Keep: keep,
	}
	argv := append(localtest.AgentArgv(), c.Args()...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stderr = w.bus.Env(), os.Stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func(sig syscall.Signal) {
		_ = cmd.Process.Signal(sig) // it may have ended
		_ = cmd.Wait()              // returns that it was killed, or that it was waited for
	}
	t.Cleanup(func() { end(syscall.SIGKILL) }) // the next agent needs the lock of the folder
	// A heartbeat, or older facts, may be late ones of the previous agent.
	localtest.Until(t, "facts of this agent", func() bool { return w.lastFacts().At.After(began) })
	return end
}

// pid returns the number that the copy printed first.
func (w world) pid(t *testing.T, index int) (pid int) {
	t.Helper()
	localtest.Until(t, "a process id", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		reply, err := w.Logs(ctx, "n1", wire.LogsRequest{App: "web", Index: &index})
		if err != nil || len(reply.Copies) == 0 || len(reply.Copies[0].Lines) == 0 {
			return false
		}
		_, err = fmt.Sscan(reply.Copies[0].Lines[0], &pid)
		return err == nil
	})
	return pid
}

func indexed(index int, command string) wire.StartRequest {
	r := request(fmt.Sprint("i", index), command)
	r.Index, r.Footprint = index, resource.Vector{0.1}
	return r
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// TestInstancesOutliveTheirAgent ends an agent by each signal. The next agent adopts the copies: with index, version and
// output, and it publishes their ends.
func TestInstancesOutliveTheirAgent(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			w := newWorld(t)
			end := w.run(t, true)
			var pids []int
			for i := range 4 {
				command := fmt.Sprintf("echo $$; trap 'exit 5' USR1; while :; do echo tick %d; sleep 0.05; done", i)
				if err := w.Start(t.Context(), "n1", indexed(i, command)); err != nil {
					t.Fatal(err)
				}
				pids = append(pids, w.pid(t, i))
			}
			w.until(t, "i0=RUNNING i1=RUNNING i2=RUNNING i3=RUNNING")
			end(sig)
			if err := syscall.Kill(pids[3], syscall.SIGKILL); err != nil { // it ends while no agent runs
				t.Fatal(err)
			}
			// Its child ends a little later. An agent that starts before would adopt the instance.
			localtest.Until(t, "the end of its process group", func() bool { return errors.Is(syscall.Kill(-pids[3], 0), syscall.ESRCH) })
			for i, pid := range pids[:3] {
				if !alive(pid) {
					t.Fatalf("instance %d ended with its agent", i)
				}
			}

			w.run(t, true)
			w.until(t, "i0=RUNNING i1=RUNNING i2=RUNNING")
			w.mu.Lock()
			beat := w.beats[len(w.beats)-1].Beats[1]
			w.mu.Unlock()
			if beat.Index != 1 || beat.Version != "v1" || beat.App != "web" {
				t.Errorf("adopted: %+v, want index 1, version v1", beat)
			}
			if e := w.awaitExit(t, "i3"); e.Reason != api.ExitCrashed || e.Description != "ended while no agent ran" || e.Index != 3 {
				t.Errorf("exit of i3: %+v", e)
			}
			if got := w.pid(t, 0); got != pids[0] {
				t.Errorf("first line of the output: %d, want process %d", got, pids[0])
			}
			if f := w.lastFacts(); f.Tasks != 3 || f.Allocated[resource.CPUs] < 0.29 {
				t.Errorf("facts: %d tasks, %v allocated", f.Tasks, f.Allocated)
			}
			if err := w.Start(t.Context(), "n1", indexed(0, "exit 1")); err != nil { // a repeated request changes nothing
				t.Error(err)
			}
			if err := w.Start(t.Context(), "n1", indexed(3, "sleep 60")); err != nil { // nor does it for an ended one
				t.Error(err)
			}
			if err := w.Stop(t.Context(), "n1", "i1"); err != nil {
				t.Fatal(err)
			}
			if e := w.awaitExit(t, "i1"); e.Reason != api.ExitStopped {
				t.Errorf("exit of i1: %+v", e)
			}
			if err := syscall.Kill(pids[2], syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			// Linux 6.15 and later report the exit status of an adopted process.
			e := w.awaitExit(t, "i2")
			if e.Reason != api.ExitCrashed || !strings.HasPrefix(e.Description, "exit status 5") && e.Description != "exit status unknown" {
				t.Errorf("exit of i2: %+v", e)
			}
			w.until(t, "i0=RUNNING")
			if left, err := filepath.Glob(filepath.Join(w.dir, "i*")); err != nil || len(left) != 1 {
				t.Errorf("directories %q, %v, want one", left, err)
			}
		})
	}
}

// TestDamagedRecordCostsOnlyItself also has a record of another node, and an unfinished start.
func TestDamagedRecordCostsOnlyItself(t *testing.T) {
	w := newWorld(t)
	end := w.run(t, true)
	var pids []int
	for i := range 3 {
		if err := w.Start(t.Context(), "n1", indexed(i, "echo $$; exec sleep 600")); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, w.pid(t, i))
	}
	end(syscall.SIGKILL)
	t.Cleanup(func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // most have ended
		}
	})
	state := filepath.Join(w.dir, ".instances")
	if err := os.WriteFile(filepath.Join(state, "i0.json"), []byte(`{"schema":1,"no`), 0o600); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(state, "i1.json"))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.NewReplacer(`"node":"n1"`, `"node":"n2"`, `"i1"`, `"i9"`).Replace(string(good))
	if err := os.WriteFile(filepath.Join(state, "i9.json"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(good), `,"process"`)
	unfinished := strings.ReplaceAll(string(good)[:i]+"}", `"i1"`, `"i8"`)
	unfinished = strings.Replace(unfinished, `"tag":"`, `"tag":"AAAA`, 1)
	if err := os.WriteFile(filepath.Join(state, "i8.json"), []byte(unfinished), 0o600); err != nil {
		t.Fatal(err)
	}

	w.run(t, true)
	w.until(t, "i1=RUNNING i2=RUNNING")
	for i, pid := range pids {
		if !alive(pid) {
			t.Errorf("instance %d was ended", i)
		}
	}
	aside, err := filepath.Glob(filepath.Join(state, "i*.json.damaged-*"))
	if err != nil || len(aside) != 2 {
		t.Errorf("set aside: %q, %v, want i0 and i9", aside, err)
	}
	if _, exited := w.exit("i9"); exited {
		t.Error("the end of a copy of another node is published")
	}
	if _, err := os.Stat(filepath.Join(state, "i8.json")); !os.IsNotExist(err) {
		t.Errorf("record of the unfinished start: %v, want it removed", err)
	}
}

// TestSecondAgentOfAFolderIsRefused also checks the error for a record of a newer version.
func TestSecondAgentOfAFolderIsRefused(t *testing.T) {
	w := newWorld(t)
	end := w.run(t, true)
	c := agent.Config{Cluster: "c", Pool: "p", Group: "g", ID: "n1", DataDir: w.dir, Keep: true}
	second := func() error {
		a, err := agent.New(c, w.bus.Conn, localtest.NewLauncher(t), localtest.Log(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), localtest.WaitLimit)
		defer cancel()
		return a.Run(ctx)
	}
	if err := second(); err == nil || !strings.Contains(err.Error(), "another agent, process") || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("Run = %v, want that another agent runs", err)
	}
	end(syscall.SIGTERM)
	newer := filepath.Join(w.dir, ".instances", "i7.json")
	if err := os.WriteFile(newer, []byte(`{"schema":2,"what":"ever"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second(); err == nil || !strings.Contains(err.Error(), "install the newer weir") {
		t.Errorf("Run = %v, want that the record is newer", err)
	}
	if err := os.Remove(newer); err != nil {
		t.Fatal(err)
	}
}

// TestCordonSurvivesTheAgent: a fence too, and its copies stay stopped.
func TestCordonSurvivesTheAgent(t *testing.T) {
	w := newWorld(t)
	end := w.run(t, true)
	if err := w.Cordon(t.Context(), "n1", true, pools.Sequence{}); err != nil {
		t.Fatal(err)
	}
	end(syscall.SIGKILL)
	end = w.run(t, true)
	localtest.Until(t, "the node is draining", func() bool { return w.lastFacts().Draining })
	if _, err := w.Fence(t.Context(), "n1", true); err != nil {
		t.Fatal(err)
	}
	if err := w.Cordon(t.Context(), "n1", false, pools.Sequence{}); err != nil {
		t.Fatal(err)
	}
	end(syscall.SIGKILL)
	w.run(t, true)
	if err := w.Start(t.Context(), "n1", indexed(0, "sleep 60")); err == nil {
		t.Error("a fenced node accepts a copy after a restart of its agent")
	}
}

func TestKeepExcludesSelfFence(t *testing.T) {
	c := agent.Config{Cluster: "c", Pool: "p", Group: "g", ID: "n1", DataDir: "/d", Keep: true, SelfFenceAfter: time.Minute}.WithDefaults()
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--keep-instances=false") {
		t.Errorf("Validate = %v", err)
	}
}

// An instance keeps its ports when another agent adopts it, and no other instance gets them. A check may name a port.
func TestPortsOutliveTheirAgent(t *testing.T) {
	w := newWorld(t)
	end := w.run(t, true)
	first := indexed(0, `echo $PORT; exec sleep 1000`)
	first.Ports = []api.Port{{Name: "http", Port: api.AutoPort}}
	first.Ready = &api.Readiness{TCP: &api.TCPCheck{Port: api.PortRef{Name: "http"}}}
	if err := w.Start(t.Context(), "n1", first); err != nil {
		t.Fatal(err)
	}
	w.until(t, "i0=STARTING")
	port := w.pid(t, 0)
	end(syscall.SIGKILL)
	w.run(t, true)
	w.until(t, "i0=RUNNING") // an adopted copy; its check has not succeeded yet
	second := indexed(1, "exec sleep 1000")
	second.Ports = []api.Port{{Name: "http", Port: api.PortNumber(port)}}
	if err := w.Start(t.Context(), "n1", second); !errors.Is(err, wire.ErrPort) || !strings.Contains(err.Error(), "another app instance") {
		t.Fatalf("start with port %d of i0: %v, want %v", port, err, wire.ErrPort)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) // in place of the instance
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	localtest.Until(t, "i0 is ready", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		beats := w.beats[len(w.beats)-1].Beats
		return len(beats) == 1 && !beats[0].Unready
	})
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	second.Ports[0].Port = api.PortNumber(foreign.Addr().(*net.TCPAddr).Port)
	if err := w.Start(t.Context(), "n1", second); !errors.Is(err, wire.ErrPort) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("start with the port of another process: %v, want %v", err, wire.ErrPort)
	}
}
