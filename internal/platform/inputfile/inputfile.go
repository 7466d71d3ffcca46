// Package inputfile opens and reads the files that a person names on a command line or in
// a configuration. A file may be a pipe that a process writes to, such as the <(...) of a
// shell. A pipe without a writer is an error: the reader does not wait for it. Each error
// names the file and the remedy.
//
//	data, err := inputfile.Read(path, 1<<20)
//
// The package holds no state.
package inputfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// readTimeout bounds how long Read waits for the end of a pipe.
const readTimeout = 10 * time.Second

// Error is an error of Open, Read and of a File's methods: the file that a person named is
// wrong.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause, such as fs.ErrNotExist.
func (e *Error) Unwrap() error { return e.err }

func wrong(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }

// File is a file that is open for reading. It has one owner.
type File struct {
	*os.File
	pipe bool
	read bool // a byte was read
}

// Open opens a file, and does not wait for the writer of a pipe. The caller closes the File.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, wrong("%w: name a file that exists", err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, wrong("%w: let this user read it, or name another file", err)
	}
	if err != nil {
		return nil, wrong("%w: name another file", err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = wrong("%w: name another file", err)
	case info.IsDir():
		err = wrong("read %s: is a folder: name a file", path)
	default:
		return &File{File: f, pipe: info.Mode()&fs.ModeNamedPipe != 0}, nil
	}
	return nil, errors.Join(err, f.Close())
}

// Read implements io.Reader. The end of a pipe from which no byte came is an error.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.read = f.read || n > 0
	switch {
	case errors.Is(err, io.EOF) && f.pipe && !f.read:
		return n, wrong("read %s: a pipe to which no process writes: want a file", f.Name())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, wrong("read %s: the pipe does not end within %v: end its writer, or name a file", f.Name(), readTimeout)
	case err != nil && !errors.Is(err, io.EOF):
		return n, wrong("%w: name another file", err)
	}
	return n, err
}

// WriteTo implements io.WriterTo, which *os.File has too, by Read.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{f})
}

// Read returns the content of a file. Of a file of more than most bytes it returns the
// first most+1: the caller finds that the file is too long.
func Read(path string, most int) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	if f.pipe {
		if err := f.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, int64(most)+1))
}
