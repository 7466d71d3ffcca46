package await

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Halt sends SIGSTOP to a process, and returns when each of its threads is stopped. Until then some run on: the system
// hands the signal to one thread, which may have to wait for a processor before it stops the others.
func Halt(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("halt process %d: %w", pid, err)
	}
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for began := time.Now(); time.Since(began) < Patience; <-again.C {
		if Halted(pid) {
			return nil
		}
	}
	return fmt.Errorf("halt process %d: it is not stopped after %v", pid, Patience)
}

// Halted reports whether each thread of a process is stopped.
func Halted(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if !bytes.HasPrefix(rest, []byte("T")) {
			return false
		}
	}
	return len(threads) > 0
}
