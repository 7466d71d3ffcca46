package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// cgroupsAvailable reports whether this system lets the test create cgroups. Tests expect cgroups if it does, and the
// fallback otherwise.
func cgroupsAvailable(t testing.TB) bool {
	t.Helper()
	g, err := locateCgroup(strings.ReplaceAll(t.Name(), "/", "-"))
	if err == nil {
		err = g.create()
	}
	if err != nil {
		t.Logf("this system has no cgroups for us: %v", err)
		return false
	}
	if err := g.remove(); err != nil {
		t.Error(err)
	}
	return true
}

// withAndWithoutCgroups runs a test with launchers without a cgroup, with launchers whose cgroup is refused, and, if
// this system allows it, with launchers that have one.
func withAndWithoutCgroups(t *testing.T, test func(t *testing.T, l *Launcher, stop func() error, have bool)) {
	run := func(name string, have bool, change func(*Launcher)) {
		t.Run(name, func(t *testing.T) {
			launcher, stop := runChanged(t, change)
			ended := sync.OnceValue(stop)
			defer func() {
				if err := ended(); err != nil {
					t.Errorf("launcher's end: %v", err)
				}
			}()
			test(t, launcher, ended, have)
		})
	}
	run("no cgroups", false, withoutCgroups)
	refused := cgroup(t.TempDir()).child("weir-X")
	run("cgroup refused", false, func(l *Launcher) { l.cgroup, l.noCgroup = refused, nil })
	if cgroupsAvailable(t) {
		run("in a cgroup", true, func(*Launcher) {})
	}
}

// cgroupOf returns the cgroup of a process.
func cgroupOf(t testing.TB, pid int) cgroup {
	t.Helper()
	mounts, err := os.ReadFile(procPath(pid, "mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	membership, err := os.ReadFile(procPath(pid, "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := findCgroup(mounts, membership)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// fakeCgroup returns a folder with the files of a cgroup, below a parent that has some controllers. It contains no
// processes.
func fakeCgroup(t *testing.T, controllers string) cgroup {
	t.Helper()
	g := cgroup(t.TempDir()).child("weir-FAKE")
	for _, dir := range []cgroup{g.parent(), g} {
		_ = os.Mkdir(string(dir), 0o755) // the parent may exist
		for file, text := range map[string]string{
			"cgroup.controllers": controllers, "cgroup.subtree_control": "", "cgroup.kill": "",
			"memory.max": "", "cpu.max": "", "pids.max": "",
		} {
			if err := os.WriteFile(dir.file(file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return g
}

func TestFindCgroup(t *testing.T) {
	const (
		unified = "36 25 0:31 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
		hybrid  = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n40 25 0:36 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n"
		inside  = "50 49 0:31 /docker/a1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
		odd     = "50 49 0:31 / /odd\\040name rw - cgroup2 cgroup rw\n"
	)
	tests := []struct {
		name, mounts, membership string
		want                     cgroup // empty: an error
	}{
		{"systemd", unified, "0::/system.slice/weir.service/main\n", "/sys/fs/cgroup/system.slice/weir.service/main"},
		{"root", unified, "0::/\n", "/sys/fs/cgroup"},
		{"beside v1", hybrid, "4:memory:/x\n0::/y\n", "/sys/fs/cgroup/unified/y"},
		{"container that sees its host's names", inside, "0::/docker/a1/b\n", "/sys/fs/cgroup/b"},
		{"outside of what is mounted", inside, "0::/docker/a2\n", ""},
		{"container that shows part of it", unified, "0::/../../x\n", ""},
		{"only v1", "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/x\n", ""},
		{"not mounted", "", "0::/\n", ""},
		{"spaces in the mount point", odd, "0::/\n", ""},
		{"garbage", " - \n - cgroup2 \nx - cgroup2 y\n", "0::/\n0::\n:", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := findCgroup([]byte(test.mounts), []byte(test.membership))
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("findCgroup = %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func FuzzFindCgroup(f *testing.F) {
	f.Add([]byte("36 25 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), []byte("0::/a\n"))
	f.Fuzz(func(t *testing.T, mounts, membership []byte) {
		if g, err := findCgroup(mounts, membership); err == nil && strings.Contains(string(g), "..") &&
			!strings.Contains(string(membership)+string(mounts), "..") {
			t.Errorf("findCgroup = %q", g)
		}
	})
}

func TestPlaceWritesLimits(t *testing.T) {
	tests := []struct {
		name, controllers string
		want              map[string]string // by file; all other files are empty
		unenforced        []string
	}{
		{"all controllers", "cpu memory pids", map[string]string{"memory.max": "1048576", "cpu.max": "50000 100000", "pids.max": "9"}, nil},
		{"one controller", "hugetlb pids", map[string]string{"pids.max": "9"}, []string{"memory: ", "CPUs: "}},
		{"none", "", nil, []string{"memory: ", "CPUs: ", "processes: "}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := &Launcher{cgroup: fakeCgroup(t, test.controllers)}
			// The kernel would create the files with the folder. Here a link provides them.
			if err := os.Symlink(string(l.cgroup), string(l.cgroup.child("7"))); err != nil {
				t.Fatal(err)
			}
			p := &placement{limits: Limits{Memory: 1 << 20, CPUs: 0.5, Processes: 9}, cgroup: l.cgroup.child("7")}
			p.limit(l.cgroup)
			for _, file := range []string{"memory.max", "cpu.max", "pids.max"} {
				text, err := os.ReadFile(p.cgroup.file(file))
				if string(text) != test.want[file] || err != nil {
					t.Errorf("%s: %q, %v, want %q", file, text, err, test.want[file])
				}
			}
			if len(p.unenforced) != len(test.unenforced) {
				t.Errorf("unenforced %q, want %q", p.unenforced, test.unenforced)
			}
			for i, want := range test.unenforced {
				if got := p.unenforced[i].Error(); !strings.HasPrefix(got, want) || !strings.Contains(got, "has no controller") {
					t.Errorf("unenforced %q, want %q", got, want)
				}
			}
		})
	}
}

// If a cgroup is not available, for each reason, the child starts without one.
func TestCgroupRefused(t *testing.T) {
	g := cgroup(t.TempDir()).child("weir-X")
	if err := g.create(); err == nil || !strings.Contains(err.Error(), "cannot kill") {
		t.Errorf("create where there is no cgroup.kill = %v", err)
	}
	if _, err := os.Stat(string(g)); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
	if err := g.child("missing").create(); err == nil {
		t.Error("create in a folder that is not there succeeds")
	}
	if err := g.remove(); err != nil {
		t.Errorf("remove what is not there = %v", err)
	}
	if err := cgroup(t.TempDir()).enable("cpu"); err == nil {
		t.Error("enable in no cgroup succeeds")
	}
}

// A real controller, whichever exists, is enabled in a real cgroup.
func TestEnableController(t *testing.T) {
	g, err := locateCgroup(t.Name())
	if err == nil {
		err = g.create()
	}
	if err != nil {
		if cgroupsAvailable(t) {
			t.Error(err)
		}
		return // nothing is available: TestUnenforceableLimitsAreLogged covers it
	}
	defer func() {
		if err := g.remove(); err != nil {
			t.Error(err)
		}
	}()
	if err := g.enable("nonsense"); err == nil || !strings.Contains(err.Error(), "has no controller nonsense") {
		t.Errorf("enable nonsense = %v", err)
	}
	text, err := os.ReadFile(g.parent().file("cgroup.controllers"))
	if err != nil {
		t.Fatal(err)
	}
	for controller := range strings.FieldsSeq(string(text)) {
		was := g.parent().lists("cgroup.subtree_control", controller)
		err := g.enable(controller)
		if err != nil && !strings.Contains(err.Error(), "has processes of its own") && !strings.Contains(err.Error(), "enable controller") {
			t.Errorf("enable %s = %v", controller, err)
		}
		if err == nil && !g.lists("cgroup.subtree_control", controller) {
			t.Errorf("%s is not enabled", controller)
		}
		_ = g.write("cgroup.subtree_control", "-"+controller)
		if !was {
			_ = g.parent().write("cgroup.subtree_control", "-"+controller)
		}
	}
}

// The launcher's cgroup is beside the subgroup of a unit that systemd delegated, not in it.
func TestDelegatedMark(t *testing.T) {
	if cgroup(t.TempDir()).delegated() {
		t.Error("a folder without a mark is delegated")
	}
	g, err := locateCgroup(t.Name())
	if err == nil {
		err = g.create()
	}
	if err != nil {
		g = cgroup(t.TempDir()) // it may not support extended attributes; then it is not delegated
	}
	defer func() { _ = g.remove() }()
	marked := unix.Setxattr(string(g), delegateMark, []byte("1"), 0) == nil
	if g.delegated() != marked {
		t.Errorf("delegated %v, marked %v", g.delegated(), marked)
	}
}

func TestChildIsInCgroupOfItsOwn(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, launcher *Launcher, stop func() error, have bool) {
		child := start(t, launcher, shell("exec sleep 1000", newMark(t), &listing{}))
		if !have {
			if child.cgroup != "" {
				t.Errorf("it is in %s", child.cgroup)
			}
		} else if got, want := cgroupOf(t, child.PID()), launcher.cgroup.child("1"); got != want {
			t.Errorf("it is in %s, want %s", got, want)
		}
		if err := child.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(string(launcher.cgroup.child("1"))); !os.IsNotExist(err) {
			t.Errorf("its cgroup is left: %v", err)
		}
		if _, err := launcher.Start(t.Context(), Spec{Name: "x", Argv: []string{"/nonexistent/x"}}); err == nil {
			t.Error("Start of nothing succeeds")
		}
		if _, err := os.Stat(string(launcher.cgroup.child("2"))); !os.IsNotExist(err) {
			t.Errorf("the cgroup of one that did not start is left: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(string(launcher.cgroup)); have && !os.IsNotExist(err) {
			t.Errorf("the launcher's cgroup is left: %v", err)
		}
	})
}

// A child may have created cgroups itself. Without cgroups, a process that has left its group and its environment
// escapes.
func TestCgroupsInCgroupAreRemoved(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, launcher *Launcher, _ func() error, have bool) {
		var lines listing
		spec := shell(`mkdir -p "$CGROUP/a/b" && echo 0 >"$CGROUP/a/b/cgroup.procs"
			setsid env -i sh -c 'echo $$; echo out >'"$OUT"'; exec sleep 1000' & until [ -s "$OUT" ]; do :; done`,
			newMark(t), &lines)
		dir := launcher.cgroup.child("1")
		if !have {
			dir = cgroup(t.TempDir())
		}
		spec.Env = append(spec.Env, "CGROUP="+string(dir), "OUT="+filepath.Join(t.TempDir(), "out"))
		awaitEnd(t, start(t, launcher, spec))
		if _, err := os.Stat(string(dir)); have && !os.IsNotExist(err) {
			t.Errorf("left: %v", err)
		}
		escaped := pidsIn(lines.all())
		if len(escaped) != 1 {
			t.Errorf("output %q, want one pid", lines.all())
		}
		for _, pid := range escaped {
			if lives(pid) == have {
				t.Errorf("process %d lives: %v", pid, lives(pid))
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// After kill -9 of the supervisor, the keeper kills what only the cgroup finds, and removes the cgroups.
func TestKeeperClearsCgroups(t *testing.T) {
	have := cgroupsAvailable(t)
	s := startSupervisor(t, `(setsid env -i sleep 1000 & echo $!); echo ready; exec sleep 1000`)
	escaped := pidsIn(s.printed.all())
	if len(escaped) != 1 {
		t.Fatalf("said %q", s.printed.all())
	}
	dir := cgroupOf(t, escaped[0]).parent()
	if have && !strings.HasPrefix(filepath.Base(string(dir)), cgroupPrefix) {
		t.Fatalf("it is in a cgroup of %s", dir)
	}
	if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.reap()
	if !have {
		_ = syscall.Kill(escaped[0], syscall.SIGKILL)
	}
	s.assertGone(t)
	await.True(t, "the cgroups are gone", func() bool {
		_, err := os.Stat(string(dir))
		return !have || os.IsNotExist(err)
	})
}

// A leader that leaves its group is killed all the same, by its own number.
func TestLeaderThatLeavesItsGroup(t *testing.T) {
	for _, change := range []func(*Launcher){withoutCgroups, func(*Launcher) {}} {
		launcher, stop := runChanged(t, change)
		mark := newMark(t)
		child := start(t, launcher, Spec{Name: "leaver", Argv: []string{self}, StopGrace: 50 * time.Millisecond,
			Env: []string{roleVariable + "=leave", markVariable + "=" + mark}})
		await.True(t, "it left its group", func() bool {
			e, err := readEntry(child.PID())
			return err == nil && e.group != child.PID()
		})
		if err := child.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestLauncherLeavesNoCgroups(t *testing.T) {
	launcher, stop := runLauncher(t)
	mark := newMark(t)
	for range 20 {
		start(t, launcher, shell("exec sleep 1000", mark, &listing{}))
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(string(launcher.cgroup)); launcher.cgroup != "" && !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
}
