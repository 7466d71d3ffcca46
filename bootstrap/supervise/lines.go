package supervise

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
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

// readLines gives the lines of r to emit until r ends or fails.
func readLines(r io.Reader, emit func(line []byte)) {
	lines := bufio.NewReaderSize(r, MaxLine)
	var limit lineLimit
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			pass, dropped := limit.admit(time.Now())
			if dropped > 0 {
				emit(dropNote(dropped))
			}
			if pass {
				emit(bytes.TrimRight(line, "\r\n"))
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			break
		}
	}
	if limit.dropped > 0 {
		emit(dropNote(limit.dropped))
	}
}

func dropNote(n int) []byte {
	return fmt.Appendf(nil, "%d lines dropped: more than %d a second", n, MaxLinesPerSecond)
}

// lineLimit admits MaxLinesPerSecond lines in each second, the seconds counted
// from the first line after a quiet one.
type lineLimit struct {
	since    time.Time
	admitted int
	dropped  int
}

// admit reports whether a line may pass, and how many were dropped since this
// was last told.
func (l *lineLimit) admit(now time.Time) (pass bool, dropped int) {
	if now.Sub(l.since) >= time.Second {
		dropped = l.dropped
		*l = lineLimit{since: now}
	}
	if l.admitted == MaxLinesPerSecond {
		l.dropped++
		return false, dropped
	}
	l.admitted++
	return true, dropped
}
