package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestLimitsValidate(t *testing.T) {
	tests := []struct {
		name   string
		limits Limits
		want   string // empty: valid
	}{
		{"none", Limits{}, ""},
		{"all", Limits{Memory: 64 << 20, CPUs: 0.5, Processes: 10, OpenFiles: 64, AddressMB: 1024}, ""},
		{"MiB for bytes", Limits{Memory: 64}, "memory limit of 64 bytes"},
		{"negative memory", Limits{Memory: -1}, "memory limit of -1 bytes"},
		{"negative CPUs", Limits{CPUs: -1}, "limit of -1 CPUs"},
		{"too little CPU", Limits{CPUs: 0.001}, "limit of 0.001 CPUs"},
		{"CPUs that are no number", Limits{CPUs: math.NaN()}, "limit of NaN CPUs"},
		{"endless CPUs", Limits{CPUs: math.Inf(1)}, "limit of +Inf CPUs"},
		{"negative processes", Limits{Processes: -1}, "limit of -1 processes"},
		{"few open files", Limits{OpenFiles: 3}, "limit of 3 open files"},
		{"little address space", Limits{AddressMB: 1023}, "address space limit of 1023 MiB"},
		{"too many MiB for bytes", Limits{AddressMB: math.MaxInt64}, "address space limit"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.limits.Validate()
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("Validate = %v, want %q", err, test.want)
			}
		})
	}
}

func TestLimitsSettings(t *testing.T) {
	tests := []struct {
		name   string
		limits Limits
		want   []string
	}{
		{"none", Limits{OpenFiles: 20, AddressMB: 2000}, nil},
		{"all", Limits{Memory: 64 << 20, CPUs: 1.5, Processes: 10},
			[]string{"memory.max=67108864", "memory.swap.max=0", "memory.oom.group=1", "cpu.max=150000 100000", "pids.max=10"}},
		{"least CPU", Limits{CPUs: 0.01}, []string{"cpu.max=1000 100000"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, s := range test.limits.settings() {
				got = append(got, s.file+"="+s.value)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// The shell reads its limits in its first instructions. Many of these children would miss limits that are set late.
func TestRlimitsHoldFromFirstInstruction(t *testing.T) {
	launcher := newLauncher(t)
	mark := newMark(t)
	var children []*Child
	var listings []*listing
	for i := range 40 {
		lines := &listing{}
		spec := shell(`ulimit -n; ulimit -Hn; ulimit -v; sh -c 'ulimit -Hn; ulimit -Hv'`, mark, lines)
		spec.Limits = Limits{OpenFiles: 40 + i, AddressMB: 2000 + int64(i)}
		children, listings = append(children, start(t, launcher, spec)), append(listings, lines)
	}
	for i, child := range children {
		if exit := awaitEnd(t, child); exit.Code != 0 || child.Unenforced() != "" {
			t.Errorf("child %d: %s, unenforced %q", i, exit, child.Unenforced())
		}
		files, kilobytes := fmt.Sprint(40+i), fmt.Sprint((2000+i)<<10)
		if diff := cmp.Diff([]string{files, files, kilobytes, files, kilobytes}, listings[i].all()); diff != "" {
			t.Errorf("limits of child %d (-want +got):\n%s", i, diff)
		}
	}
}

// Tracing must not affect a child that ends at once or a child that is killed.
func TestTracedChildEnds(t *testing.T) {
	launcher := newLauncher(t)
	for _, test := range []struct{ command, want string }{
		{"exit 3", "exit status 3"}, {"kill -KILL $$", "killed by SIGKILL"}, {"kill -TRAP $$", "killed by SIGTRAP"},
	} {
		spec := shell(test.command, newMark(t), &listing{})
		spec.Limits = Limits{OpenFiles: 64}
		if exit := awaitEnd(t, start(t, launcher, spec)); exit.String() != test.want {
			t.Errorf("%q: %s, want %s", test.command, exit, test.want)
		}
	}
	spec := Spec{Name: "x", Argv: []string{"/nonexistent/x"}, Limits: Limits{OpenFiles: 64}}
	if _, err := launcher.Start(t.Context(), spec); !errors.Is(err, unix.ENOENT) {
		t.Errorf("Start = %v, want ENOENT", err)
	}
}

// A limit never exceeds that of this process: only root may raise it.
func TestRlimitIsNotRaised(t *testing.T) {
	var ours unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &ours); err != nil {
		t.Fatal(err)
	}
	var lines listing
	spec := shell(`ulimit -Hn`, newMark(t), &lines)
	spec.Limits = Limits{OpenFiles: math.MaxInt32}
	child := start(t, newLauncher(t), spec)
	awaitEnd(t, child)
	if want := []string{fmt.Sprint(min(ours.Max, math.MaxInt32))}; !slices.Equal(lines.all(), want) || child.Unenforced() != "" {
		t.Errorf("limit %q, want %q; unenforced %q", lines.all(), want, child.Unenforced())
	}
}

// Without a cgroup, the memory that each process maps is limited instead of the memory that all use.
func TestMemoryLimitOfEachProcess(t *testing.T) {
	launcher, stop := runChanged(t, withoutCgroups)
	var lines listing
	spec := shell("grep -E 'Max data size|Max address space' /proc/self/limits", newMark(t), &lines)
	spec.Limits = Limits{Memory: 256 << 20}
	awaitEnd(t, start(t, launcher, spec))
	if err := stop(); err != nil {
		t.Error(err)
	}
	got := strings.Join(strings.Fields(strings.Join(lines.all(), "\n")), " ")
	if want := "Max data size 1073741824 1073741824 bytes Max address space unlimited unlimited bytes"; got != want {
		t.Errorf("limits %q, want %q", got, want)
	}
}

// Limits that cannot be enforced are logged once, and the child runs.
func TestUnenforceableLimitsAreLogged(t *testing.T) {
	var logged bytes.Buffer
	launcher, stop := runChanged(t, func(l *Launcher) {
		withoutCgroups(l)
		l.log = slog.New(slog.NewTextHandler(&logged, nil))
	})
	var lines listing
	spec := shell("ulimit -n", newMark(t), &lines)
	spec.Limits = Limits{Memory: 1 << 30, CPUs: 1, Processes: 50, OpenFiles: 64}
	awaitEnd(t, start(t, launcher, spec))
	child := start(t, launcher, spec)
	awaitEnd(t, child)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(lines.all(), []string{"64", "64"}) {
		t.Errorf("output %q", lines.all())
	}
	const want = "memory: no cgroup v2: each process may map 4096 MiB instead; CPUs: no cgroup v2; processes: no cgroup v2"
	if child.Unenforced() != want || strings.Count(logged.String(), want) != 1 || !strings.Contains(logged.String(), "level=WARN") {
		t.Errorf("unenforced %q, logged %s, want %q", child.Unenforced(), logged.String(), want)
	}
}

// A child that may not enter its cgroup starts outside of it, with the limits that can be set.
func TestForkWithoutCgroup(t *testing.T) {
	runtime.LockOSThread() // this thread traces, and its death kills the child
	defer runtime.UnlockOSThread()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec := shell(`[ "$(ulimit -n)" = 64 ]`, newMark(t), &listing{})
	spec.Limits = Limits{Processes: 50, OpenFiles: 64}
	p := &placement{limits: spec.Limits, cgroup: cgroup(dir.Name()), dir: dir}
	process, err := p.fork(spec, os.ProcAttr{Env: spec.Env})
	if err != nil {
		t.Fatal(err)
	}
	state, err := process.Wait()
	if err != nil || !state.Success() {
		t.Errorf("it ended with %v, %v", state, err)
	}
	if want := "processes: no cgroup v2: enter it: "; !strings.HasPrefix(p.describe(), want) || p.cgroup != "" || p.dir != nil {
		t.Errorf("unenforced %q, want %q; cgroup %q", p.describe(), want, p.cgroup)
	}
	if strings.Contains(p.describe(), "open files") {
		t.Errorf("unenforced %q", p.describe())
	}
}

func TestLimitRunning(t *testing.T) {
	launcher := newLauncher(t)
	child := start(t, launcher, shell("exec sleep 1000", newMark(t), &listing{}))
	p := &placement{}
	p.limitRunning(child.PID(), Limits{OpenFiles: 77}.rlimits())
	var got unix.Rlimit
	if err := unix.Prlimit(child.PID(), unix.RLIMIT_NOFILE, nil, &got); err != nil || got.Cur != 77 || got.Max != 77 {
		t.Errorf("limit %+v, %v", got, err)
	}
	if !strings.HasPrefix(p.describe(), "open files: set only after") {
		t.Errorf("unenforced %q", p.describe())
	}
	if err := child.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
