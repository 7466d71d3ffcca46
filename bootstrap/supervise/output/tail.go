package output

import (
	"fmt"
	"sync"
	"time"
)

// Line is a line of a child's output.
type Line struct {
	Seq    uint64 // 1 for the first line of a Tail, then one more each
	Time   time.Time
	Stream string // Stdout, Stderr or Marks
	Text   string
}

// Tail keeps the last lines of what one child after another puts out, and marks
// where each starts and ends. Its methods may be called concurrently.
type Tail struct {
	maxBytes int

	mu    sync.Mutex
	ring  []Line        // the line of sequence number s is at s % len
	first uint64        // sequence number of the oldest line that is kept
	next  uint64        // and of the line that comes next
	bytes int           // of the texts
	more  chan struct{} // closed with the next line; nil: nobody waits
}

// NewTail returns a tail of at most so many lines, with texts of so many bytes in
// all; each at least 1. A line that is longer is cut.
func NewTail(lines, bytes int) *Tail {
	return &Tail{maxBytes: max(1, bytes), ring: make([]Line, max(1, lines)), first: 1, next: 1}
}

// Add adds a line. It may be a listener, and does nothing on a nil Tail.
func (t *Tail) Add(stream string, line []byte) {
	if t == nil {
		return
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(line[:min(len(line), t.maxBytes)])
	for t.first < t.next && (t.next-t.first == uint64(len(t.ring)) || t.bytes+len(text) > t.maxBytes) {
		oldest := t.at(t.first)
		t.bytes -= len(oldest.Text)
		*oldest = Line{}
		t.first++
	}
	*t.at(t.next) = Line{Seq: t.next, Time: now, Stream: stream, Text: text}
	t.bytes += len(text)
	t.next++
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

// Since returns the lines that are kept after the one of a sequence number, oldest
// first; 0: all. If the first of them does not follow it, those between are lost.
// More is closed when another line is added.
func (t *Tail) Since(seq uint64) (lines []Line, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := max(t.first, seq+1); s < t.next && s > seq; s++ {
		lines = append(lines, *t.at(s))
	}
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return lines, t.more
}

func (t *Tail) at(seq uint64) *Line { return &t.ring[seq%uint64(len(t.ring))] }

// Mark adds a line of our own; it does nothing on a nil Tail.
func (t *Tail) Mark(format string, args ...any) {
	if t != nil {
		t.Add(Marks, fmt.Appendf(nil, format, args...))
	}
}
