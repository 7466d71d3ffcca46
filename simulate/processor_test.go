package simulate_test

import (
	"syscall"
	"testing"
	"time"
)

// processorTime returns the processor time of this process.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
