package supervise

import (
	"os"
	"sync"
)

// scans shares scans of all processes. A scan takes milliseconds and serves all callers that came before it began. So
// many children that end at once cost little more than one. Its methods may be called concurrently.
type scans struct {
	scanning sync.Mutex // held during a scan: one runs at a time

	mu   sync.Mutex
	next *scan // not begun; nil: no caller waits
}

// scan is one scan of all processes for several callers.
type scan struct {
	survivorSets []survivors
	done         chan struct{}

	found []int // processes of each entry of survivorSets; valid after done is closed
	err   error // valid after done is closed
}

// search finds members of q's groups and carriers of its tag, kills them, and returns their number. It uses a scan that
// begins after the call.
func (l *scans) search(q survivors) (found int, err error) {
	l.mu.Lock()
	first := l.next == nil
	if first {
		l.next = &scan{done: make(chan struct{})}
	}
	mine, i := l.next, len(l.next.survivorSets)
	mine.survivorSets = append(mine.survivorSets, q)
	l.mu.Unlock()
	if first {
		l.make(mine)
	}
	<-mine.done
	if mine.err != nil {
		return 0, mine.err
	}
	return mine.found[i], nil
}

// make runs the next scan after the current one, if any, has ended.
func (l *scans) make(next *scan) {
	l.scanning.Lock()
	defer l.scanning.Unlock()
	l.mu.Lock()
	l.next = nil // later callers need another scan: this one may miss some of their processes
	l.mu.Unlock()
	next.found, next.err = killFound(next.survivorSets)
	close(next.done)
}

// killFound scans all processes once and kills those that belong to an entry of survivorSets. It returns their number for
// each.
func killFound(survivorSets []survivors) (found []int, err error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	found = make([]int, len(survivorSets))
	buffer := make([]byte, usualEnviron) // of one process after the other
	for _, pid := range all {
		if pid == os.Getpid() {
			continue
		}
		e, err := readEntryInto(pid, buffer)
		if err != nil || e.dead {
			continue // an error means that it is gone
		}
		tag := sync.OnceValues(func() (string, bool) { return readTagInto(pid, buffer) })
		for i, q := range survivorSets {
			if q.killMember(e, tag) {
				found[i]++
			}
		}
	}
	return found, nil
}
