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
	limits := map[string]int64{"a": 100, "b": 100, "c": 1000}
	for _, test := range []struct {
		name         string
		uses, before map[string]int64
		want         string
	}{
		{"within their requests", map[string]int64{"a": 100, "b": 99, "c": 900}, map[string]int64{"a": 100, "b": 99, "c": 900}, ""},
		{"the most in excess", map[string]int64{"a": 150, "b": 200, "c": 1050}, map[string]int64{"a": 150, "b": 200, "c": 1050}, "b"},
		{"only in this round", map[string]int64{"a": 150, "b": 200}, map[string]int64{"a": 150}, "a"},
		{"only in the round before", map[string]int64{"a": 50}, map[string]int64{"a": 200}, ""},
		{"without a request", map[string]int64{"d": 1 << 40}, map[string]int64{"d": 1 << 40}, ""},
		{"equal", map[string]int64{"a": 200, "b": 200}, map[string]int64{"a": 200, "b": 200}, "a"},
	} {
		if got := worst(limits, test.uses, test.before); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestIsLow(t *testing.T) {
	const mb = 256 // blocks of 4 KiB
	for _, test := range []struct {
		name         string
		free, blocks uint64
		want         bool
	}{
		{"a small disk", 89 * mb, 900 * mb, true},
		{"a small disk with a tenth", 90 * mb, 900 * mb, false},
		{"a disk with 127 MB", 127 * mb, 5000 * mb, true},
		{"a disk with 128 MB", 128 * mb, 5000 * mb, false},
		{"a large disk", 19_999 * mb, 1_000_000 * mb, true},
		{"a large disk with 2 %", 20_000 * mb, 1_000_000 * mb, false},
		{"no blocks", 0, 0, false},
	} {
		if got := isLow(test.free, test.blocks, 4096); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestDiskLimitsEndOneCopyAtATime: each after two rounds on a nearly full disk, and never one within its request.
func TestDiskLimitsEndOneCopyAtATime(t *testing.T) {
	dir := t.TempDir()
	d := newDiskLimits(dir, slog.New(slog.DiscardHandler))
	for instance, size := range map[string]int{"small": 1 << 20, "large": 3 << 20, "larger": 4 << 20, "free": 8 << 20} {
		fill(t, filepath.Join(dir, instance, "file"), size)
	}
	for instance, megabytes := range map[string]float64{"small": 2, "large": 2, "larger": 2, "free": 0, "gone": 1} {
		d.set(instance, megabytes)
	}
	now := time.Unix(1000, 0)
	step := func(low bool, want string) {
		t.Helper()
		now = now.Add(time.Second)
		instance, why := d.step(now, low)
		if instance != want || want != "" && !strings.Contains(why, "MB of disk, its request is 2 MB, and the disk of the node is full") {
			t.Errorf("after %v: %q, %q, want %q", now.Sub(time.Unix(1000, 0)), instance, why, want)
		}
	}
	step(false, "")
	step(true, "larger") // the round before was on a disk with room
	step(true, "")       // it is ending
	d.remove("larger")
	step(true, "large")
	for range 70 { // it does not end
		step(false, "")
	}
	d.remove("large")
	step(true, "")
	step(true, "")
}
