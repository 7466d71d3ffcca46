// Package wholefile replaces files so that a reader, also one after a crash or on a full
// disk, finds the old content or the new one, and sets damaged files aside.
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

// Write replaces the file at path by data, for this user only, and makes that durable. Its
// folder must exist. A file that has this content already is left alone, so that a process
// that starts on a full disk needs no room for what has not changed. One process writes a
// path at a time.
func Write(path string, data []byte) error {
	if same(path, data) {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // gone already if all went well
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

// same reports whether the file has that content, and no other user reads it.
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

// SetAside renames a damaged file or folder, so that another can take its place and people
// can look at it, and returns its new path.
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
