package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// otherUser is a user id that no account of a test machine uses.
const otherUser = 60999

// maySwitch reports whether this process may start children as other users. If not, the tests check the refusal.
func maySwitch(t testing.TB) bool {
	t.Helper()
	missing, err := MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		t.Logf("this process may not start children as other users: it lacks %v", missing)
	}
	return len(missing) == 0
}

// run starts a shell command and returns the lines that it prints.
func run(t *testing.T, l *Launcher, command string, change func(*Spec)) []string {
	t.Helper()
	var lines listing
	spec := shell(command, newMark(t), &lines)
	change(&spec)
	if exit := awaitEnd(t, start(t, l, spec)); exit.Code != 0 {
		t.Fatalf("%q: %s, output %q", command, exit, lines.all())
	}
	return lines.all()
}

func isolated(s *Spec) { s.Isolated = true }

func asOther(s *Spec) { s.Isolated, s.User = true, otherUser }

const privileges = "grep -E '^(NoNewPrivs|CapInh|CapAmb)' /proc/self/status"

func TestIsolatedChildGainsNoPrivileges(t *testing.T) {
	l := newLauncher(t)
	const none = "0000000000000000"
	want := []string{"CapInh:\t" + none, "CapAmb:\t" + none, "NoNewPrivs:\t1"}
	if diff := cmp.Diff(want, run(t, l, privileges, isolated)); diff != "" {
		t.Errorf("isolated child (-want +got):\n%s", diff)
	}
	// Another thread starts a child that is not isolated.
	if got := run(t, l, privileges, func(*Spec) {}); !slices.Contains(got, "NoNewPrivs:\t0") {
		t.Errorf("another child: %q, want it to gain privileges", got)
	}
}

// A descriptor that this process inherited, for example from a shell or systemd, does not reach children.
func TestChildInheritsNoDescriptors(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(secret, unix.O_RDONLY, 0) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	open := run(t, newLauncher(t), "ls -l /proc/self/fd", isolated)
	if text := strings.Join(open, "\n"); strings.Contains(text, secret) || !strings.Contains(text, "/dev/null") {
		t.Errorf("the child has open:\n%s", text)
	}
}

func TestMissingRights(t *testing.T) {
	missing, err := MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "CapEff:\t")
	var effective uint64
	if _, err := fmt.Sscanf(rest, "%x", &effective); err != nil {
		t.Fatal(err)
	}
	for _, r := range switchCapabilities() {
		if has := effective&(1<<r.number) != 0; has == slices.Contains(missing, r.name) {
			t.Errorf("%s: in /proc %v, missing are %v", r.name, has, missing)
		}
		if !strings.Contains(SwitchCapabilities(), r.name) {
			t.Errorf("SwitchRights %q lacks %s", SwitchCapabilities(), r.name)
		}
	}
}

func TestChildOfAnotherUser(t *testing.T) {
	l := newLauncher(t)
	if !maySwitch(t) {
		spec := shell("true", newMark(t), &listing{})
		asOther(&spec)
		if _, err := l.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "operation not permitted") {
			t.Errorf("Start = %v, want it not permitted", err)
		}
		return
	}
	got := run(t, l, "id -u; id -g; id -G; grep -E '^Cap(Prm|Eff)' /proc/self/status; "+privileges, asOther)
	const none = "0000000000000000"
	id := fmt.Sprint(otherUser)
	want := []string{id, id, id, "CapPrm:\t" + none, "CapEff:\t" + none, "CapInh:\t" + none, "CapAmb:\t" + none, "NoNewPrivs:\t1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("child (-want +got):\n%s", diff)
	}
}

// The limits of a child of another user apply without CAP_SYS_RESOURCE. The limit of its processes applies without a
// cgroup.
func TestLimitsOfAnotherUser(t *testing.T) {
	if !maySwitch(t) {
		return // TestChildOfAnotherUser covers this case
	}
	l, stop := runChanged(t, withoutCgroups)
	var lines listing
	spec := shell("grep -E 'Max (processes|open files|data size)' /proc/self/limits", newMark(t), &lines)
	asOther(&spec)
	spec.Limits = Limits{Memory: 256 << 20, Processes: 40, OpenFiles: 50}
	child := start(t, l, spec)
	awaitEnd(t, child)
	if err := stop(); err != nil {
		t.Error(err)
	}
	got := strings.Join(strings.Fields(strings.Join(lines.all(), " ")), " ")
	want := "Max data size 1073741824 1073741824 bytes Max processes 40 40 processes Max open files 50 50 files"
	if got != want {
		t.Errorf("limits %q, want %q", got, want)
	}
	if unenforced := child.Unenforced(); strings.Contains(unenforced, "processes:") {
		t.Errorf("unenforced %q, want nothing of processes", unenforced)
	}
}

// The end of a child of another user kills its group and the processes that left the group.
func TestChildOfAnotherUserLeavesNothing(t *testing.T) {
	if !maySwitch(t) {
		return // as above
	}
	withAndWithoutCgroups(t, func(t *testing.T, l *Launcher, _ func() error, _ bool) {
		var lines listing
		spec := shell("setsid sleep 1000 & echo $!; exec sleep 1000", newMark(t), &lines)
		asOther(&spec)
		child := start(t, l, spec)
		await.True(t, "the number of the child's process", func() bool { return len(lines.all()) == 1 })
		var strayed int
		if _, err := fmt.Sscan(lines.all()[0], &strayed); err != nil {
			t.Fatal(err)
		}
		if !BelongsTo(strayed, child.PID()) || BelongsTo(os.Getpid(), child.PID()) {
			t.Errorf("BelongsTo: its process %v, this one %v", BelongsTo(strayed, child.PID()), BelongsTo(os.Getpid(), child.PID()))
		}
		if err := child.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if lives(strayed) {
			t.Errorf("process %d is left", strayed)
		}
	})
}

func TestNothingSurvivesKillOfAnotherUser(t *testing.T) {
	if !maySwitch(t) {
		return // TestChildOfAnotherUser covers this case
	}
	s := startSupervisor(t, `other: (setsid sleep 1000 &); sleep 1000 & echo $!; echo ready; exec sleep 1000`)
	if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.reap()
	s.assertGone(t)
}

// Another process of the same user cannot attach to a hidden process or read its environment. Root can, so the test
// runs both as another user if it may.
func TestHiddenFromItsUser(t *testing.T) {
	l := newLauncher(t)
	change := isolated
	if maySwitch(t) {
		change = asOther
	}
	var lines listing
	spec := shell("", newMark(t), &lines)
	spec.Argv = []string{self}
	spec.Env = append(spec.Env, roleVariable+"=hide", "SECRET=1")
	change(&spec)
	hidden := start(t, l, spec)
	await.True(t, "the process is hidden", func() bool { return slices.Contains(lines.all(), "hidden") })
	plain := spec
	plain.Argv, plain.Env, plain.Lines = []string{"/bin/sleep", "1000"}, []string{"SECRET=1"}, nil
	seen := start(t, l, plain)
	scan := fmt.Sprintf("for p in %d %d; do grep -q SECRET=1 /proc/$p/environ 2>/dev/null; echo $?; done", seen.PID(), hidden.PID())
	if got := run(t, l, scan, change); !slices.Equal(got, []string{"0", "2"}) {
		t.Errorf("exit codes of reading the environment of a plain and of the hidden process: %q, want 0 and 2", got)
	}
	for _, c := range []*Child{hidden, seen} {
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestUserOfSpec(t *testing.T) {
	for _, test := range []struct {
		user     int
		isolated bool
		good     bool
	}{{0, false, true}, {0, true, true}, {otherUser, true, true}, {otherUser, false, false}, {-1, true, false}} {
		err := Spec{Name: "x", Argv: []string{"/x"}, User: test.user, Isolated: test.isolated}.Validate()
		if (err == nil) != test.good {
			t.Errorf("user %d, isolated %v: %v", test.user, test.isolated, err)
		}
	}
}

// hide is a process that hides itself and waits.
func hide() error {
	if err := Hide(); err != nil {
		return err
	}
	fmt.Println("hidden")
	<-time.After(time.Hour)
	return syscall.EINTR
}
