package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// machinesPool is a pool of the machines of a server.
const machinesPool = `resource_groups:
  - grpc: {address: "unix://SOCKET", group: blue, timeout: 500ms}
scaling_limits: {min_capacity: 1, max_capacity: 8, max_weight_to_add: 8, max_weight_to_remove: 8}
autoscaling: {tick: 1s, setpoint: 1}
`

// background starts a program that ends with the test.
func background(t *testing.T, argv ...string) *os.Process {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), asWeir+"=1")
	if err := offspring.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // the error is the signal
	})
	return cmd.Process
}

// A pool gets its machines from the example of a server, which is a process of its own. The template of the server has the size of
// the next machines. While the server does not answer, the groups are unknown and nothing changes. When it answers again, the pool
// goes on.
func TestPoolOfAServer(t *testing.T) {
	t.Parallel()
	program, err := testprograms.Own(t.Context(), t.TempDir(), "examples/machines")
	if err != nil {
		t.Fatal(err)
	}
	socket, file := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "pool.yaml")
	if err := daemon.WriteFile(file, []byte(strings.Replace(machinesPool, "SOCKET", socket, 1))); err != nil {
		t.Fatal(err)
	}
	server := background(t, program, "--listen", "unix://"+socket, "--group", "blue:1:8", "--boot", "0s")
	u := startUp(t, t.TempDir(), "--pool-file", file)
	agent := func(id string) {
		background(t, weirOf(t), "agent", "--data", u.data, "--cluster", "local", "--pool", "default", "--group", "blue", "--id", id,
			"--dir", t.TempDir(), "--cpus", "4", "--mem", "4096", "--disk", "1000", "--heartbeat", "1s", "--keep-instances=false", "--admin-addr", "off")
	}
	app := func(instances string) {
		u.weir(t, "app", "set", "shop", "--instances", instances, "--cpus", "3", "--mem", "100", "--command", "sleep 1000")
	}
	target := func(n float64) func(api.PoolStatus) error {
		return func(s api.PoolStatus) error {
			if now := s.LastTick.Snapshot; now.Target != n {
				return fmt.Errorf("the target is %v, want %v", now.Target, n)
			}
			return nil
		}
	}
	agent("blue-1")
	u.pool(t, "the first machine joined", sized(1))
	app("3")
	u.pool(t, "a machine for each copy, by the template of the server", target(3))
	agent("blue-2")
	agent("blue-3")
	u.waitRunning(t, "shop", 3)
	u.pool(t, "three joined machines", sized(3))

	if err := await.Halt(server.Pid); err != nil {
		t.Fatal(err)
	}
	app("4")
	const ticks = 3
	seen := map[time.Time]bool{}
	u.pool(t, "ticks without the server", func(s api.PoolStatus) error {
		if err := target(3)(s); err != nil {
			t.Errorf("without the server: %v", err)
		}
		for _, g := range s.LastTick.Snapshot.Groups {
			if g.Unknown != nil && strings.Contains(g.Unknown.Why, "DeadlineExceeded") {
				seen[s.LastTick.At] = true
			}
		}
		if len(seen) < ticks {
			return fmt.Errorf("%d ticks of %d; groups %+v", len(seen), ticks, s.LastTick.Snapshot.Groups)
		}
		return nil
	})

	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	u.pool(t, "a machine for the fourth copy", target(4))
}
