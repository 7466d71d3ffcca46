package diskspace

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestJudge(t *testing.T) {
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
		err := judge("/data", c.free, c.files, c.freeFiles)
		full, is := errors.AsType[*api.FullDisk](err)
		if is != (c.want != "") || is && full.Error() != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
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
