package supervise

import (
	"os"
	"sync"
	"time"
)

// output is what a child writes to: two pipes, stdout and stderr, or nothing.
type output struct {
	lines   func(stream string, line []byte) // or nil
	tail    *Tail                            // or nil
	theirs  [2]*os.File
	ours    [2]*os.File // nil if nobody listens
	readers sync.WaitGroup
	ended   chan struct{} // closed when the readers have returned
}

// newOutput opens the pipes; without a listener, /dev/null in their place.
func newOutput(spec Spec) (*output, error) {
	o := &output{lines: spec.Lines, tail: spec.Tail, ended: make(chan struct{})}
	for i := range o.theirs {
		var err error
		if o.lines == nil && o.tail == nil {
			o.theirs[i], err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		} else {
			o.ours[i], o.theirs[i], err = os.Pipe()
		}
		if err != nil {
			o.closeTheirs()
			o.closeOurs()
			return nil, err
		}
	}
	return o, nil
}

func (o *output) closeTheirs() { closeAll(o.theirs) }
func (o *output) closeOurs()   { closeAll(o.ours) }

func closeAll(files [2]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// read starts the readers.
func (o *output) read() {
	var streams sync.WaitGroup
	for i, name := range [2]string{Stdout, Stderr} {
		if o.ours[i] != nil {
			streams.Go(func() { o.readStream(o.ours[i], name) })
		}
	}
	o.readers.Go(func() {
		streams.Wait()
		o.closeOurs()
		close(o.ended)
	})
}

func (o *output) readStream(from *os.File, name string) {
	if o.lines == nil {
		readLines(from, func(line []byte) { o.tail.Add(name, line) })
		return
	}
	passing := throttle{emit: func(line []byte) { o.lines(name, line) }}
	defer passing.close()
	readLines(from, func(line []byte) {
		o.tail.Add(name, line)
		passing.line(line)
	})
}

// drain waits until all that was written is read, but no longer than limit: a
// process that escaped may hold the pipes open, a listener may not return.
func (o *output) drain(limit time.Duration) {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-o.ended:
		return
	case <-late.C:
	}
	for _, f := range o.ours {
		if f != nil {
			_ = f.SetReadDeadline(time.Unix(1, 0)) // an error: it is closed
		}
	}
}
