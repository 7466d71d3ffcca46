package testprograms

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// WithoutRace runs the calling test of a package in the test binary of [Plain], and reports whether it did so. There the
// test tries all cases: they are about decisions, and the race detector makes each ten times as slow. WithoutRace returns
// false in that test binary, and without the folder of FolderVariable.
func WithoutRace(t *testing.T, pkg string) bool {
	t.Helper()
	program := Plain(pkg, "")
	if program == "" || isOwn(program) {
		return false
	}
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	limit := time.Duration(0) // none
	if end, bounded := t.Deadline(); bounded {
		limit = max(time.Until(end), time.Second)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+limit.String())
	// Worlds in virtual time make much garbage, and pass control from goroutine to goroutine: a second processor only wakes up.
	// Together these take a third to a half of the processor time.
	cmd.Env = append(os.Environ(), "GOGC=400", "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Run(); err != nil {
		t.Errorf("without the race detector: %v", err)
	}
	return true
}

func isOwn(program string) bool {
	one, err := os.Stat(program)
	if err != nil {
		return false // its start fails
	}
	own, err := os.Stat("/proc/self/exe")
	return err == nil && os.SameFile(one, own)
}
