package localworld

import (
	"io"
	"time"
)

// terminal writes to an output that may block: a pager, or a halted terminal. Callers never wait; when the buffer is
// full, lines are dropped.
type terminal struct {
	lines chan []byte
	done  chan struct{}
}

func newTerminal(w io.Writer) *terminal {
	t := &terminal{lines: make(chan []byte, 256), done: make(chan struct{})}
	go func() { // ends with close, or never if w blocks forever
		defer close(t.done)
		for line := range t.lines {
			if _, err := w.Write(line); err != nil {
				continue // still empty the channel
			}
		}
	}()
	return t
}

// Write never waits.
func (t *terminal) Write(p []byte) (int, error) {
	select {
	case t.lines <- append([]byte(nil), p...):
	default:
	}
	return len(p), nil
}

// close waits for written lines, at most limit. Do not write afterwards.
func (t *terminal) close(limit time.Duration) {
	close(t.lines)
	select {
	case <-t.done:
	case <-time.After(limit):
	}
}
