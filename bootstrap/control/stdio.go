package control

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

// lineWriter splits its input into lines, with the limits of package supervise for a stream: a line is cut at
// output.MaxLine bytes, and lines above output.MaxLinesPerSecond are dropped.
type lineWriter struct {
	emit func(line []byte) // not called after close has returned

	mu      sync.Mutex
	closed  bool
	part    []byte // of an incomplete line
	limit   *rate.Limiter
	dropped int // lines dropped but not yet reported
}

func newLineWriter(emit func(line []byte)) *lineWriter {
	return &lineWriter{emit: emit, limit: rate.NewLimiter(output.MaxLinesPerSecond, output.MaxLinesPerSecond)}
}

// Write accepts all of b.
func (w *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		w.part = append(w.part, line[:min(len(line), output.MaxLine-len(w.part))]...)
		if !whole {
			break
		}
		w.endLocked(time.Now())
		b = rest
	}
	return n, nil
}

// close emits an incomplete last line. Later writes are ignored.
func (w *lineWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.part) > 0 && !w.closed {
		w.endLocked(time.Now())
	}
	w.closed = true
}

// endLocked emits or drops the completed line.
func (w *lineWriter) endLocked(now time.Time) {
	defer func() { w.part = w.part[:0] }()
	if !w.limit.AllowN(now, 1) {
		w.dropped++
		return
	}
	if w.dropped > 0 {
		w.emit(fmt.Appendf(nil, "%d lines dropped: more than %d a second", w.dropped, output.MaxLinesPerSecond))
		w.dropped = 0
	}
	w.emit(bytes.TrimSuffix(w.part, []byte("\r")))
}
