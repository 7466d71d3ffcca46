package output

import (
	"fmt"
	"sync"
	"time"
)

// throttle passes on MaxLinesPerSecond lines of a stream in each second, and tells
// at the end of the second how many more there were: also if then comes silence.
type throttle struct {
	emit func(line []byte)

	mu    sync.Mutex // held during emit: its calls follow each other
	limit lineLimit
	timer *time.Timer // at the end of a second in which lines were dropped
}

func (t *throttle) line(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.tellLocked(now)
	if t.limit.admit(now) {
		t.emit(line)
	} else if t.limit.dropped == 1 {
		t.timer = time.AfterFunc(t.limit.rest(now), func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.tellLocked(time.Now())
		})
	}
}

// tellLocked tells what was dropped, if the second in which it was is over.
func (t *throttle) tellLocked(now time.Time) {
	if t.limit.dropped > 0 && t.limit.rest(now) <= 0 {
		t.closeLocked()
	}
}

// close tells what was dropped last. There is no line afterwards.
func (t *throttle) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit.dropped > 0 {
		t.closeLocked()
	}
}

func (t *throttle) closeLocked() {
	t.timer.Stop() // one that runs already finds nothing to tell
	note := fmt.Appendf(nil, "%d lines dropped: more than %d a second", t.limit.dropped, MaxLinesPerSecond)
	t.limit = lineLimit{}
	t.emit(note)
}

// lineLimit admits MaxLinesPerSecond lines in each second, the seconds counted
// from the first line after a quiet one.
type lineLimit struct {
	since    time.Time
	admitted int
	dropped  int
}

// rest returns how much of the present second is left; not positive: nothing.
func (l *lineLimit) rest(now time.Time) time.Duration {
	return time.Second - now.Sub(l.since)
}

// admit reports whether a line may pass.
func (l *lineLimit) admit(now time.Time) bool {
	if l.rest(now) <= 0 {
		*l = lineLimit{since: now}
	}
	if l.admitted == MaxLinesPerSecond {
		l.dropped++
		return false
	}
	l.admitted++
	return true
}
