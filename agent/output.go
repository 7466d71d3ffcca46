package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the stored output.
const (
	keptOutput  = 1 << 20   // bytes of a running copy that stay on the disk; up to twice as many until the next trim
	endedOutput = 64 << 10  // bytes of an ended copy
	longestFile = 1 << 40   // bytes; far below the limit of every file system
	replyLogs   = 128 << 10 // of one LogsReply; JSON escapes multiply it by at most six, which still fits into a message
	maxLogLine  = 8 << 10   // bytes, after which a line is cut
	trimEvery   = time.Second
	punchBlock  = 64 << 10 // a multiple of the block size of file systems
)

// stateFolder is the folder below Config.DataDir with the outputs of the copies. A name of an app instance has no dot,
// so nothing else has this name.
const stateFolder = ".instances"

const outputSuffix = ".out"

// endMark begins the line that endOutput adds.
const endMark = "[ended: "

// Each output has a file, which is trimmed at its start: the kernel frees the blocks there, and all offsets stay valid.

// outputPath returns the file of a copy's output.
func outputPath(dataDir, instance string) string {
	return filepath.Join(dataDir, stateFolder, instance+outputSuffix)
}

// createOutput creates the file of a copy's output.
func createOutput(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
}

// openOutput opens the file of a copy's output. It refuses other kinds of files, because the copy could replace it.
func openOutput(path string, flags int) (*os.File, int64, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// endOutput adds how a copy ended, and trims its output.
func endOutput(path, how string) error {
	f, size, err := openOutput(path, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	last := []byte{'\n'}
	if size > 0 {
		_, err = f.ReadAt(last, size-1)
	}
	mark := endMark + how + "]\n"
	if last[0] != '\n' {
		mark = "\n" + mark
	}
	if err == nil {
		_, err = f.WriteString(mark)
	}
	return errors.Join(err, f.Close(), trimOutput(path, endedOutput))
}

// trimOutput frees the start of a file that has more than twice kept bytes. If the file system cannot free a part of a
// file, trimOutput empties it.
func trimOutput(path string, kept int64) error {
	f, size, err := openOutput(path, os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing is buffered
	if size-dataStart(f, 0, size) <= 2*kept {
		return nil
	}
	end := (size - kept) / punchBlock * punchBlock
	if size > longestFile {
		return f.Truncate(0)
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, end)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(0)
	}
	return err
}

// dataStart returns the first offset from which the file has data.
func dataStart(f *os.File, from, size int64) int64 {
	at, err := unix.Seek(int(f.Fd()), from, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO): // only a hole follows
		return size
	case err != nil || at < from: // the file system does not report holes
		return from
	}
	return at
}

// trimOutputs trims the outputs of all copies until ctx ends.
func trimOutputs(ctx context.Context, dataDir string, log *slog.Logger) {
	again := time.NewTicker(trimEvery)
	defer again.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		err := trimAll(dataDir)
		if err != nil && !failed {
			log.Warn("output of app instances not trimmed", "dir", dataDir, "err", err)
		}
		failed = err != nil
	}
}

func trimAll(dataDir string) error {
	folder := filepath.Join(dataDir, stateFolder)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) { // before the first copy
		return nil
	}
	var errs []error
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), outputSuffix) && info.Size() > 2*keptOutput {
			if err := trimOutput(filepath.Join(folder, e.Name()), keptOutput); !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(append(errs, err)...)
}

// excerpt is a part of a copy's output.
type excerpt struct {
	lines []string
	next  int64 // offset of what follows
	lost  bool  // some bytes after the requested offset no longer exist
}

// part selects what readOutput returns.
type part struct {
	from   int64 // offset; negative: so many bytes before the end
	limit  int   // bytes
	inside bool  // from may be inside of a line: begin with the next one
	whole  bool  // the last line may have no end
}

// lastLines returns the last n lines (0: all), at most p.limit bytes. The line of endOutput comes in addition, if the
// copy has ended.
func lastLines(path string, n int, p part, ended bool) (excerpt, error) {
	p.from, p.inside = -int64(p.limit), true
	x, err := readOutput(path, p)
	if n > 0 && ended && len(x.lines) > 0 && strings.HasPrefix(x.lines[len(x.lines)-1], endMark) {
		n++
	}
	if n > 0 && len(x.lines) > n {
		x.lines = x.lines[len(x.lines)-n:]
	}
	return x, err
}

// readOutput returns a part of a file as lines. Lines that no longer exist are skipped.
func readOutput(path string, p part) (excerpt, error) {
	f, size, err := openOutput(path, os.O_RDONLY)
	if err != nil {
		return excerpt{}, err
	}
	defer func() { _ = f.Close() }() // only read
	if p.from < 0 {
		p.from = max(0, size+p.from)
	}
	var x excerpt
	if p.from > size { // the file was emptied
		p.from, x.lost = 0, true
	}
	inside := p.inside && p.from > 0
	var start int64
	var data []byte
	for found, trimmed := dataStart(f, p.from, size), true; trimmed; {
		if found > p.from {
			inside, x.lost = true, true
		}
		start = found
		if inside {
			start-- // a line that begins at found is whole
		}
		data = make([]byte, min(size-start, int64(p.limit)+1))
		n, err := f.ReadAt(data, start)
		if err != nil && !errors.Is(err, io.EOF) {
			return excerpt{}, err
		}
		data = data[:n]
		now := dataStart(f, found, size)
		found, trimmed = now, now > found
	}
	if zeros := len(data) - len(bytes.TrimLeft(data, "\x00")); zeros > 0 && inside { // the hole begins before start
		start, data = start+int64(zeros), data[zeros:]
	}
	if i := bytes.IndexByte(data, '\n'); inside && i >= 0 {
		start, data = start+int64(i)+1, data[i+1:]
	}
	data = data[:min(len(data), p.limit)]
	var length int64
	x.lines, length = splitLines(data, p)
	x.next = start + length
	return x, nil
}

// splitLines cuts data into lines, and returns how many bytes they have with their ends.
func splitLines(data []byte, p part) (lines []string, length int64) {
	for rest := data; len(rest) > 0; {
		end, skip := bytes.IndexByte(rest, '\n'), 1
		if end < 0 {
			if !p.whole && len(rest) < min(p.limit, maxLogLine) {
				break
			}
			end, skip = len(rest), 0
		}
		if end > maxLogLine {
			end, skip = maxLogLine, 0
		}
		lines = append(lines, strings.ToValidUTF8(string(bytes.TrimSuffix(rest[:end], []byte{'\r'})), "\uFFFD"))
		rest, length = rest[end+skip:], length+int64(end+skip)
	}
	return lines, length
}
