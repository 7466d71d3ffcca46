package agent

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bounds of the measurement of one folder. Further files do not count.
const (
	maxPendingFolders = 10_000
	maxLinkedFiles    = 100_000 // files with several names
	readNames         = 256     // names of one read of a folder
)

// folderUse measures the disk use of a folder in steps, because a folder may have millions of files. Files of other file
// systems do not count, and a file with several names counts once. Close it if the measurement is not done.
type folderUse struct {
	bytes int64 // on the disk, so far

	root    *os.Root
	device  uint64
	pending []string // folders to read, relative to root
	name    string   // of dir
	dir     *os.File // the folder that is being read; nil: none
	linked  map[uint64]bool
}

func newFolderUse(path string) (*folderUse, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	u := &folderUse{root: root, pending: []string{"."}, linked: map[uint64]bool{}}
	info, err := root.Stat(".")
	if err != nil {
		u.close()
		return nil, err
	}
	u.device = info.Sys().(*syscall.Stat_t).Dev
	return u, nil
}

// step measures up to so many more entries. It returns how many of them are left if the measurement is done.
func (u *folderUse) step(entries int) (left int, done bool) {
	for entries > 0 {
		if u.dir == nil {
			if len(u.pending) == 0 {
				u.close()
				return entries, true
			}
			entries--
			u.openNext()
			continue
		}
		names, err := u.dir.Readdirnames(min(entries, readNames))
		for _, name := range names {
			u.add(name)
		}
		if entries -= len(names); err != nil { // usually its end
			u.closeDir()
		}
	}
	return 0, false
}

// openNext opens the next folder. The application may have removed or replaced it.
func (u *folderUse) openNext() {
	last := len(u.pending) - 1
	u.name, u.pending = u.pending[last], u.pending[:last]
	u.dir, _ = u.root.OpenFile(u.name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

func (u *folderUse) add(name string) {
	var s unix.Stat_t
	if err := unix.Fstatat(int(u.dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil || s.Dev != u.device {
		return // it was removed, or its blocks are elsewhere
	}
	switch isFolder := s.Mode&unix.S_IFMT == unix.S_IFDIR; {
	case isFolder && len(u.pending) < maxPendingFolders:
		u.pending = append(u.pending, filepath.Join(u.name, name))
	case !isFolder && s.Nlink > 1:
		if u.linked[s.Ino] || len(u.linked) >= maxLinkedFiles {
			return
		}
		u.linked[s.Ino] = true
	}
	u.bytes += s.Blocks * 512
}

func (u *folderUse) closeDir() {
	if u.dir != nil {
		_ = u.dir.Close() // only read
		u.dir = nil
	}
}

func (u *folderUse) close() {
	u.closeDir()
	_ = u.root.Close() // only read
}
