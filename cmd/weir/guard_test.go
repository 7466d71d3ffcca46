package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// guardVariable has the folder of a guard, in its process.
const guardVariable = "WEIR_TEST_GUARD"

// endAllBelow kills the processes that work below a folder when the test ends, also when the test binary is killed: instances outlive
// their agents, and a paused process does not end with its parent. The guard, a process of its own, reads a pipe until
// then.
func endAllBelow(tb testing.TB, dir string) {
	tb.Helper()
	guard := exec.Command("/proc/self/exe")
	guard.Dir, guard.Env = "/", append(os.Environ(), guardVariable+"="+dir)
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C does not end it
	in, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close() // it has no data
		if err := guard.Wait(); err != nil {
			tb.Errorf("the guard of %s: %v", dir, err)
		}
	})
}

// runGuard is the guard of a folder.
func runGuard(dir string) {
	_, _ = io.Copy(io.Discard, os.Stdin) // its end matters, not its cause
	for endBelow(dir) {                  // a process may have started another one
	}
}

// TestKilledTestLeavesNoProcess kills a test binary beside a process that works below its folder.
func TestKilledTestLeavesNoProcess(t *testing.T) {
	dir := t.TempDir()
	if os.Getenv("WEIR_TEST_KILLED") != "" {
		endAllBelow(t, os.Getenv("WEIR_TEST_KILLED"))
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	below := dir + "/below"
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	paused := exec.Command("sleep", "1000")
	paused.Dir = below
	if err := offspring.Start(paused); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(paused.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	killed := exec.Command("/proc/self/exe", "-test.run=^TestKilledTestLeavesNoProcess$")
	killed.Env = append(os.Environ(), "WEIR_TEST_KILLED="+dir, "TMPDIR="+t.TempDir())
	if err := killed.Run(); err == nil {
		t.Error("the test binary was not killed")
	}
	ended := make(chan error, 1)
	go func() { ended <- paused.Wait() }()
	if err := await.Value(t, "the end of the paused process", ended); err == nil {
		t.Error("the paused process ended by itself")
	}
}
