package tsdbstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/tsdb"

	"github.com/weirkeeper/weirkeeper/internal/wholefile"
)

// lockFile is the name of the lock in the folder of a store.
const lockFile = "owner"

// headParts are the folders that the database reads the newest samples from.
func headParts() []string { return []string{"wal", "wbl", "chunks_head"} }

// openDatabase opens the database of the folder. If it does not open because of what is in
// the folder, that is set aside, with a warning: first what the newest samples are read
// from, which a crash may have left half-written, then all.
func openDatabase(dir string, c Config) (*tsdb.DB, error) {
	open := func() (*tsdb.DB, error) {
		return tsdb.Open(dir, slog.New(quiet{c.Log.Handler()}), nil, c.options(), nil)
	}
	db, err := open()
	for _, head := range []bool{true, false} {
		if err == nil || !damaged(err) {
			break
		}
		aside, failed := setAside(dir, head)
		if failed != nil {
			return nil, errors.Join(err, failed)
		}
		c.Log.Warn("metrics are damaged and set aside: windows that need them are unknown", "err", err, "aside", aside)
		db, err = open()
	}
	return db, err
}

// damaged reports whether an error is one of the content of the folder, and not of the
// system, which another try may not have.
func damaged(err error) bool {
	for _, system := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EIO,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR,
	} {
		if errors.Is(err, system) {
			return false
		}
	}
	return true
}

// setAside renames the head of the database, or all of it, and returns the new paths.
func setAside(dir string, head bool) (aside []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("set damaged metrics aside: %w", err)
	}
	now := time.Now()
	for _, e := range entries {
		name := e.Name()
		if name == lockFile || strings.Contains(name, ".damaged-") || head && !slices.Contains(headParts(), name) {
			continue
		}
		path, err := wholefile.SetAside(filepath.Join(dir, name), now)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return aside, fmt.Errorf("set damaged metrics aside: %w", err)
		}
		aside = append(aside, path)
	}
	return aside, nil
}
