package workflow

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

// streams are the standard streams of a command: input, response and errors.
type streams struct {
	ours, theirs [3]*os.File // by descriptor of the command
	out, errs    *head       // data read from descriptors 1 and 2
	copying      sync.WaitGroup
}

// openStreams opens the pipes, and copies until end is called.
func openStreams(body []byte) (*streams, error) {
	s := &streams{out: &head{limit: maxAnswer}, errs: &head{limit: maxErrors}}
	for i := range s.ours {
		read, write, err := os.Pipe()
		if err != nil {
			closeAll(s.theirs)
			closeAll(s.ours)
			return nil, err
		}
		if s.ours[i], s.theirs[i] = read, write; i == 0 {
			s.ours[i], s.theirs[i] = write, read
		}
	}
	s.copying.Go(func() {
		_, _ = s.ours[0].Write(body) // an error: the command does not read its input
		s.ours[0].Close()
	})
	for i, to := range []*head{s.out, s.errs} {
		s.copying.Go(func() { _, _ = io.Copy(to, s.ours[i+1]) }) // an error: end stopped the read
	}
	return s, nil
}

// end returns the output of the command, after the command has ended.
func (s *streams) end() (out, errs *head) {
	closeAll(s.theirs)
	for _, f := range s.ours {
		_ = f.SetDeadline(time.Now().Add(pipesOpen)) // an error: it is closed
	}
	s.copying.Wait()
	closeAll(s.ours)
	return s.out, s.errs
}

func closeAll(files [3]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// head stores the first bytes of the data and discards the rest.
type head struct {
	limit int
	kept  bytes.Buffer
	cut   bool
}

func (h *head) Write(p []byte) (int, error) {
	room := h.limit - h.kept.Len()
	if len(p) > room {
		h.cut = true
	}
	h.kept.Write(p[:min(room, len(p))])
	return len(p), nil
}
