package supervise

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// Bounds of limits. Below the minimum no useful program starts.
const (
	minMemory    = 1 << 20 // bytes
	maxMemory    = 1 << 60
	minCPUs      = 0.01 // the kernel's shortest slice, 1 ms of each 100 ms
	minOpenFiles = 16
	minAddressMB = 1024 // the Go runtime reserves about as much
	maxAddressMB = math.MaxInt64 >> 20
)

// Limits bound what a child may use. Zero means no limit.
//
// OpenFiles and AddressMB apply to each process of the child separately, from before the first instruction. They never
// exceed the limits of this process.
//
// Memory, CPUs and Processes apply to all processes of the child together. They need a cgroup v2 with the controllers
// memory, cpu and pids, delegated to this process (systemd: Delegate=yes and DelegateSubgroup=NAME). Without one,
// kernel limits replace them where possible. Each process may map four times Memory (RLIMIT_DATA). A child with its own
// user has at most Processes processes (RLIMIT_NPROC).
//
// A limit that cannot be enforced does not prevent the start; see Child.Unenforced.
type Limits struct {
	Memory    int64   // bytes, without swap; when exceeded, the whole child is killed
	CPUs      float64 // seconds of CPU time in each second
	Processes int     // counts threads too
	OpenFiles int     // RLIMIT_NOFILE
	AddressMB int64   // RLIMIT_AS, in MiB
}

// Validate returns every problem of the limits.
func (l Limits) Validate() error {
	var errs []error
	if l.Memory != 0 && (l.Memory < minMemory || l.Memory > maxMemory) {
		errs = append(errs, fmt.Errorf("memory limit of %d bytes: want %d to %d", l.Memory, minMemory, int64(maxMemory)))
	}
	if l.CPUs != 0 && !(l.CPUs >= minCPUs && l.CPUs <= math.MaxInt32) {
		errs = append(errs, fmt.Errorf("limit of %g CPUs: want at least %g", l.CPUs, minCPUs))
	}
	if l.Processes < 0 {
		errs = append(errs, fmt.Errorf("limit of %d processes is negative", l.Processes))
	}
	if l.OpenFiles != 0 && l.OpenFiles < minOpenFiles {
		errs = append(errs, fmt.Errorf("limit of %d open files: want at least %d", l.OpenFiles, minOpenFiles))
	}
	if l.AddressMB != 0 && (l.AddressMB < minAddressMB || l.AddressMB > maxAddressMB) {
		errs = append(errs, fmt.Errorf("address space limit of %d MiB: want at least %d", l.AddressMB, minAddressMB))
	}
	return errors.Join(errs...)
}

// rlimit is a limit of a single process.
type rlimit struct {
	name     string
	resource int
	value    uint64
}

// rlimits returns the limits that apply to each process.
func (l Limits) rlimits() []rlimit {
	var all []rlimit
	if l.OpenFiles > 0 {
		all = append(all, rlimit{"open files", unix.RLIMIT_NOFILE, uint64(l.OpenFiles)})
	}
	if l.AddressMB > 0 {
		all = append(all, rlimit{"address space", unix.RLIMIT_AS, uint64(l.AddressMB) << 20})
	}
	return all
}

// Names of limits in messages.
const (
	limitMemory    = "memory"
	limitProcesses = "processes"
)

// setting is the value that a file of a cgroup should have.
type setting struct {
	limit      string // name in messages; empty: optional
	controller string
	file       string
	value      string
}

// cpuPeriod is the period of cpu.max in microseconds. It is the kernel's default.
const cpuPeriod = 100_000

// settings returns the limits that apply to all processes together, in the format of the kernel's
// Documentation/admin-guide/cgroup-v2.rst.
func (l Limits) settings() []setting {
	var all []setting
	if l.Memory > 0 {
		all = append(all,
			setting{limitMemory, "memory", "memory.max", strconv.FormatInt(l.Memory, 10)},
			setting{"", "memory", "memory.swap.max", "0"}, // the file is missing without swap accounting
			setting{"", "memory", "memory.oom.group", "1"})
	}
	if l.CPUs > 0 {
		quota := int64(math.Round(l.CPUs * cpuPeriod))
		all = append(all, setting{"CPUs", "cpu", "cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod)})
	}
	if l.Processes > 0 {
		all = append(all, setting{limitProcesses, "pids", "pids.max", strconv.Itoa(l.Processes)})
	}
	return all
}

// neededFiles is how many files a launcher's process must be able to open: a child gets its
// executable as executableFD.
const neededFiles = executableFD + 56

// enoughFiles returns an error if this process may open too few files to start children.
func enoughFiles() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit on open files: %w", err)
	}
	if limit.Cur < neededFiles {
		return fmt.Errorf("this process may open %d files, and needs %d: raise the limit (\"ulimit -n 1024\", or LimitNOFILE of its unit)", limit.Cur, neededFiles)
	}
	return nil
}
