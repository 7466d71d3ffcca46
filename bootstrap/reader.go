package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"
)

// Reader is the autoscaler's end of the stream. It may be used concurrently.
type Reader struct {
	first chan struct{}
	work  chan struct{} // has room for one: something is to be reported

	mu       sync.Mutex
	latest   Directory
	changed  chan struct{} // closed, and replaced, with every revision
	followed int           // the last report's revision
	unsent   []Answer      // not yet written, oldest first
}

// NewReader returns a Reader that has heard nothing yet.
func NewReader() *Reader {
	return &Reader{first: make(chan struct{}), work: make(chan struct{}, 1), changed: make(chan struct{})}
}

// ErrGone: the stream ended, and bootstrap with it.
var ErrGone = errors.New("bootstrap is gone")

// Run reads revisions and writes reports until the stream ends, and returns
// ErrGone then. It closes the stream; close it to end Run earlier.
func (r *Reader) Run(stream io.ReadWriteCloser) error {
	ended := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() { r.writeReports(stream, ended) })
	err := eachLine(stream, maxDirectory, func(line []byte) error {
		d, err := decodeDirectory(line)
		if err == nil {
			r.set(d)
		}
		return err
	})
	close(ended)
	stream.Close() // ends a write that bootstrap does not take
	writing.Wait()
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // it ended with reports unread
		return fmt.Errorf("follow bootstrap: %w", err)
	}
	return ErrGone
}

// set makes d the latest revision. A configuration stays until another comes.
func (r *Reader) set(d Directory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.Config == nil {
		d.Config = r.latest.Config
	}
	r.latest = d
	select {
	case <-r.first:
	default:
		close(r.first)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// First is closed when the first revision has been read.
func (r *Reader) First() <-chan struct{} { return r.first }

// Directory returns the latest revision, with its configuration, and a channel
// that is closed when there is a newer one. Nobody changes what it returns.
func (r *Reader) Directory() (latest Directory, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest, r.changed
}

// Entry returns where the signal of an app answers.
func (r *Reader) Entry(app string) Entry {
	d, _ := r.Directory()
	i := slices.IndexFunc(d.Signals, func(e Entry) bool { return e.App == app })
	if i < 0 {
		return Entry{App: app, Endpoint: Endpoint{Down: "bootstrap has no signal for it"}}
	}
	return d.Signals[i]
}

// Report tells bootstrap. It never waits: Run writes what is reported, the newest
// revision and each answer once. If bootstrap takes nothing for very long, the
// oldest answers are dropped.
func (r *Reader) Report(report Report) {
	r.mu.Lock()
	r.followed = max(r.followed, report.Revision)
	r.unsent = append(r.unsent, report.Answers...)
	if over := len(r.unsent) - maxUnreported; over > 0 {
		r.unsent = slices.Delete(r.unsent, 0, over)
	}
	r.mu.Unlock()
	select {
	case r.work <- struct{}{}:
	default:
	}
}

// writeReports writes what is reported until the reading has ended. A stream
// that takes nothing ends by being closed.
func (r *Reader) writeReports(stream io.Writer, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-r.work:
		}
		for more := true; more; {
			var line []byte
			line, more = r.nextReport()
			if _, err := stream.Write(line); err != nil {
				return // the reader learns of the stream's end by itself
			}
		}
	}
}

// nextReport takes the next line to write, and reports whether there is another.
func (r *Reader) nextReport() (line []byte, more bool) {
	r.mu.Lock()
	n := min(len(r.unsent), maxAnswers)
	report := Report{Revision: r.followed, Answers: slices.Clone(r.unsent[:n])}
	r.unsent = slices.Delete(r.unsent, 0, n)
	more = len(r.unsent) > 0
	r.mu.Unlock()
	for i := range report.Answers {
		report.Answers[i] = report.Answers[i].clipped()
	}
	line, err := json.Marshal(report)
	if err != nil { // of strings, numbers and booleans there is none
		return nil, more
	}
	return append(line, '\n'), more
}
