// Package output takes what a child process writes: it cuts it into lines, passes
// them on as long as they are not too many, and keeps the last ones.
//
//	tail := output.NewTail(1000, 1<<20)
//	pipes, err := output.NewPipes(output.LogLines(log), tail)
//	// start the child with pipes.Theirs() as its stdout and stderr
//	pipes.Read()
//
// A [Tail] may be used concurrently; the methods of [Pipes] follow each other.
package output

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
)

const (
	// MaxLine is the length, in bytes, at which an output line is cut.
	MaxLine = 8 << 10

	// MaxLinesPerSecond is how many lines of a stream are passed on.
	MaxLinesPerSecond = 500
)

// Stream names of output lines.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	Marks  = "marks" // only in a Tail: when a child started and ended
)

// LogLines returns a listener that logs each line at level info.
func LogLines(log *slog.Logger) func(stream string, line []byte) {
	return func(stream string, line []byte) {
		log.LogAttrs(context.Background(), slog.LevelInfo, "output",
			slog.String("stream", stream), slog.String("line", string(line)))
	}
}

// WriteLines returns a listener that writes each line to w, for a child that
// logs as this process does. A line that w does not take is lost.
func WriteLines(w io.Writer) func(stream string, line []byte) {
	return func(_ string, line []byte) {
		_, _ = w.Write(append(line[:len(line):len(line)], '\n'))
	}
}

// readLines gives the lines of r to each until r ends or fails.
func readLines(r io.Reader, each func(line []byte)) {
	lines := bufio.NewReaderSize(r, MaxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			each(bytes.TrimRight(line, "\r\n"))
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}
