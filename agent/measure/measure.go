// Package measure measures what this machine offers: processors, memory, and the disk of a folder.
//
//	offered, err := measure.Resources(os.DirFS("/"), "/var/lib/weir-agent")
//
// Limits of the cgroups count, of version 2 and of version 1: those of the process and of all cgroups above it. The
// functions may be called concurrently.
//
// [Resources] returns cores, MB of memory and MB of disk. It reads files of the kernel below a root, so tests pass
// their own tree. A kind that it cannot measure is missing in the result.
package measure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/resource"
)

const (
	mebibyte = 1 << 20
	maxFile  = 1 << 20 // bytes read of a file in root
	// noLimit is the least limit of memory that stands for none: version 1 has no word for it.
	noLimit = 1 << 60
)

// Resources returns what the machine offers, in whole megabytes (2^20 bytes). GPUs are not measured. root is the root of
// the file system, for /proc and /sys. The folder need not exist.
func Resources(root fs.FS, folder string) (resource.Vector, error) {
	var v resource.Vector
	groups, err := groupsOf(root)
	if err == nil {
		v[resource.CPUs], err = processors(root, groups)
	}
	if err == nil {
		v[resource.Mem], err = memory(root, groups)
	}
	if err == nil {
		v[resource.Disk], err = disk(folder)
	}
	if err != nil {
		return resource.Vector{}, fmt.Errorf("measure the resources of this machine: %w", err)
	}
	return v, nil
}

// groups are the cgroups of the process, as folders in root. Empty: it is in none.
type groups struct {
	unified     string // version 2
	cpu, memory string // version 1
}

// groupsOf reads the cgroups of the process.
func groupsOf(root fs.FS) (groups, error) {
	const base = "sys/fs/cgroup"
	var g groups
	text, err := read(root, "proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without cgroups
		return g, nil
	}
	if err != nil {
		return g, err
	}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			return g, fmt.Errorf("/proc/self/cgroup has the line %.80q: want ID:CONTROLLERS:PATH", line)
		}
		below := path.Clean("/" + parts[2]) // "/.." is outside of this namespace
		if parts[1] == "" {
			g.unified = base + below
			if exists(root, base+"/unified") { // beside version 1
				g.unified = base + "/unified" + below
			}
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			switch controller {
			case "cpu":
				g.cpu = base + "/cpu" + below
			case "memory":
				g.memory = base + "/memory" + below
			}
		}
	}
	return g, nil
}

// processors returns how many processors the process may use: at most those of its affinity.
func processors(root fs.FS, g groups) (float64, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0, fmt.Errorf("processors: %w", err)
	}
	least := float64(set.Count())
	err := up(root, g.unified, "cpu.max", func(_, text string) error {
		quota, period, ok := strings.Cut(text, " ")
		if !ok || quota == "max" {
			return nil
		}
		return limitBy(&least, quota, period)
	})
	if err != nil {
		return 0, err
	}
	return least, up(root, g.cpu, "cpu.cfs_quota_us", func(folder, quota string) error {
		if strings.HasPrefix(quota, "-") {
			return nil
		}
		period, err := read(root, folder+"/cpu.cfs_period_us")
		if err != nil {
			return err
		}
		return limitBy(&least, quota, strings.TrimSpace(period))
	})
}

// limitBy lowers least to quota/period.
func limitBy(least *float64, quota, period string) error {
	q, err := strconv.ParseUint(quota, 10, 63)
	p, errPeriod := strconv.ParseUint(period, 10, 63)
	if err != nil || errPeriod != nil || p == 0 {
		return fmt.Errorf("it is %.40q of %.40q: want two numbers", quota, period)
	}
	*least = min(*least, float64(q)/float64(p))
	return nil
}

// memory returns the megabytes that the process may use.
func memory(root fs.FS, g groups) (float64, error) {
	least, err := memTotal(root)
	if err != nil {
		return 0, err
	}
	limit := func(_, text string) error {
		if text == "max" {
			return nil
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("it is %.40q: want a number", text)
		}
		if n < noLimit {
			least = min(least, n)
		}
		return nil
	}
	err = up(root, g.unified, "memory.max", limit)
	if err == nil {
		err = up(root, g.memory, "memory.limit_in_bytes", limit)
	}
	return math.Floor(float64(least) / mebibyte), err
}

// memTotal returns the bytes of the machine's memory.
func memTotal(root fs.FS) (uint64, error) {
	text, err := read(root, "proc/meminfo")
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewBufferString(text)); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:"); ok {
			kilobytes, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 50)
			if err != nil {
				return 0, fmt.Errorf("/proc/meminfo has the line %.80q: want a number of kB", lines.Text())
			}
			return kilobytes << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no line MemTotal")
}

// disk returns the megabytes of the folder's file system. What its administrator has reserved does not count.
func disk(folder string) (float64, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return 0, err
	}
	for !reachable(folder) && folder != "/" {
		folder = filepath.Dir(folder)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, fmt.Errorf("disk of %s: %w", folder, err)
	}
	reserved := s.Bfree - min(s.Bfree, s.Bavail)
	return math.Floor(float64(s.Blocks-min(s.Blocks, reserved)) * float64(s.Bsize) / mebibyte), nil
}

func reachable(path string) bool { _, err := os.Stat(path); return err == nil }

// up calls use with the content of a file in a cgroup and in each cgroup above it. The file may be missing: the root of
// the tree has no limits.
func up(root fs.FS, folder, name string, use func(folder, text string) error) error {
	for ; strings.Contains(folder, "sys/fs/cgroup"); folder = path.Dir(folder) {
		text, err := read(root, folder+"/"+name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = use(folder, strings.TrimSpace(text))
		}
		if err != nil {
			return fmt.Errorf("limit /%s/%s: %w", folder, name, err)
		}
	}
	return nil
}

func exists(root fs.FS, name string) bool { _, err := fs.Stat(root, name); return err == nil }

// read returns the content of a small file.
func read(root fs.FS, name string) (string, error) {
	f, err := root.Open(path.Clean(name))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(data), err
}
