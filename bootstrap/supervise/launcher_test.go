package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

func TestExit(t *testing.T) {
	launcher := newLauncher(t)
	tests := []struct{ name, command, want string }{
		{"success", "true", "exit status 0"},
		{"failure", "exit 3", "exit status 3"},
		{"signal", "kill -KILL $$", "killed by SIGKILL"},
		{"other signal", "kill -SEGV $$", "killed by SIGSEGV"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := time.Now()
			exit := awaitEnd(t, start(t, launcher, shell(test.command, newMark(t), &listing{})))
			if got := exit.String(); got != test.want {
				t.Errorf("%q: %s, want %s", test.command, got, test.want)
			}
			if exit.At.Before(before) || exit.At.After(time.Now()) {
				t.Errorf("ended at %s, started at %s", exit.At, before)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	launcher := newLauncher(t)
	tests := []struct {
		name string
		spec Spec
		want string
	}{
		{"nothing", Spec{}, "spec without a name"},
		{"no command line", Spec{Name: "x"}, "argv is empty"},
		{"relative path", Spec{Name: "x", Argv: []string{"sh"}}, `argv[0] "sh" is not an absolute path`},
		{"no such file", Spec{Name: "x", Argv: []string{"/nonexistent/x"}}, "no such file"},
		{"no such folder", Spec{Name: "x", Argv: []string{"/bin/sh"}, Dir: "/nonexistent"}, "no such file"},
		{"limit", Spec{Name: "x", Argv: []string{"/bin/sh"}, Limits: Limits{AddressMB: 1023}}, "address space limit of 1023 MiB"},
		{"limit without a cgroup", Spec{Name: "x", Argv: []string{"/bin/sh"}, NoCgroup: true, Limits: Limits{CPUs: 1}}, "limits need a cgroup"},
		{"negative grace", Spec{Name: "x", Argv: []string{"/bin/sh"}, StopGrace: -1}, "negative"},
		{"nil file", Spec{Name: "x", Argv: []string{"/bin/sh"}, ExtraFiles: []*os.File{nil}}, "an extra file is nil"},
		{"too many files", Spec{Name: "x", Argv: []string{"/bin/sh"}, ExtraFiles: make([]*os.File, 198)}, "198 extra files, at most 197"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := launcher.Start(t.Context(), test.spec)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start = %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestEnvironmentIsComplete(t *testing.T) {
	t.Setenv("WEIR_TEST_OURS", "must not be seen")
	t.Setenv(TagVariable, "")
	launcher := newLauncher(t)
	var lines listing
	spec := Spec{Name: "env", Argv: []string{"/usr/bin/env"}, Lines: lines.add,
		Env: []string{"A=1", TagVariable + "=stale.1"}}
	child := start(t, launcher, spec)
	awaitEnd(t, child)
	want := []string{TagVariable + "=" + launcher.tag + ".1", "A=1"}
	if diff := cmp.Diff(want, lines.all()); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestStandardFiles(t *testing.T) {
	launcher := newLauncher(t)
	childIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := in.WriteString("body"); err != nil {
		t.Fatal(err)
	}
	in.Close()
	var lines listing
	spec := shell("cat; echo seen >&2", newMark(t), &lines)
	spec.Stdin, spec.Stdout = childIn, childOut
	child := start(t, launcher, spec)
	childIn.Close()
	childOut.Close()
	got, err := io.ReadAll(out)
	if err != nil || string(got) != "body" {
		t.Errorf("read %q, %v", got, err)
	}
	awaitEnd(t, child)
	if diff := cmp.Diff([]string{"seen"}, lines.all()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestExtraFiles(t *testing.T) {
	launcher := newLauncher(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	spec := shell("echo through three >&3", newMark(t), &listing{})
	spec.ExtraFiles = []*os.File{write}
	child := start(t, launcher, spec)
	write.Close()
	got, err := io.ReadAll(read)
	if err != nil || string(got) != "through three\n" {
		t.Errorf("read %q, %v", got, err)
	}
	awaitEnd(t, child)
}

func TestExecutableByDescriptor(t *testing.T) {
	launcher := newLauncher(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := testprograms.Write(script, "#!/bin/sh\necho the verified one\n"); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, want string }{
		{"binary", self, "hello from signal"},
		{"script whose path was given to another", script, "the verified one"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			executable, err := os.Open(test.path)
			if err != nil {
				t.Fatal(err)
			}
			if test.path == script {
				if err := os.Remove(script); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(script, []byte("#!/bin/sh\necho another\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			var lines listing
			child := start(t, launcher, Spec{Name: "x", Argv: []string{"signal"}, Executable: executable,
				Env: []string{roleVariable + "=hello", "GORACE=atexit_sleep_ms=0"}, Lines: lines.add})
			executable.Close()
			awaitEnd(t, child)
			if diff := cmp.Diff([]string{test.want}, lines.all()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// Each command prints "ready" and the pids that carry no mark.
var processTrees = []struct{ name, command string }{
	{"obedient", `echo ready; exec sleep 1000`},
	{"deaf to SIGTERM", `trap '' TERM; echo ready; while :; do sleep 1000; done`},
	{"stopped", `echo ready; kill -STOP $$`},
	{"siblings", `sleep 1000 & echo $!; sleep 1000 & echo $!; echo ready; wait`},
	{"the issue's", `sh -c 'sleep 1000 & sleep 1000' & echo $!; echo ready; wait`},
	{"own session", `setsid sleep 1000 & echo $!; echo ready; wait`},
	{"double fork", `(setsid sh -c 'echo $$; (sleep 1000 & echo $!); exec sleep 1000' &); echo ready; exec sleep 1000`},
	{"no environment, in the group", `env -i sleep 1000 & echo $!; echo ready; wait`},
	{"children deaf", `(trap '' TERM HUP INT; sleep 1000 & echo $!; sleep 1000) & echo $!; echo ready; wait`},
}

// pidsIn returns the lines that are numbers.
func pidsIn(lines []string) []int {
	var pids []int
	for _, line := range lines {
		if pid, err := strconv.Atoi(line); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestStopLeavesNothing(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, launcher *Launcher, _ func() error, _ bool) {
		for _, family := range processTrees {
			t.Run(family.name, func(t *testing.T) {
				mark := newMark(t)
				var lines listing
				spec := shell(family.command, mark, &lines)
				spec.StopGrace = 50 * time.Millisecond
				child := start(t, launcher, spec)
				await.True(t, "ready", func() bool { return slices.Contains(lines.all(), "ready") })
				if err := child.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				select {
				case <-child.Done():
				default:
					t.Error("Stop returned before Done")
				}
				if left := marked(t, mark); len(left) > 0 {
					t.Errorf("Stop left %d", left)
				}
				for _, pid := range pidsIn(lines.all()) {
					if lives(pid) {
						t.Errorf("Stop left %d", pid)
					}
				}
				if err := child.Stop(t.Context()); err != nil {
					t.Errorf("second Stop = %v", err)
				}
			})
		}
	})
}

func TestStopGrace(t *testing.T) {
	launcher := newLauncher(t)
	tests := []struct {
		name, command, want string
		atOnce              bool
	}{
		{"time to say goodbye", `trap 'echo bye; exit 7' TERM; sleep 1000 & echo ready; wait`, "exit status 7", false},
		{"context that has ended kills", `trap '' TERM; echo ready; while :; do sleep 1000; done`, "killed by SIGKILL", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var lines listing
			spec := shell(test.command, newMark(t), &lines)
			spec.StopGrace = time.Minute
			child := start(t, launcher, spec)
			await.True(t, "ready", func() bool { return slices.Contains(lines.all(), "ready") })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.atOnce {
				cancel()
			}
			if err := child.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			exit, ok := child.Exit()
			if !ok || exit.String() != test.want {
				t.Errorf("ended with %s, %v, want %s", exit, ok, test.want)
			}
			if !test.atOnce && !slices.Contains(lines.all(), "bye") {
				t.Errorf("last words are missing in %q", lines.all())
			}
		})
	}
}

// The child's exit status is its own, and its end kills the rest of its group.
func TestChildEndKillsItsGroup(t *testing.T) {
	const holds, escaped = `sleep 1000 & echo $!`, `(setsid sleep 1000 &)`
	const beyond = `setsid env -i sh -c 'echo $$; echo out >'"$OUT"'; exec sleep 1000' & until [ -s "$OUT" ]; do :; done`
	have := cgroupsAvailable(t)
	tests := []struct {
		name, command string
		change        func(*Launcher)
		escapes       bool
	}{
		{"grandchild holds the output", holds, withoutCgroups, false},
		{"escaped grandchild holds the output", escaped, withoutCgroups, false},
		{"grandchild beyond reach holds the output", beyond, withoutCgroups, true},
		{"grandchild holds the output, in a cgroup", holds, func(*Launcher) {}, false},
		{"escaped grandchild holds the output, in a cgroup", escaped, func(*Launcher) {}, false},
		{"grandchild holds the output, all but beyond reach", beyond, func(*Launcher) {}, !have},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			launcher, stop := runChanged(t, test.change)
			defer func() {
				if err := stop(); err != nil {
					t.Errorf("launcher's end: %v", err)
				}
			}()
			mark := newMark(t)
			var lines listing
			spec := shell(test.command, mark, &lines)
			spec.Env = append(spec.Env, "OUT="+filepath.Join(t.TempDir(), "out"))
			if exit := awaitEnd(t, start(t, launcher, spec)); exit.Code != 0 {
				t.Errorf("ended with %s", exit)
			}
			if left := marked(t, mark); len(left) > 0 {
				t.Errorf("left: %d", left)
			}
			for _, pid := range pidsIn(lines.all()) {
				if lives(pid) != test.escapes {
					t.Errorf("process %d lives: %v, want %v", pid, lives(pid), test.escapes)
				}
				if test.escapes {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		})
	}
}

func TestHangingListenerDoesNotDelayEnd(t *testing.T) {
	launcher, stop := runLauncher(t)
	release := make(chan struct{})
	spec := shell("echo one; echo two", newMark(t), &listing{})
	spec.Lines = func(string, []byte) { <-release }
	awaitEnd(t, start(t, launcher, spec))
	close(release)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestLauncherEnd(t *testing.T) {
	launcher, stop := runLauncher(t)
	mark := newMark(t)
	var children []*Child
	for _, family := range processTrees {
		spec := shell(family.command, mark, &listing{})
		spec.StopGrace = 50 * time.Millisecond
		children = append(children, start(t, launcher, spec))
	}
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	for _, child := range children {
		if _, ok := child.Exit(); !ok {
			t.Errorf("%d has not ended", child.PID())
		}
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("left: %d", left)
	}
	if _, err := launcher.Start(t.Context(), shell("true", mark, &listing{})); !errors.Is(err, errClosed) {
		t.Errorf("Start after the end = %v, want ErrClosed", err)
	}
}

func TestStartWithoutRun(t *testing.T) {
	launcher, err := NewLauncher(Config{KeeperArgv: []string{self, "keep"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if _, err := launcher.Start(ctx, shell("true", "", &listing{})); !errors.Is(err, reason) {
		t.Errorf("Start = %v, want %v", err, reason)
	}
}

// The death signal follows a thread, which must not be the caller's.
func TestChildOutlivesThreadOfCaller(t *testing.T) {
	launcher := newLauncher(t)
	thread := make(chan int)
	var child *Child
	go func() {
		runtime.LockOSThread() // ends with the goroutine
		child = start(t, launcher, shell("exec sleep 1000", newMark(t), &listing{}))
		thread <- syscall.Gettid()
	}()
	tid := <-thread
	await.True(t, "the thread has ended", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
		return tid == os.Getpid() || os.IsNotExist(err)
	})
	if !lives(child.PID()) {
		t.Error("the child ended with the thread of who asked for it")
	}
	if err := child.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestManyChildrenAtOnce(t *testing.T) {
	launcher := newLauncher(t)
	mark := newMark(t)
	var children []*Child
	for i := range 50 {
		children = append(children, start(t, launcher, shell(fmt.Sprintf("exit %d", i), mark, &listing{})))
	}
	for i, child := range children {
		if exit := awaitEnd(t, child); exit.Code != i {
			t.Errorf("child %d ended with %s", i, exit)
		}
	}
}
