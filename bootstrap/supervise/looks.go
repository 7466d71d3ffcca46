package supervise

import (
	"os"
	"sync"
)

// looks shares looks at all processes: one costs milliseconds, and serves all who
// asked before it began, so that many children that end at once cost little more
// than one. Its methods may be called concurrently.
type looks struct {
	looking sync.Mutex // held during a look: there is one at a time

	mu   sync.Mutex
	next *look // that has not begun; nil: nobody waits for one
}

// look is one look at all processes, on behalf of several.
type look struct {
	quarries []quarry
	done     chan struct{}

	found []int // of each quarry; before done is closed: not yet known
	err   error // as found
}

// search looks for members of the quarry's groups and for who carries its tag,
// kills them, and returns how many there were. The look begins after the call.
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

// make makes the next look when the present one, if there is one, has ended.
func (l *looks) make(next *look) {
	l.looking.Lock()
	defer l.looking.Unlock()
	l.mu.Lock()
	l.next = nil // who comes from now on may have missed some of it
	l.mu.Unlock()
	next.found, next.err = hunt(next.quarries)
	close(next.done)
}

// hunt looks at each process once, and kills those that are of a quarry. It
// returns how many there are of each.
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
			continue // an error: it is gone
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
