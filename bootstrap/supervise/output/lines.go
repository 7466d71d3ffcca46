// Package output handles what a child process writes. It cuts the output into lines, passes them on up to a rate, and
// stores the last ones.
//
//	tail := output.NewTail(1000, 1<<20)
//	pipes, err := output.NewPipes(output.LogLines(log), tail)
//	// start the child with pipes.ChildEnds() as its stdout and stderr
//	pipes.Read()
//
// A [Tail] may be used concurrently. The methods of [Pipes] must be called one after another.
//
// The supervisor uses it for signals and for instances of applications.
package output

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
)

const (
	// MaxLine is the length, in bytes, at which an output line is cut.
	MaxLine = 8 << 10

	// MaxLinesPerSecond is how many lines of a stream are passed on per second.
	MaxLinesPerSecond = 500

	// maxBytesPerHour is how many bytes of a stream are passed on per hour. The last lines are in the Tail in any case.
	maxBytesPerHour = 64 << 20
)

// Stream names of output lines.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	Marks  = "marks" // only in a Tail: start and end of a child
)

// LogLines returns a listener that logs each line at level info.
func LogLines(log *slog.Logger) func(stream string, line []byte) {
	return logLines(log, slog.LevelInfo)
}

func logLines(log *slog.Logger, level slog.Level) func(stream string, line []byte) {
	return func(stream string, line []byte) {
		log.LogAttrs(context.Background(), level, "output",
			slog.String("stream", stream), slog.String("line", string(line)))
	}
}

// WriteLines returns a listener that writes each line to w, for a child with the log format of this process. If that
// is JSON, it logs a line that is not a JSON object at level error: a crash writes text. A line is lost if w returns an
// error.
func WriteLines(w io.Writer, log *slog.Logger) func(stream string, line []byte) {
	_, inJSON := log.Handler().(*slog.JSONHandler)
	text := logLines(log, slog.LevelError)
	return func(stream string, line []byte) {
		if inJSON && !(bytes.HasPrefix(line, []byte("{")) && json.Valid(line)) {
			text(stream, line)
			return
		}
		_, _ = w.Write(append(line[:len(line):len(line)], '\n'))
	}
}

// readLines calls each with every line of r until r ends or fails.
func readLines(r io.Reader, each func(line []byte)) {
	lines := bufio.NewReaderSize(r, MaxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			each(bytes.TrimRight(line, "\r\n"))
		}
		for errors.Is(err, bufio.ErrBufferFull) { // skip the rest of a long line
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}
