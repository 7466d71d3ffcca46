package output

import (
	"os"
	"sync"
	"time"
)

// Pipes is what a child writes to: two pipes, stdout and stderr, or /dev/null.
type Pipes struct {
	lines      func(stream string, line []byte) // or nil
	tail       *Tail                            // or nil
	childEnds  [2]*os.File
	parentEnds [2]*os.File // nil without a listener and a tail
	readers    sync.WaitGroup
	ended      chan struct{} // closed when the readers have returned
}

// NewPipes opens the pipes, or /dev/null if there is no listener and no tail. Calls of lines follow
// supervise.Spec.Lines.
func NewPipes(lines func(stream string, line []byte), tail *Tail) (*Pipes, error) {
	p := &Pipes{lines: lines, tail: tail, ended: make(chan struct{})}
	for i := range p.childEnds {
		var err error
		if p.lines == nil && p.tail == nil {
			p.childEnds[i], err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		} else {
			p.parentEnds[i], p.childEnds[i], err = os.Pipe()
		}
		if err != nil {
			p.CloseChildEnds()
			p.CloseParentEnds()
			return nil, err
		}
	}
	return p, nil
}

// ChildEnds returns the files that the child inherits as stdout and stderr.
func (p *Pipes) ChildEnds() (stdout, stderr *os.File) { return p.childEnds[0], p.childEnds[1] }

// CloseChildEnds closes the files that the child inherited.
func (p *Pipes) CloseChildEnds() { closeAll(p.childEnds) }

// CloseParentEnds closes the ends that Read would read. Call it if no child was started.
func (p *Pipes) CloseParentEnds() { closeAll(p.parentEnds) }

func closeAll(files [2]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// Read starts the reading goroutines.
func (p *Pipes) Read() {
	var streams sync.WaitGroup
	for i, name := range [2]string{Stdout, Stderr} {
		if p.parentEnds[i] != nil {
			streams.Go(func() { p.readStream(p.parentEnds[i], name) })
		}
	}
	p.readers.Go(func() {
		streams.Wait()
		p.CloseParentEnds()
		close(p.ended)
	})
}

func (p *Pipes) readStream(from *os.File, name string) {
	if p.lines == nil {
		readLines(from, func(line []byte) { p.tail.Add(name, line) })
		return
	}
	passing := throttle{emit: func(line []byte) { p.lines(name, line) }}
	defer passing.close()
	readLines(from, func(line []byte) {
		p.tail.Add(name, line)
		passing.line(line)
	})
}

// Drain waits until all output is read, but at most for limit: an escaped process may hold the pipes open, and a
// listener may not return.
func (p *Pipes) Drain(limit time.Duration) {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-p.ended:
		return
	case <-late.C:
	}
	for _, f := range p.parentEnds {
		if f != nil {
			_ = f.SetReadDeadline(time.Unix(1, 0)) // an error means that it is closed
		}
	}
}

// Wait waits for the reading goroutines. A listener that does not return blocks it.
func (p *Pipes) Wait() { p.readers.Wait() }
