package agent

import "sync"

// Bounds of the stored output.
const (
	tailBytes = 64 << 10  // of one copy
	replyLogs = 128 << 10 // of one LogsReply; JSON escapes multiply it by at most six, which still fits into a message
)

// tail stores the last lines of one copy, at most tailBytes. It may be used concurrently.
type tail struct {
	mu    sync.Mutex
	lines []string // guarded by mu
	bytes int      // guarded by mu
}

// add appends a line and drops the oldest lines beyond the limit. A line that is too long is cut at
// its end.
func (t *tail) add(line string) {
	if len(line) >= tailBytes {
		line = line[:tailBytes-1]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	t.bytes += len(line) + 1
	drop := 0
	for t.bytes > tailBytes {
		t.bytes -= len(t.lines[drop]) + 1
		drop++
	}
	clear(t.lines[:drop])
	t.lines = t.lines[drop:]
}

// last returns the last n lines (0: all), at most limit bytes.
func (t *tail) last(n, limit int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := len(t.lines)
	for from > 0 && (n == 0 || len(t.lines)-from < n) && limit > len(t.lines[from-1]) {
		from--
		limit -= len(t.lines[from]) + 1
	}
	return append([]string{}, t.lines[from:]...)
}
