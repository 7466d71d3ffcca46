// Package atrest keeps the memory of a process that mostly waits small.
//
//	atrest.Start() // first in main
//
// A daemon needs much of its program and of its heap only while it starts. Ten seconds after Start the package returns
// both to the kernel: free memory of the heap, and the pages of the program, which the kernel reads again when they are
// needed. From then on the collector of a small heap keeps less garbage. A large heap has Go's default, because there
// each collection takes long. A command that ends earlier is not affected.
//
// Start may be called once. Everything is done in the background.
package atrest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	after = 10 * time.Second

	// Percent of the live heap that may become garbage before the next collection.
	smallPercent, largePercent = 20, 100
	// Bytes of the live heap. Between both limits the percentage stays what it is.
	small, large = 5 << 20, 6 << 20
)

// Start returns memory to the kernel after a while. GOGC in the environment replaces the percentage of the collector.
func Start() {
	time.AfterFunc(after, func() {
		if os.Getenv("GOGC") == "" {
			adapt(largePercent)
		}
		debug.FreeOSMemory()
		_ = returnProgram() // it only saves memory
	})
}

// adapt sets the percentage for the heap now and after each collection. current is what holds until then.
func adapt(current int) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	next := percent(current, sample[0].Value.Uint64())
	if next != current {
		debug.SetGCPercent(next)
	}
	// The next collection finds that nothing refers to this value.
	runtime.AddCleanup(&struct{ _ *int }{}, adapt, next)
}

// percent returns the percentage for a live heap.
func percent(current int, live uint64) int {
	switch {
	case live < small:
		return smallPercent
	case live > large:
		return largePercent
	}
	return current
}

// returnProgram advises the kernel that the pages of the program's file are not needed now.
func returnProgram() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	areas, err := readOnly(maps, self)
	for _, a := range areas {
		if _, _, number := unix.Syscall(unix.SYS_MADVISE, a.start, a.end-a.start, unix.MADV_DONTNEED); number != 0 {
			err = errors.Join(err, os.NewSyscallError("madvise", number))
		}
	}
	return err
}

type area struct{ start, end uintptr }

// readOnly returns the areas of a file that the process cannot write, from the lines of /proc/PID/maps.
func readOnly(maps io.Reader, file string) (all []area, err error) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		// "00400000-01553000 r-xp 00000000 fe:00 10502404    /usr/bin/weir"
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || strings.Join(fields[5:], " ") != file || strings.Contains(fields[1], "w") {
			continue
		}
		var a area
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &a.start, &a.end); err != nil {
			return nil, fmt.Errorf("area %q of /proc/self/maps: %w", fields[0], err)
		}
		all = append(all, a)
	}
	return all, lines.Err()
}
