package supervise

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

// LogLines returns a Spec.Lines that logs each line at level info.
func LogLines(log *slog.Logger) func(stream string, line []byte) {
	return func(stream string, line []byte) {
		log.LogAttrs(context.Background(), slog.LevelInfo, "output",
			slog.String("stream", stream), slog.String("line", string(line)))
	}
}

// WriteLines returns a Spec.Lines that writes each line to w, for a child that
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
