package supervise

import (
	"os"
	"sync"
)

// scans shares scans of all processes. A scan takes milliseconds and serves all callers that came before it began. So
// many children that end at once cost little more than one. Its methods may be called concurrently.
type looks struct {
	looking sync.Mutex // held during a scan: one runs at a time

	mu   sync.Mutex
	next *look // not begun; nil: no caller waits
}

// scan is one scan of all processes for several callers.
type look struct {
	quarries []quarry
	done     chan struct{}

	found []int // processes of each entry of survivorSets; valid after done is closed
	err   error // valid after done is closed
}

// search finds members of q's groups and carriers of its tag, kills them, and returns their number. It uses a scan that
// begins after the call.
func (l *looks) search(q quarry) (found int, err error) {
	l.mu.Lock()
	first := l.next == nil
	if first {
		l.next = &look{done: make(chan struct{})}
	}
	mine, i := l.next, len(l.next.quarries)
	mine.quarries = append(mine.quarries, q)
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
func (l *looks) make(next *look) {
	l.looking.Lock()
	defer l.looking.Unlock()
	l.mu.Lock()
	l.next = nil // later callers need another scan: this one may miss some of their processes
	l.mu.Unlock()
	next.found, next.err = hunt(next.quarries)
	close(next.done)
}

// killFound scans all processes once and kills those that belong to an entry of survivorSets. It returns their number for
// each.
func hunt(quarries []quarry) (found []int, err error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	found = make([]int, len(quarries))
	for _, pid := range all {
		if pid == os.Getpid() {
			continue
		}
		e, err := readEntry(pid)
		if err != nil || e.dead {
			continue // an error means that it is gone
		}
		tag := sync.OnceValues(func() (string, bool) { return readTag(pid) })
		for i, q := range quarries {
			if q.meet(e, tag) {
				found[i]++
			}
		}
	}
	return found, nil
}
