package measure

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/resource"
)

// tree returns a file system with these files, and 8 GiB of memory.
func tree(files map[string]string) fstest.MapFS {
	all := fstest.MapFS{"proc/meminfo": {Data: []byte("MemFree: 1 kB\nMemTotal:        8388608 kB\n")}}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func TestLimitsOfAllCgroupsCount(t *testing.T) {
	t.Parallel()
	const v2, cg = "0::/weir.slice/agent.service/agent\n", "sys/fs/cgroup/"
	all := float64(runtime.NumCPU())
	for name, c := range map[string]struct {
		files     map[string]string
		cpus, mem float64
	}{
		"no cgroups":            {nil, all, 8192},
		"no limits":             {map[string]string{"proc/self/cgroup": v2, cg + "weir.slice/cpu.max": "max 100000\n", cg + "weir.slice/memory.max": "max\n"}, all, 8192},
		"own limit":             {map[string]string{"proc/self/cgroup": v2, cg + "weir.slice/agent.service/agent/cpu.max": "50000 100000\n"}, 0.5, 8192},
		"limits above":          {map[string]string{"proc/self/cgroup": v2, cg + "weir.slice/cpu.max": "25000 100000\n", cg + "weir.slice/agent.service/cpu.max": "75000 100000\n", cg + "weir.slice/memory.max": "1073741824\n"}, 0.25, 1024},
		"limits of a container": {map[string]string{"proc/self/cgroup": "0::/\n", cg + "cpu.max": "10000 100000\n", cg + "memory.max": "2147483648"}, 0.1, 2048},
		"outside the namespace": {map[string]string{"proc/self/cgroup": "0::/../../x\n", cg + "memory.max": "1048576"}, all, 1},
		"more than the machine": {map[string]string{"proc/self/cgroup": v2, cg + "weir.slice/cpu.max": "99900000 100000\n", cg + "weir.slice/memory.max": "99999999999"}, all, 8192},
		"version 1": {map[string]string{
			"proc/self/cgroup":                        "4:memory:/agent\n3:cpu,cpuacct:/agent\n1:name=systemd:/agent\n",
			cg + "memory/agent/memory.limit_in_bytes": "536870912\n", cg + "memory/memory.limit_in_bytes": "9223372036854771712\n",
			cg + "cpu/agent/cpu.cfs_quota_us": "20000\n", cg + "cpu/agent/cpu.cfs_period_us": "100000\n", cg + "cpu/cpu.cfs_quota_us": "-1\n",
		}, 0.2, 512},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Resources(tree(c.files), t.TempDir())
			if err != nil || got[resource.CPUs] != c.cpus || got[resource.Mem] != c.mem || got[resource.Disk] < 1 || got[resource.GPUs] != 0 {
				t.Errorf("Resources() = %v, %v, want %v cpus, %v mem, and a disk", got, err, c.cpus, c.mem)
			}
		})
	}
}

func TestUnreadableLimitsAreErrors(t *testing.T) {
	t.Parallel()
	const v2, cg = "0::/agent\n", "sys/fs/cgroup/agent/"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"cgroup":     {map[string]string{"proc/self/cgroup": "nonsense"}, "/proc/self/cgroup"},
		"quota":      {map[string]string{"proc/self/cgroup": v2, cg + "cpu.max": "x 100000"}, "/" + cg + "cpu.max"},
		"no period":  {map[string]string{"proc/self/cgroup": v2, cg + "cpu.max": "1000 0"}, "/" + cg + "cpu.max"},
		"memory":     {map[string]string{"proc/self/cgroup": v2, cg + "memory.max": "-5"}, "/" + cg + "memory.max"},
		"no meminfo": {map[string]string{"proc/meminfo": "x"}, "MemTotal"},
		"no number":  {map[string]string{"proc/meminfo": "MemTotal: many kB\n"}, "MemTotal: many"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v, err := Resources(tree(c.files), t.TempDir()); err == nil || !strings.Contains(err.Error(), c.want) || v != (resource.Vector{}) {
				t.Errorf("Resources() = %v, %v, want an error with %q", v, err, c.want)
			}
		})
	}
}

// TestThisMachine measures this machine, and the disk of a folder that does not exist yet.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	got, err := Resources(os.DirFS("/"), filepath.Join(folder, "a", "b"))
	if err != nil || got[resource.CPUs] <= 0 || got[resource.CPUs] > float64(runtime.NumCPU()) || got[resource.Mem] < 1 {
		t.Fatalf("Resources() = %v, %v", got, err)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		t.Fatal(err)
	}
	if all := float64(s.Blocks) * float64(s.Bsize) / mebibyte; got[resource.Disk] > all || got[resource.Disk] < float64(s.Bavail)*float64(s.Bsize)/mebibyte/2 {
		t.Errorf("disk %v MB of a file system with %v MB", got[resource.Disk], all)
	}
}

// TestAffinityCounts binds this thread to one processor.
func TestAffinityCounts(t *testing.T) {
	ended := make(chan error)
	go func() { // its thread ends with it
		runtime.LockOSThread()
		var one unix.CPUSet
		err := unix.SchedGetaffinity(0, &one)
		for i := range one.Count() * 64 {
			if one.IsSet(i) {
				one.Zero()
				one.Set(i)
				break
			}
		}
		if err == nil {
			err = unix.SchedSetaffinity(0, &one)
		}
		if err == nil {
			var v resource.Vector
			if v, err = Resources(tree(nil), "/"); v[resource.CPUs] != 1 {
				t.Errorf("Resources() = %v, %v, want 1 of cpus", v, err)
			}
		}
		ended <- err
	}()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
