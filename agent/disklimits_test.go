package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fill writes a file of so many bytes, which are on the disk.
func fill(t testing.TB, path string, bytes int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", bytes)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// blocksOf returns the bytes on the disk of files.
func blocksOf(t testing.TB, paths ...string) (bytes int64) {
	t.Helper()
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	return bytes
}

// TestFolderUse measures in steps of each size: the sum is that of the files, without what links lead to.
func TestFolderUse(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	fill(t, filepath.Join(outside, "large"), 1<<20)
	var counted []string
	for i := range 300 { // more than one read of a folder
		counted = append(counted, filepath.Join(dir, "many", fmt.Sprint("f", i)))
		fill(t, counted[i], 4096)
	}
	deep := filepath.Join(dir, strings.Repeat("deep/", 40), "file")
	fill(t, deep, 100_000)
	counted = append(counted, deep, filepath.Join(dir, "many"))
	for folder := filepath.Dir(deep); folder != dir; folder = filepath.Dir(folder) {
		counted = append(counted, folder)
	}
	for link, to := range map[string]string{"away": outside, "file": filepath.Join(outside, "large"), "loop": dir, "nowhere": "/nonexistent"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		counted = append(counted, filepath.Join(dir, link))
	}
	if err := os.Link(deep, filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	want := blocksOf(t, counted...)
	for _, size := range []int{1, 7, 256, 1_000_000} {
		u, err := newFolderUse(dir)
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		for left, done := 0, false; !done; steps++ {
			if left, done = u.step(size); left > size {
				t.Fatalf("%d of %d entries are left", left, size)
			}
		}
		if u.bytes != want {
			t.Errorf("steps of %d: %d bytes, want %d", size, u.bytes, want)
		}
		if least := 300 / size; steps < least {
			t.Errorf("steps of %d: %d steps, want at least %d", size, steps, least)
		}
	}
}

func TestWorst(t *testing.T) {
	type megabytes map[string]int64
	bytes := func(m megabytes) map[string]int64 {
		out := map[string]int64{}
		for instance, n := range m {
			out[instance] = n << 20
		}
		return out
	}
	limits := megabytes{"a": 100, "b": 100, "c": 1000, "free": 0}
	for _, test := range []struct {
		name                string
		uses, before, roomy megabytes
		want                string
		grown, over         int64
	}{
		{"within their requests", megabytes{"a": 100, "b": 99, "c": 900}, megabytes{"a": 100, "b": 99, "c": 900}, nil, "", 0, 0},
		{"the largest growth", megabytes{"a": 150, "b": 300}, megabytes{"a": 150, "b": 300}, megabytes{"a": 50, "b": 290}, "a", 100, 50},
		{"new", megabytes{"a": 150, "b": 300}, megabytes{"a": 150, "b": 300}, megabytes{"b": 290}, "a", 150, 50},
		{"growth within its request", megabytes{"a": 150, "c": 900}, megabytes{"a": 150, "c": 900}, megabytes{"a": 149}, "a", 1, 50},
		{"without a request", megabytes{"a": 150, "free": 60}, megabytes{"a": 150, "free": 60}, megabytes{"a": 100}, "free", 60, 60},
		{"no growth: the most in excess", megabytes{"a": 150, "b": 200}, megabytes{"a": 150, "b": 200}, megabytes{"a": 150, "b": 200}, "b", 0, 100},
		{"grown less than before", megabytes{"b": 200}, megabytes{"b": 200}, megabytes{"b": 210}, "b", 0, 100},
		{"the worst only in this round", megabytes{"a": 150, "b": 200}, megabytes{"a": 150, "b": 100}, nil, "", 0, 0},
		{"only in the round before", megabytes{"a": 50}, megabytes{"a": 200}, nil, "", 0, 0},
		{"unknown", megabytes{"d": 1 << 20}, megabytes{"d": 1 << 20}, nil, "", 0, 0},
		{"equal", megabytes{"a": 200, "b": 200}, megabytes{"a": 200, "b": 200}, nil, "a", 200, 100},
	} {
		got := worst(bytes(limits), bytes(test.uses), bytes(test.before), bytes(test.roomy))
		if want := (excess{test.want, test.grown << 20, test.over << 20}); got != want {
			t.Errorf("%s: %+v, want %+v", test.name, got, want)
		}
	}
	if got := worst(map[string]int64{"free": 0}, map[string]int64{"free": leastUse - 1}, map[string]int64{"free": leastUse}, nil); got.instance != "" {
		t.Errorf("less than a megabyte: %+v, want none", got)
	}
}

func TestLowDisk(t *testing.T) {
	const mb = 1 << 20
	for _, test := range []struct {
		name string
		disk diskSpace
		want bool
	}{
		{"a small disk", diskSpace{89 * mb, 900 * mb}, true},
		{"a small disk with a tenth", diskSpace{90 * mb, 900 * mb}, false},
		{"a disk with 127 MB", diskSpace{127 * mb, 5000 * mb}, true},
		{"a disk with 128 MB", diskSpace{128 * mb, 5000 * mb}, false},
		{"a large disk", diskSpace{19_999 * mb, 1_000_000 * mb}, true},
		{"a large disk with 2 %", diskSpace{20_000 * mb, 1_000_000 * mb}, false},
		{"unknown", diskSpace{}, false},
	} {
		if got := test.disk.low(); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// diskLimitsRig is the measurement of a folder, a second a step.
type diskLimitsRig struct {
	*testing.T
	*diskLimits
	now time.Time
}

func newDiskLimitsRig(t *testing.T) *diskLimitsRig {
	return &diskLimitsRig{t, newDiskLimits(t.TempDir(), slog.New(slog.DiscardHandler)), time.Unix(1000, 0)}
}

// write makes a running copy use so many megabytes.
func (r *diskLimitsRig) write(instance string, request float64, megabytes int) {
	r.Helper()
	fill(r, filepath.Join(r.dir, instance, "file"), megabytes<<20)
	r.set(instance, request)
}

// after makes steps, of which only the last may end a copy. It returns why that has to end.
func (r *diskLimitsRig) after(steps int, low bool, want string) (why string) {
	r.Helper()
	disk := diskSpace{40 << 20, 64 << 20}
	if low {
		disk.free = 5 << 20
	}
	for i := range steps {
		r.now = r.now.Add(time.Second)
		instance, reason := r.step(r.now, disk)
		if last := i == steps-1; last && instance != want || !last && instance != "" {
			r.Errorf("step %d of %d: %q has to end, %q; want %q at the end", i+1, steps, instance, reason, want)
		}
		why = reason
	}
	return why
}

// TestLargestGrowthEndsFirst: each after two rounds on a nearly full disk, one at a time. A copy within its request, or
// below a megabyte, never ends.
func TestLargestGrowthEndsFirst(t *testing.T) {
	r := newDiskLimitsRig(t)
	r.write("within", 9, 1)
	r.write("large", 2, 5)
	r.write("free", 0, 4)
	r.set("empty", 0)
	r.set("gone", 1)
	r.after(1, false, "")
	r.write("within", 9, 8)
	r.write("large", 2, 9)
	r.write("free", 0, 10)
	if why, want := r.after(1, true, "free"), "the disk of its node had 5 MB free: it used 10 MB, 6 MB of that new, and requested no disk"; why != want {
		t.Errorf("%q, want %q", why, want)
	}
	r.after(30, true, "") // it is ending
	r.remove("free")
	r.write("new", 2, 5)
	r.after(1, true, "") // it is in this round only
	if why, want := r.after(1, true, "new"), "the disk of its node had 5 MB free: it used 5 MB, 5 MB of that new, and requested 2 MB"; why != want {
		t.Errorf("%q, want %q", why, want)
	}
	r.remove("new")
	r.after(1, true, "large")
	r.remove("large")
	r.after(200, true, "")
}

// TestCopyThatDoesNotFillTheDiskEndsLater: what fills the disk is elsewhere. A copy that exceeds its request, and grows
// by less than a tenth of what was used, ends after a minute.
func TestCopyThatDoesNotFillTheDiskEndsLater(t *testing.T) {
	r := newDiskLimitsRig(t)
	r.write("small", 0, 3)
	r.write("large", 2, 6)
	r.after(1, false, "")
	r.write("small", 0, 4) // of 35 MB that were used
	r.after(60, true, "")
	r.after(1, true, "small")
	r.remove("small")
	r.after(1, true, "large") // the minute is over
	r.remove("large")
	r.after(30, false, "") // its end has helped
	r.write("late", 2, 3)
	r.after(60, true, "")
	r.after(1, true, "late")
}

// TestOneCopyEndsAtATime on a disk that was full when the agent started: all that a copy uses counts as growth.
func TestOneCopyEndsAtATime(t *testing.T) {
	r := newDiskLimitsRig(t)
	r.write("a", 0, 3)
	r.write("b", 0, 2)
	r.after(1, true, "")
	r.after(1, true, "a")
	r.after(59, true, "")
	r.after(1, true, "a") // it did not end, and the agent ends it once only
	r.remove("a")
	r.after(1, true, "b")
}
