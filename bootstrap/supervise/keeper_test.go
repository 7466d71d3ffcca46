package supervise

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// supervisor is a process that runs superviseCommand.
type supervisor struct {
	pid     int
	mark    string
	printed *listing
	reap    func()
}

func startSupervisor(t *testing.T, command string) supervisor {
	t.Helper()
	mark := newMark(t)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"=supervise", commandVariable+"="+command, markVariable+"="+mark)
	printed := &listing{}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			printed.add("", lines.Bytes())
		}
	})
	reap := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = read.SetReadDeadline(time.Now().Add(await.Patience))
		reading.Wait()
		read.Close()
	})
	t.Cleanup(reap)
	await.True(t, "ready", func() bool {
		lines := printed.all()
		return len(lines) > 0 && strings.Contains(strings.Join(lines, "\n"), "ready")
	})
	return supervisor{cmd.Process.Pid, mark, printed, reap}
}

// assertGone fails unless all processes of the supervisor end in time.
func (s supervisor) assertGone(t *testing.T) {
	t.Helper()
	began := time.Now()
	await.True(t, "nothing is left", func() bool {
		return !slices.ContainsFunc(append(pidsIn(s.printed.all()), marked(t, s.mark)...), lives)
	})
	t.Logf("nothing left after %s", time.Since(began).Round(time.Millisecond))
}

// keeperOf returns the keeper of a process.
func keeperOf(t *testing.T, parent int) int {
	t.Helper()
	all, err := pids() // keepers do not carry the mark
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		if strings.HasSuffix(commandLine(pid), " keep") && parentOf(pid) == parent {
			return pid
		}
	}
	return 0
}

func parentOf(pid int) int {
	stat, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	if parents := pidsIn(fields[1:2]); len(parents) == 1 {
		return parents[0]
	}
	return 0
}

func TestNothingSurvivesKillOfSupervisor(t *testing.T) {
	for _, family := range processTrees {
		t.Run(family.name, func(t *testing.T) {
			s := startSupervisor(t, family.command)
			if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			s.reap()
			s.assertGone(t)
		})
	}
}

// Nothing survives a kill during starts and ends either.
func TestNothingSurvivesKillDuringStarts(t *testing.T) {
	for i := range 10 {
		s := startSupervisor(t, `churn: (setsid sleep 1000 &); sleep 1000 & echo $!; echo ready`)
		await.True(t, "some starts", func() bool { return len(s.printed.all()) > 10*i })
		if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.reap()
		s.assertGone(t)
	}
}

func TestNothingSurvivesSIGTERMOfSupervisor(t *testing.T) {
	s := startSupervisor(t, `(setsid sleep 1000 &); sleep 1000 & echo ready; wait`)
	if err := syscall.Kill(s.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.assertGone(t)
}

func TestKeeperOutlivesSignals(t *testing.T) {
	s := startSupervisor(t, `(setsid sleep 1000 &); echo ready; exec sleep 1000`)
	keeper := keeperOf(t, s.pid)
	if keeper == 0 {
		t.Fatal("no keeper")
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
		if err := syscall.Kill(keeper, sig); err != nil {
			t.Fatal(err)
		}
	}
	e, err := readEntry(keeper)
	if err != nil || e.session != keeper {
		t.Errorf("keeper %d is in session %d, %v", keeper, e.session, err)
	}
	if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.reap()
	s.assertGone(t)
}

func TestKeeperIsReplaced(t *testing.T) {
	s := startSupervisor(t, `(setsid sleep 1000 &); env -i sleep 1000 & echo $!; echo ready; wait`)
	first := keeperOf(t, s.pid)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await.True(t, "another keeper", func() bool {
		next := keeperOf(t, s.pid)
		return next != 0 && next != first
	})
	if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.reap()
	s.assertGone(t)
}

// A replacement keeper has the groups that started before it.
func TestReplacedKeeperKnowsGroups(t *testing.T) {
	launcher := newLauncher(t)
	mark := newMark(t)
	child := start(t, launcher, shell("exec sleep 1000", mark, &listing{}))
	first := currentKeeper(launcher)
	if err := first.process.Kill(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "another keeper", func() bool { return currentKeeper(launcher) != first })
	// Its launcher runs, so the keeper must not kill anything.
	if !lives(child.PID()) {
		t.Error("the child died with the keeper")
	}
	if err := child.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func currentKeeper(l *Launcher) *keeper {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keeper
}

// The outer keeper covers an inner supervisor without a keeper.
func TestOuterKeeperCoversInnerSupervisor(t *testing.T) {
	s := startSupervisor(t, `inner: (setsid sleep 1000 &); sleep 1000 & echo ready; wait`)
	var inner int
	for _, pid := range marked(t, s.mark) {
		if parentOf(pid) == s.pid && !strings.HasSuffix(commandLine(pid), " keep") {
			inner = pid
		}
	}
	keeper := keeperOf(t, inner)
	if inner == 0 || keeper == 0 {
		t.Fatalf("inner supervisor %d, its keeper %d", inner, keeper)
	}
	for _, kill := range []struct {
		pid int
		sig syscall.Signal
	}{{inner, syscall.SIGSTOP}, {keeper, syscall.SIGKILL}, {s.pid, syscall.SIGKILL}} {
		if err := syscall.Kill(kill.pid, kill.sig); err != nil {
			t.Fatal(err)
		}
	}
	s.reap()
	s.assertGone(t)
}

func TestLauncherNeedsKeeper(t *testing.T) {
	noise := filepath.Join(t.TempDir(), "noise")
	if err := testprograms.Write(noise, "#!/bin/sh\necho no such command: keep\n"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		argv []string
		want string
	}{
		{"ends", []string{"/bin/false"}, `it printed ""`},
		{"other words", []string{noise}, `it printed "no such command: keep\n"`},
		{"no such file", []string{"/nonexistent/keeper"}, "no such file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			launcher, err := NewLauncher(Config{KeeperArgv: test.argv, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if err := launcher.Run(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Run = %v, want %q in it", err, test.want)
			}
			if _, err := launcher.Start(t.Context(), shell("true", "", &listing{})); err == nil {
				t.Error("Start without a keeper succeeds")
			}
		})
	}
}

func TestReadRegister(t *testing.T) {
	long := strings.Repeat("x", 3*maxRegisterLine)
	tests := []struct {
		name, lines string
		want        survivors
		bad         bool
	}{
		{"nothing", "", survivors{groups: map[int]group{}}, false},
		{"groups", "= T\n+ 7 5 900\n+ 8 5 901\n- 7\n",
			survivors{tag: "T", groups: map[int]group{8: {id: 8, session: 5, start: 901}}}, false},
		{"cgroup", "= T\n@ /sys/fs/cgroup/a b/weir-T\n", survivors{tag: "T", groups: map[int]group{}, cgroup: "/sys/fs/cgroup/a b/weir-T"}, false},
		{"cgroups of others", "@ /sys/weir-\n= T\n@ /sys\n@ /sys/weir-U\n@ weir-T\n@ /sys/../weir-T\n@\n",
			survivors{tag: "T", groups: map[int]group{}}, true},
		{"cut off", "= T\n+ 7 5 9", survivors{tag: "T", groups: map[int]group{7: {id: 7, session: 5, start: 9}}}, false},
		{"all processes", "= T\n+ -1 5 900\n+ 0 5 900\n+ 1 5 900\n", survivors{tag: "T", groups: map[int]group{}}, true},
		{"a long line, then a good one", long + "\n= T\n", survivors{tag: "T", groups: map[int]group{}}, true},
		{"garbage", "\n\x00\n+ a b c\n- x\n=\n= T\n", survivors{tag: "T", groups: map[int]group{}}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := readRegister(strings.NewReader(test.lines))
			if (err != nil) != test.bad {
				t.Errorf("error %v, want one: %v", err, test.bad)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(survivors{}, group{})); diff != "" {
				t.Errorf("register (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzReadRegister(f *testing.F) {
	f.Add("= T\n+ 7 5 900\n- 7\n")
	f.Add("+ -1 0 0\n")
	f.Add("= T\n@ /sys/fs/cgroup/weir-T\n")
	f.Fuzz(func(t *testing.T, lines string) {
		q, _ := readRegister(strings.NewReader(lines))
		for id := range q.groups {
			if id <= 1 {
				t.Errorf("group %d is registered", id)
			}
		}
		if q.cgroup != "" && !strings.HasPrefix(filepath.Base(string(q.cgroup)), cgroupPrefix) {
			t.Errorf("cgroup %q is registered", q.cgroup)
		}
	})
}

func TestParseStat(t *testing.T) {
	const rest = " 1 77 55 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 100 200\n"
	tests := []struct {
		name, stat string
		want       entry
		bad        bool
	}{
		{"plain", "12 (sh) S" + rest, entry{12, 77, 55, 4711, false}, false},
		{"command with parentheses", "12 (a) Z (b)) R" + rest, entry{12, 77, 55, 4711, false}, false},
		{"zombie", "12 (sh) Z" + rest, entry{12, 77, 55, 4711, true}, false},
		{"empty", "", entry{}, true},
		{"short", "12 (sh) S 1 77", entry{}, true},
		{"no number", "x (sh) S" + rest, entry{}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseStat([]byte(test.stat))
			if got != test.want || (err != nil) != test.bad {
				t.Errorf("parseStat(%q) = %+v, %v, want %+v", test.stat, got, err, test.want)
			}
		})
	}
}

// A process that executes one program after another carries its tag all the time. About every fiftieth reading finds
// its environment empty, and waits. On a busy machine the process may execute for longer than that: the tag is unknown.
func TestTagOfProcessThatExecutes(t *testing.T) {
	spec := shell(`echo ready; exec /bin/sh -c "$LOOP"`, newMark(t), &listing{})
	spec.Env = append(spec.Env, `LOOP=exec /bin/sh -c "$LOOP"`)
	for i := range 64 { // the environment is larger than the first read of io.ReadAll
		spec.Env = append(spec.Env, fmt.Sprintf("FILLER%d=%s", i, strings.Repeat("x", 200)))
	}
	child := start(t, newLauncher(t), spec)
	readings := 0
	for i := range 3000 {
		switch value, known := readTag(child.PID()); {
		case known && value != child.tag:
			t.Fatalf("reading %d: tag %q, want %q", i, value, child.tag)
		case known:
			readings++
		}
	}
	if readings == 0 {
		t.Error("the tag is unknown in all readings")
	}
	if err := child.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestHasNoEnviron(t *testing.T) {
	stat := func(flags, code, start, end string) string {
		return "12 (a ) b) S 1 77 55 0 -1 " + flags + strings.Repeat(" 0", 16) + " " + code + strings.Repeat(" 0", 23) + " " + start + " " + end + " 0\n"
	}
	tests := []struct {
		name, stat string
		want       bool
	}{
		{"has one", stat("4194304", "512", "4096", "4200"), false},
		{"started with none", stat("4194304", "512", "4096", "4096"), true},
		{"its environment is being set", stat("4194304", "0", "4096", "4096"), false},
		{"executes another program", stat("4194304", "0", "0", "0"), false},
		{"ends", stat("4194308", "512", "0", "0"), true},
		{"thread of the kernel", stat("2097216", "0", "0", "0"), true},
		{"old kernel", "12 (sh) S 1 77 55 0 -1 4194304", true},
		{"no process", "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := hasNoEnviron([]byte(test.stat)); got != test.want {
				t.Errorf("hasNoEnviron(%q) = %v, want %v", test.stat, got, test.want)
			}
		})
	}
	own, err := os.ReadFile(procPath(os.Getpid(), "stat"))
	if err != nil || hasNoEnviron(own) {
		t.Errorf("hasNoEnviron of this process = true, %v", err)
	}
}

// A process with an unknown tag may be a survivor: it must not end the search.
func TestKillMemberWithUnknownTag(t *testing.T) {
	for known, want := range map[bool]bool{true: false, false: true} {
		if got := (survivors{tag: "T"}).killMember(entry{pid: 1}, func() (string, bool) { return "", known }); got != want {
			t.Errorf("known %v: meet = %v, want %v", known, got, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (sh) S 1 77 55 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 100 200\n"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, stat []byte) { _, _ = parseStat(stat); hasNoEnviron(stat) })
}

func TestCarries(t *testing.T) {
	tests := []struct {
		value, tag string
		want       bool
	}{
		{"", "A", false},
		{"A.1", "A", true},
		{"A.1", "A.1", true},
		{"A.11", "A.1", false},
		{"AB.1", "A", false},
		{"A.1:B.2", "B", true},
		{"A.1:B.2", "A.1", true},
		{"A.1:B.2", "B.1", false},
	}
	for _, test := range tests {
		if got := carries(test.value, test.tag); got != test.want {
			t.Errorf("carries(%q, %q) = %v, want %v", test.value, test.tag, got, test.want)
		}
	}
}

func TestGroupOwns(t *testing.T) {
	ours := group{id: 77, session: 55, start: 4711}
	tests := []struct {
		name string
		e    entry
		want bool
	}{
		{"leader", entry{77, 77, 55, 4711, false}, true},
		{"younger member", entry{80, 77, 55, 4800, false}, true},
		{"another group", entry{80, 78, 55, 4800, false}, false},
		{"the number came to another session", entry{77, 77, 99, 4800, false}, false},
		{"older than the group", entry{70, 77, 55, 4000, false}, false},
	}
	for _, test := range tests {
		if got := ours.owns(test.e); got != test.want {
			t.Errorf("%s: owns(%+v) = %v, want %v", test.name, test.e, got, test.want)
		}
	}
}
