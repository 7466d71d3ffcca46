package flock_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
)

// childEnv makes the test binary a process that locks the named file, reports that, and waits for the end of its
// standard input.
const childEnv = "FLOCK_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if _, err := flock.Lock(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return
	}
	os.Exit(m.Run())
}

func wantHeld(t *testing.T, path string, pid int) {
	t.Helper()
	_, err := flock.Lock(path)
	held, ok := errors.AsType[*flock.HeldError](err)
	if !ok || held.PID != pid || held.Path != path {
		t.Errorf("Lock = %v, want a HeldError with process %d", err, pid)
	}
	got, isHeld, err := flock.Holder(path)
	if err != nil || !isHeld || got != pid {
		t.Errorf("Holder = %d, %v, %v, want %d, true", got, isHeld, err, pid)
	}
}

func wantFree(t *testing.T, path string) {
	t.Helper()
	if pid, held, err := flock.Holder(path); err != nil || held {
		t.Errorf("Holder = %d, %v, %v, want no holder", pid, held, err)
	}
}

func TestLockExcludesWithinAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	wantFree(t, path)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("probing made the file: %v", err)
	}
	for range 2 {
		l, err := flock.Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		wantHeld(t, path, os.Getpid())
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
		wantFree(t, path)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("lock file = %v, %v, want mode 0600", info, err)
	}
}

func TestLockEndsWithItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+path)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("child printed %q, %v", line, err)
	}
	wantHeld(t, path, child.Process.Pid)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // the error reports the kill
	wantFree(t, path)
	l, err := flock.Lock(path)
	if err != nil {
		t.Fatalf("lock of a killed process: %v", err)
	}
	wantHeld(t, path, os.Getpid())
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestLockErrors(t *testing.T) {
	if _, err := flock.Lock(filepath.Join(t.TempDir(), "absent", "lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Lock in a folder that is not there = %v, want not exist", err)
	}
	for name, content := range map[string]string{"empty": "", "garbage": "who knows"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			l, err := flock.Lock(path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Unlock()
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			wantHeld(t, path, 0)
		})
	}
}

// A process that a killed holder was starting keeps the lock for a moment. Lock waits for it, and for no living holder.
func TestLockWaitsForTheChildOfAKilledHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	child, err := flock.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flock.Lock(path); err == nil {
		t.Fatal("a lock of a living holder was taken")
	}
	holder := exec.Command("true")
	if err := holder.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(holder.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		next, err := flock.Lock(path)
		if err == nil {
			err = next.Unlock()
		}
		taken <- err
	}()
	if err := child.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; err != nil {
		t.Errorf("Lock = %v, want that it waits for the end of the child", err)
	}
}
