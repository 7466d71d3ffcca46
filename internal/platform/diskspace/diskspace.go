// Package diskspace detects full file systems.
//
// [Check] returns a [Full] if the disk of a path is full. [Watched]
// checks the parts of a data folder. Commands print the result as a warning. The functions
// have no state, so they may be called concurrently.
package diskspace

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/api"
)

const (
	// Needed is the free space in bytes below which a disk counts as full. The bus and the metrics store stop near
	// that limit.
	Needed = 64 << 20
	// neededFiles is the number of additional files that a disk must accept.
	neededFiles = 128
)

// Check returns a *Full if the disk of path is full, nil if it is not, and another error if that is unknown. A
// missing path counts as on the disk of its nearest existing folder.
func Check(path string) error {
	var s unix.Statfs_t
	for at := path; ; at = filepath.Dir(at) {
		err := statfs(at, &s)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the free space of %s: %w", path, err)
		}
		break
	}
	if s.Blocks == 0 { // a file system without storage, such as /proc
		return nil
	}
	return judge(path, uint64(s.Bavail)*uint64(s.Bsize), s.Files, s.Ffree)
}

// Watched returns the full disks of a data folder: the folder's disk, and the separate disks of its parts. Unknown
// disks are omitted.
func Watched(folder string, parts ...string) []*api.FullDisk {
	var full []*api.FullDisk
	addIfFull := func(path string) {
		if one, is := errors.AsType[*api.FullDisk](Check(path)); is {
			full = append(full, one)
		}
	}
	addIfFull(folder)
	for _, part := range parts {
		if path := filepath.Join(folder, part); device(path) != device(folder) {
			addIfFull(path)
		}
	}
	return full
}

// device returns the device number of a path; 0 if unknown.
func device(path string) uint64 {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return 0
	}
	return s.Dev
}

func statfs(path string, s *unix.Statfs_t) error {
	for {
		if err := unix.Statfs(path, s); err != unix.EINTR {
			return err
		}
	}
}

// judge checks the free bytes and the free files. Some file systems do not count files.
func judge(path string, free, files, freeFiles uint64) error {
	switch {
	case free < Needed:
		return &api.FullDisk{Path: path, Free: free, Need: Needed}
	case files > 0 && freeFiles < neededFiles:
		return &api.FullDisk{Path: path, Free: free, Need: Needed, Files: true}
	}
	return nil
}
