package rowfile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// MaxFile bounds the file, in bytes.
const MaxFile = 16 << 20

// errChanged: the file differs from the checked one.
var errChanged = errors.New("changed during the read")

// stamp changes with the file and with each write to it.
type stamp struct {
	device, inode uint64
	size          int64
	modified      time.Time
}

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	return stampFrom(path, info)
}

func stampFrom(path string, info fs.FileInfo) (stamp, error) {
	if !info.Mode().IsRegular() { // opening a pipe would block
		return stamp{}, fmt.Errorf("%s: is not a regular file", path)
	}
	s := stamp{size: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode = uint64(sys.Dev), sys.Ino
	}
	return s, nil
}

// read returns the content of the checked file, or errChanged if the file differs.
func read(path string, seen stamp) ([]byte, error) {
	if seen.size > MaxFile {
		return nil, fmt.Errorf("%s: is longer than %d bytes", path, MaxFile)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, seen.size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, errChanged, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if now, err := stampFrom(path, info); err != nil || now != seen {
		return nil, fmt.Errorf("%s: %w", path, errChanged)
	}
	return data, nil
}

func digest(data []byte) [32]byte { return sha256.Sum256(data) }
