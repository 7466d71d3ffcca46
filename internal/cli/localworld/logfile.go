package localworld

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// logFile is a file of log lines. After the file or its folder was removed, the next line makes both again.
type logFile struct {
	path string
	mu   sync.Mutex
	file *os.File
}

// openLogFile renames the previous log, and opens a new one.
func openLogFile(path string) (*logFile, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("log file: %w", err)
	}
	l := &logFile{path: path}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *logFile) open() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	l.file = file
	return nil
}

// Write implements io.Writer.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := os.Lstat(l.path); errors.Is(err, fs.ErrNotExist) {
		removed := l.file
		if err := l.open(); err == nil {
			removed.Close()
		} // otherwise the removed file has the lines
	}
	return l.file.Write(line)
}

// Close implements io.Closer.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
