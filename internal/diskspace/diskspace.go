// Package diskspace reports file systems that are too full to work on.
package diskspace

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// Needed is the room, in bytes, below which a disk counts as full: the bus and the
	// metrics store stop at about that much.
	Needed = 64 << 20
	// neededFiles is how many more files a disk must take.
	neededFiles = 128
)

// Full is a disk without the room that is needed.
type Full struct {
	Path  string `json:"path"`  // that is on it
	Free  uint64 `json:"free"`  // bytes for this user
	Need  uint64 `json:"need"`  // bytes
	Files bool   `json:"files"` // there are bytes, and it takes no more files
}

// Error implements error.
func (f *Full) Error() string {
	if f.Files {
		return fmt.Sprintf("disk full: %s takes no more files, of %d MB that are free: remove files there", f.Path, f.Free>>20)
	}
	return fmt.Sprintf("disk full: %s has %d MB free, and needs %d MB: free space there, or give it more", f.Path, f.Free>>20, f.Need>>20)
}

// Check returns a *Full if the disk of path is full, nil if it is not, and another error if
// that is unknown. A path that does not exist is on the disk of its nearest folder.
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
	if s.Blocks == 0 { // it stores nothing, as /proc
		return nil
	}
	return judge(path, uint64(s.Bavail)*uint64(s.Bsize), s.Files, s.Ffree)
}

// Watched returns the disks below a data folder that are full: that of the folder, and
// those of the parts of it that are on disks of their own. What is unknown is left out.
func Watched(folder string, parts ...string) []*Full {
	var full []*Full
	look := func(path string) {
		if one, is := errors.AsType[*Full](Check(path)); is {
			full = append(full, one)
		}
	}
	look(folder)
	for _, part := range parts {
		if path := filepath.Join(folder, part); device(path) != device(folder) {
			look(path)
		}
	}
	return full
}

// device returns the disk of a path; 0 if that is unknown.
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

// judge decides by the free bytes, and by the files that the disk has and can take. Some
// file systems do not count files.
func judge(path string, free, files, freeFiles uint64) error {
	switch {
	case free < Needed:
		return &Full{Path: path, Free: free, Need: Needed}
	case files > 0 && freeFiles < neededFiles:
		return &Full{Path: path, Free: free, Need: Needed, Files: true}
	}
	return nil
}
