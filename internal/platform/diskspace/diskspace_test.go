package diskspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
)

func TestMain(m *testing.M) {
	if _, err := smalldisk.Mount(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestFull(t *testing.T) {
	for _, c := range []struct {
		name                   string
		free, files, freeFiles uint64
		want                   string
	}{
		{"room", Needed, 1000, 900, ""},
		{"files are not counted", Needed, 0, 0, ""},
		{"full", 0, 1000, 900, "disk full: /data has 0 MB free and needs 64 MB: free or add space"},
		{"a little", 12<<20 + 5, 1000, 900, "disk full: /data has 12 MB free and needs 64 MB: free or add space"},
		{"no more files", 1 << 30, 1000, 3, "disk full: /data accepts no more files, although 1024 MB are free: remove files there"},
	} {
		full := space{1, c.free, c.files, c.freeFiles}.full("/data")
		if (full != nil) != (c.want != "") || full != nil && full.Error() != c.want {
			t.Errorf("%s: %v, want %q", c.name, full, c.want)
		}
	}
}

// A missing folder counts as on the disk of its parent.
func TestCheckOfAPathThatDoesNotExist(t *testing.T) {
	dir := t.TempDir()
	if err := Check(filepath.Join(dir, "a", "b")); err != nil {
		t.Errorf("Check = %v, want the room of %s", err, dir)
	}
	if err := Check("/proc/weir"); err != nil {
		t.Errorf("Check of a file system without blocks = %v, want nothing", err)
	}
	if err := Check(filepath.Join(dir, "a\x00")); err == nil {
		t.Error("Check of a path that cannot be is nil, want an error: its room is unknown")
	}
}

func TestReserveSize(t *testing.T) {
	for _, c := range []struct{ free, want int64 }{
		{0, 0}, {799 << 20, 0}, {800 << 20, 80 << 20}, {900 << 20, 90 << 20}, {960 << 20, 96 << 20}, {1 << 50, 96 << 20},
	} {
		if got := reserveSize(uint64(c.free)); got != c.want {
			t.Errorf("reserveSize(%d MB) = %d MB, want %d MB", c.free>>20, got>>20, c.want>>20)
		}
	}
}

// TestReserveIsReleasedOnAFullDisk: what was reserved is free as soon as nothing fills the disk, and reserved again when
// there is room.
func TestReserveIsReleasedOnAFullDisk(t *testing.T) {
	dir, inside := smalldisk.On(t, 804<<20, ".")
	if !inside {
		return
	}
	bus := filepath.Join(dir, "bus")
	if err := os.Mkdir(bus, 0o700); err != nil {
		t.Fatal(err)
	}
	keeper := NewKeeper(bus)
	keep := func(want string, free uint64, state string) {
		t.Helper()
		if change, err := keeper.Keep(); err != nil || change != want {
			t.Fatalf("Keep = %q, %v, want %q", change, err, want)
		}
		s, err := spaceOf(dir)
		if err != nil || s.free>>20 != free {
			t.Errorf("%d MB are free, %v, want %d", s.free>>20, err, free)
		}
		text := fmt.Sprint(Watched(dir, "bus"))
		if !strings.HasPrefix(text, "["+state) || state == "" && text != "[]" {
			t.Errorf("state %q, want %q", text, state)
		}
	}
	keep("reserved 80 MB", 723, "")
	keep("", 723, "")
	free := smalldisk.Fill(t, dir)
	if err := Check(dir); err == nil {
		t.Error("the disk is not full")
	}
	keep("", 0, "disk full: "+dir+" has 0 MB free") // it may still be filled
	keep("", 0, "disk full: "+dir+" has 0 MB free")
	keep("released 80 MB", 80, "disk nearly full: "+dir+" has 80 MB left of its reserve, and needs 800 MB: free or add space")
	keep("", 80, "disk nearly full: ")
	free()
	keep("reserved 80 MB", 723, "")
	keep("", 723, "")
}
