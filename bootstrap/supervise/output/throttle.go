package output

import (
	"fmt"
	"sync"
	"time"
)

// throttle passes on MaxLinesPerSecond lines of a stream per second, and maxBytesPerHour bytes per hour. At the end of the
// second it reports how many more lines it dropped, also if no further line comes. It reports the begin and the end of an hour's drop.
type throttle struct {
	emit func(line []byte)

	mu    sync.Mutex // held during emit: its calls do not overlap
	limit lineLimit
	hour  hourLimit
	timer *time.Timer // fires at the end of a second in which lines were dropped
}

func (t *throttle) line(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.reportLocked(now)
	dropped, ended := t.hour.begin(now)
	if ended {
		t.emit(fmt.Appendf(nil, "%d lines dropped: more than %d MiB an hour", dropped, maxBytesPerHour>>20))
	}
	if !t.hour.admit(len(line)) {
		if t.hour.dropped == 1 {
			t.emit(fmt.Appendf(nil, "lines are dropped until %s: more than %d MiB an hour", t.hour.since.Add(time.Hour).UTC().Format(time.RFC3339), maxBytesPerHour>>20))
		}
		return
	}
	if t.limit.admit(now) {
		t.hour.bytes += len(line)
		t.emit(line)
	} else if t.limit.dropped == 1 {
		t.timer = time.AfterFunc(t.limit.rest(now), func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.reportLocked(time.Now())
		})
	}
}

// reportLocked reports the dropped lines if their second is over.
func (t *throttle) reportLocked(now time.Time) {
	if t.limit.dropped > 0 && t.limit.rest(now) <= 0 {
		t.closeLocked()
	}
}

// close reports the lines dropped last. Do not call line afterwards.
func (t *throttle) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit.dropped > 0 {
		t.closeLocked()
	}
}

func (t *throttle) closeLocked() {
	t.timer.Stop() // if the timer already fires, it finds no dropped lines
	note := fmt.Appendf(nil, "%d lines dropped: more than %d a second", t.limit.dropped, MaxLinesPerSecond)
	t.limit = lineLimit{}
	t.emit(note)
}

// hourLimit admits maxBytesPerHour bytes per hour. An hour starts with the first line after the previous one ended.
type hourLimit struct {
	since   time.Time
	bytes   int
	dropped int // lines
}

// begin starts the next hour if the current one is over. ended reports that the previous one dropped lines.
func (l *hourLimit) begin(now time.Time) (dropped int, ended bool) {
	if now.Sub(l.since) < time.Hour {
		return 0, false
	}
	dropped = l.dropped
	*l = hourLimit{since: now}
	return dropped, dropped > 0
}

// admit reports whether a line of that size may pass.
func (l *hourLimit) admit(size int) bool {
	if l.dropped > 0 || l.bytes+size > maxBytesPerHour {
		l.dropped++
		return false
	}
	return true
}

// lineLimit admits MaxLinesPerSecond lines per second. A second starts with the first line after the previous one
// ended.
type lineLimit struct {
	since    time.Time
	admitted int
	dropped  int
}

// rest returns how much of the current second is left; zero or negative if it is over.
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
