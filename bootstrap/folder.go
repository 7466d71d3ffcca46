package bootstrap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// keptFolder is a folder that is made again if it was removed, with those above it.
type keptFolder []keptLevel // from the root on

type keptLevel struct {
	path     string
	mode     fs.FileMode
	uid, gid int
}

// keepFolder returns the folder as it is now. An empty path, and a folder that does not exist, is never made.
func keepFolder(path string) keptFolder {
	var levels keptFolder
	for path != "" && filepath.IsAbs(path) {
		info, err := os.Stat(path)
		if err != nil {
			return nil
		}
		of := info.Sys().(*syscall.Stat_t) // always, on Linux
		levels = append(levels, keptLevel{path, info.Mode() & (fs.ModePerm | fs.ModeSticky | fs.ModeSetgid), int(of.Uid), int(of.Gid)})
		if path == filepath.Dir(path) {
			break
		}
		path = filepath.Dir(path)
	}
	slices.Reverse(levels)
	return levels
}

// restore makes the missing folders again, with the mode and the owner that each had.
func (f keptFolder) restore() error {
	for _, level := range f {
		err := os.Mkdir(level.path, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil && (level.uid != os.Geteuid() || level.gid != os.Getegid()) {
			err = os.Chown(level.path, level.uid, level.gid)
		}
		if err == nil {
			err = os.Chmod(level.path, level.mode)
		}
		if err != nil {
			return fmt.Errorf("make the removed folder %s again: %w", level.path, err)
		}
	}
	return nil
}
