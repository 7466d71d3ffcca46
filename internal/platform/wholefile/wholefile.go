// Package wholefile replaces files atomically, also after a crash or on a full disk, and moves damaged files aside.
//
// [Write] writes a temporary file, syncs it and renames it. So a reader finds the old content or the new content.
// [SetAside] renames a damaged file, so that its process can start without it. Different files may be written
// concurrently.
package wholefile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Write replaces the file at path by data, readable for this user only, and syncs it. Its folder must exist. If the
// file already has this content, Write changes nothing, so a start on a full disk needs no space for unchanged files.
// Only one process may write a path at a time.
func Write(path string, data []byte) error {
	if same(path, data) {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // already renamed after success
	_, err = temporary.Write(data)
	if err == nil {
		err = temporary.Sync()
	}
	if err := errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// same reports whether the file has that content and is readable for this user only.
func same(path string, data []byte) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 || info.Size() != int64(len(data)) {
		return false
	}
	old, err := os.ReadFile(path)
	return err == nil && bytes.Equal(old, data)
}

// syncFolder makes a rename in the folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// SetAside renames a damaged file or folder, so that a new one can replace it, and returns the new path.
func SetAside(path string, now time.Time) (aside string, err error) {
	stem := path + ".damaged-" + now.UTC().Format("20060102T150405Z")
	for n := 1; ; n++ {
		aside = stem
		if n > 1 {
			aside = fmt.Sprintf("%s-%d", stem, n)
		}
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	return aside, syncFolder(filepath.Dir(path))
}
