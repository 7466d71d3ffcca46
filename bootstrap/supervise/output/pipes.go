package output

import (
	"os"
	"sync"
	"time"
)

// Pipes is what a child writes to: two pipes, stdout and stderr, or nothing.
type Pipes struct {
	lines   func(stream string, line []byte) // or nil
	tail    *Tail                            // or nil
	theirs  [2]*os.File
	ours    [2]*os.File // nil if nobody listens
	readers sync.WaitGroup
	ended   chan struct{} // closed when the readers have returned
}

// NewPipes opens the pipes; without a listener and a tail, /dev/null in their place.
// Lines is called as supervise.Spec has it.
func NewPipes(lines func(stream string, line []byte), tail *Tail) (*Pipes, error) {
	p := &Pipes{lines: lines, tail: tail, ended: make(chan struct{})}
	for i := range p.theirs {
		var err error
		if p.lines == nil && p.tail == nil {
			p.theirs[i], err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		} else {
			p.ours[i], p.theirs[i], err = os.Pipe()
		}
		if err != nil {
			p.CloseTheirs()
			p.CloseOurs()
			return nil, err
		}
	}
	return p, nil
}

// Theirs returns the files that the child inherits as stdout and stderr.
func (p *Pipes) Theirs() (stdout, stderr *os.File) { return p.theirs[0], p.theirs[1] }

// CloseTheirs closes the files that the child inherited.
func (p *Pipes) CloseTheirs() { closeAll(p.theirs) }

// CloseOurs closes the ends that Read would read, if there is no child.
func (p *Pipes) CloseOurs() { closeAll(p.ours) }

func closeAll(files [2]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// Read starts the readers.
func (p *Pipes) Read() {
	var streams sync.WaitGroup
	for i, name := range [2]string{Stdout, Stderr} {
		if p.ours[i] != nil {
			streams.Go(func() { p.readStream(p.ours[i], name) })
		}
	}
	p.readers.Go(func() {
		streams.Wait()
		p.CloseOurs()
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

// Drain waits until all that was written is read, but no longer than limit: a
// process that escaped may hold the pipes open, a listener may not return.
func (p *Pipes) Drain(limit time.Duration) {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-p.ended:
		return
	case <-late.C:
	}
	for _, f := range p.ours {
		if f != nil {
			_ = f.SetReadDeadline(time.Unix(1, 0)) // an error: it is closed
		}
	}
}

// Wait waits for the readers. A listener that does not return keeps it waiting.
func (p *Pipes) Wait() { p.readers.Wait() }
