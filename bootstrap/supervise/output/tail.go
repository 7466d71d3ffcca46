package output

import (
	"fmt"
	"sync"
	"time"
)

// Line is a line of a child's output.
type Line struct {
	Seq    uint64 // 1 for the first line of a Tail; each line adds one
	Time   time.Time
	Stream string // Stdout, Stderr or Marks
	Text   string
}

// Tail stores the last lines of the output of one child after another, with marks at each start and end. Its methods
// may be called concurrently.
type Tail struct {
	maxBytes int

	mu    sync.Mutex
	ring  []Line        // the line with sequence number s is at index s % len
	first uint64        // oldest stored: sequence number
	next  uint64        // next line: sequence number
	bytes int           // total length of the stored texts
	more  chan struct{} // closed with the next line; nil: no caller waits
}

// NewTail returns a tail of at most lines lines with bytes bytes of text in total; each is at least 1. A longer line is
// cut.
func NewTail(lines, bytes int) *Tail {
	return &Tail{maxBytes: max(1, bytes), ring: make([]Line, max(1, lines)), first: 1, next: 1}
}

// Add adds a line. It can be used as a listener. It does nothing on a nil Tail.
func (t *Tail) Add(stream string, line []byte) {
	if t == nil {
		return
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(line[:min(len(line), t.maxBytes)])
	for t.first < t.next && (t.next-t.first == uint64(len(t.ring)) || t.bytes+len(text) > t.maxBytes) {
		oldest := t.lineAt(t.first)
		t.bytes -= len(oldest.Text)
		*oldest = Line{}
		t.first++
	}
	*t.lineAt(t.next) = Line{Seq: t.next, Time: now, Stream: stream, Text: text}
	t.bytes += len(text)
	t.next++
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

// Since returns the stored lines after sequence number seq, oldest first; 0 returns all. A gap after seq means that
// lines were discarded. more is closed when another line is added.
func (t *Tail) Since(seq uint64) (lines []Line, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := max(t.first, seq+1); s < t.next && s > seq; s++ {
		lines = append(lines, *t.lineAt(s))
	}
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return lines, t.more
}

func (t *Tail) lineAt(seq uint64) *Line { return &t.ring[seq%uint64(len(t.ring))] }

// Mark adds a line about the child itself. It does nothing on a nil Tail.
func (t *Tail) Mark(format string, args ...any) {
	if t != nil {
		t.Add(Marks, fmt.Appendf(nil, format, args...))
	}
}
