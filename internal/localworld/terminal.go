package localworld

import (
	"io"
	"time"
)

// terminal writes to what may not be read: a pager, a terminal that was halted.
// Nobody waits for it; when too much has not been taken, lines are dropped.
type terminal struct {
	lines chan []byte
	done  chan struct{}
}

func newTerminal(w io.Writer) *terminal {
	t := &terminal{lines: make(chan []byte, 256), done: make(chan struct{})}
	go func() { // ends with close, or never if w blocks for ever
		defer close(t.done)
		for line := range t.lines {
			if _, err := w.Write(line); err != nil {
				continue // the rest is still to be taken from the channel
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

// close waits for what has been written, but not for longer than limit. Nothing
// may be written afterwards.
func (t *terminal) close(limit time.Duration) {
	close(t.lines)
	select {
	case <-t.done:
	case <-time.After(limit):
	}
}
