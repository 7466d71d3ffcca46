package supervise

import (
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// ends are the ways in which children of the stress test end.
var ends = []struct {
	name, command string
	signal        syscall.Signal // 0: it exits
}{
	{"killed", `echo ready; exec sleep 1000`, syscall.SIGKILL},
	{"killed before it is ready", `exec sleep 1000`, syscall.SIGKILL},
	{"stopped, then failed", `trap '' TERM; while :; do sleep 1000; done`, syscall.SIGSTOP},
	{"double fork", `(setsid sh -c 'sleep 1000 & exec sleep 1000' &); exec sleep 1000`, syscall.SIGKILL},
	{"ends, grandchild holds the pipes", `sleep 1000 & (setsid sleep 1000 &)`, 0},
	{"closed output", `exec >&- 2>&-; exec sleep 1000`, syscall.SIGTERM},
	{"flood", `yes`, syscall.SIGKILL},
	{"flood, reader of the middle gone", `yes | head -c 100000`, 0},
}

// leftovers counts resources that children may leave in this process.
type leftovers struct{ descriptors, children, cgroups int }

func countLeftovers(t *testing.T, l *Launcher) (n leftovers) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	all, err := pids()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		if parentOf(pid) == os.Getpid() { // dead or alive
			n.children++
		}
	}
	cgroups, _ := os.ReadDir(string(l.cgroup)) // an error means that there are no cgroups
	for _, e := range cgroups {
		if e.IsDir() {
			n.cgroups++
		}
	}
	n.descriptors = len(fds)
	return n
}

// Three hundred children end in all ways, eight at a time. Nothing is left.
func TestStress(t *testing.T) {
	const workers, each = 8, 38
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	launcher := newLauncher(t)
	mark := newMark(t)
	awaitEnd(t, start(t, launcher, shell("true", mark, &listing{})))
	before, goroutines := countLeftovers(t, launcher), goleak.IgnoreCurrent()

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	tail := output.NewTail(100, 10_000)
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for range each {
				stressOne(t, launcher, random, mark, tail)
			}
		})
	}
	working.Wait()

	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("processes left: %d", left)
	}
	if after := countLeftovers(t, launcher); after != before {
		t.Errorf("%+v, before it was %+v", after, before)
	}
	goleak.VerifyNone(t, goroutines)
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("temporary files left: %v, %v", files, err)
	}
}

func stressOne(t *testing.T, launcher *Launcher, random *rand.Rand, mark string, tail *output.Tail) {
	end := ends[random.IntN(len(ends))]
	spec := shell(end.command, mark, &listing{})
	spec.Lines = func(string, []byte) {}
	spec.StopGrace, spec.Tail = 20*time.Millisecond, tail
	if random.IntN(2) == 0 {
		spec.Limits = Limits{OpenFiles: 100, Processes: 100}
	}
	if end.signal == syscall.SIGSTOP {
		stressFail(t, launcher, spec)
		return
	}
	child, err := launcher.Start(t.Context(), spec)
	if err != nil {
		t.Errorf("%s: %v", end.name, err)
		return
	}
	select {
	case <-child.Done():
	case <-time.After(time.Duration(random.IntN(20)) * time.Millisecond):
	}
	if end.signal != 0 {
		_ = syscall.Kill(child.PID(), end.signal) // an error means that it has ended
	}
	select {
	case <-child.Done():
	case <-time.After(await.Patience):
		t.Errorf("%s: not done after %s", end.name, await.Patience)
	}
}

// stressFail stops the child of a process, reports it as hung, and waits for another.
func stressFail(t *testing.T, launcher *Launcher, spec Spec) {
	p := superviseWith(t, launcher, ProcessConfig{NewSpec: always(spec), Policy: quick(5)})
	before := p.await(t, Running)
	_ = syscall.Kill(-before.PID, syscall.SIGSTOP)
	p.Fail("silent")
	after := p.await(t, Running)
	if lives(before.PID) || after.PID == before.PID {
		t.Errorf("stopped child %d lives", before.PID)
	}
	if err := p.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
}
