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
	work  chan struct{} // buffer of 1: there is something to report

	mu       sync.Mutex
	latest   Directory
	changed  chan struct{} // closed and replaced with every revision
	followed int           // revision of the last report
	unsent   []Answer      // answers not yet written, oldest first
}

// NewReader returns a Reader without a revision.
func NewReader() *Reader {
	return &Reader{first: make(chan struct{}), work: make(chan struct{}, 1), changed: make(chan struct{})}
}

// ErrGone: the stream has ended, because bootstrap has ended.
var ErrGone = errors.New("bootstrap has ended")

// Run reads revisions and writes reports until the stream ends. Then it returns ErrGone. It closes the stream. To end
// Run earlier, close the stream.
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
	stream.Close() // unblocks a write that bootstrap does not read
	writing.Wait()
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // ECONNRESET: it ended with unread reports
		return fmt.Errorf("follow bootstrap: %w", err)
	}
	return ErrGone
}

// set makes d the latest revision. Without a new configuration it keeps the previous one.
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

// Directory returns the latest revision, with its configuration, and a channel that is closed when there is a newer
// one. Callers must not change the result.
func (r *Reader) Directory() (latest Directory, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest, r.changed
}

// Entry returns the entry of an app.
func (r *Reader) Entry(app string) Entry {
	d, _ := r.Directory()
	i := slices.IndexFunc(d.Signals, func(e Entry) bool { return e.App == app })
	if i < 0 {
		return Entry{App: app, Endpoint: Endpoint{Down: "bootstrap has no signal for it"}}
	}
	return d.Signals[i]
}

// Report queues a report to bootstrap without blocking. Run writes the latest revision, and each answer once. If
// bootstrap does not read for long, the oldest answers are dropped.
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

// writeReports writes reports until ended is closed. Closing the stream unblocks a write.
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
				return // the reading side detects the end of the stream
			}
		}
	}
}

// nextReport returns the next line to write, and whether there is another.
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
	if err != nil { // impossible for strings, numbers and booleans
		return nil, more
	}
	return append(line, '\n'), more
}
