// Package diskspace detects full file systems.
//
// [Check] returns an [api.FullDisk] if the disk of a path is full. [Watched]
// checks the parts of a data folder. Commands print the result as a warning. A [Keeper] reserves
// space for a process that must work on a full disk. The functions
// have no state, so they may be called concurrently; a keeper serves one goroutine, and one process keeps a reserve.
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
	s, err := spaceOf(path)
	if err != nil {
		return err
	}
	if full := s.full(path); full != nil {
		return full
	}
	return nil
}

// Watched returns the full disks of a data folder: the folder's disk, and the separate disks of its parts. A disk whose
// reserve is released counts as full. Unknown disks are omitted.
func Watched(folder string, parts ...string) []*api.FullDisk {
	type disk struct {
		path     string
		released bool // a reserve
	}
	disks := []disk{{path: folder}}
	for _, part := range parts {
		path := filepath.Join(folder, part)
		released := released(path)
		if device(path) != device(folder) {
			disks = append(disks, disk{path, released})
		} else if released {
			disks[0].released = true
		}
	}
	var full []*api.FullDisk
	for _, d := range disks {
		s, err := spaceOf(d.path)
		if err != nil {
			continue
		}
		if one := s.full(d.path); one != nil {
			full = append(full, one)
		} else if d.released && s.free < reserveShare*leastReserve {
			full = append(full, &api.FullDisk{Path: d.path, Free: s.free, Need: reserveShare * leastReserve, Reserve: true})
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

// space is what a disk has.
type space struct {
	blocks           uint64 // 0: a file system without storage, such as /proc
	free             uint64 // bytes
	files, freeFiles uint64 // files is 0 if the file system does not count them
}

// spaceOf returns the space of the disk of a path. A missing path counts as on the disk of its nearest existing folder.
func spaceOf(path string) (space, error) {
	var s unix.Statfs_t
	for at := path; ; at = filepath.Dir(at) {
		err := statfs(at, &s)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		if err != nil {
			return space{}, fmt.Errorf("read the free space of %s: %w", path, err)
		}
		return space{s.Blocks, s.Bavail * uint64(s.Bsize), s.Files, s.Ffree}, nil
	}
}

// full returns the error of a full disk, with the path on it, and nil for another disk.
func (s space) full(path string) *api.FullDisk {
	switch {
	case s.blocks == 0:
	case s.free < Needed:
		return &api.FullDisk{Path: path, Free: s.free, Need: Needed}
	case s.files > 0 && s.freeFiles < neededFiles:
		return &api.FullDisk{Path: path, Free: s.free, Need: Needed, Files: true}
	}
	return nil
}
