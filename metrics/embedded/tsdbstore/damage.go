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

	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

// lockFile is the name of the lock in a store's folder.
const lockFile = "owner"

// headParts returns the folders with the newest samples.
func headParts() []string { return []string{"wal", "wbl", "chunks_head"} }

// openDatabase opens the database of the folder. If damaged files prevent that, it moves them aside with a warning:
// first the newest samples, which a crash may have left incomplete, then everything.
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
		c.Log.Warn("damaged metrics moved aside, their windows are unknown", "err", err, "aside", aside)
		db, err = open()
	}
	return db, err
}

// damaged reports whether an error comes from the folder's content. Errors of the system may pass.
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
		return nil, fmt.Errorf("move damaged metrics aside: %w", err)
	}
	now := time.Now()
	for _, e := range entries {
		name := e.Name()
		if name == lockFile || strings.Contains(name, ".damaged-") || head && !slices.Contains(headParts(), name) {
			continue
		}
		path, err := wholefile.SetAside(filepath.Join(dir, name), now)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return aside, fmt.Errorf("move damaged metrics aside: %w", err)
		}
		aside = append(aside, path)
	}
	return aside, nil
}
