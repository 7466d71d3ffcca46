package bootstrap

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxDirectory bounds one revision of the directory on the stream, in bytes.
const maxDirectory = 1 << 20

// Directory is one revision of where a pool's signals answer. Bootstrap writes
// each revision to its autoscaler as one line of JSON over an inherited socket;
// the end of the stream means that bootstrap is gone.
type Directory struct {
	Revision int     `json:"revision"` // grows by one
	Signals  []Entry `json:"signals"`
}

// Entry is one signal of the directory.
type Entry struct {
	App     string `json:"app"`
	Address string `json:"address"`
	Group   int    `json:"group,omitempty"` // process group of the running process
	Version string `json:"version,omitempty"`
	Down    string `json:"down,omitempty"` // why nobody answers; empty if it runs
}

// Reader is the autoscaler's end of the stream. It may be used concurrently.
type Reader struct {
	mu      sync.Mutex
	entries map[string]Entry
	first   chan struct{}
}

// NewReader returns a Reader that has heard nothing yet.
func NewReader() *Reader { return &Reader{first: make(chan struct{})} }

// ErrGone: the stream ended, and bootstrap with it.
var ErrGone = errors.New("bootstrap is gone")

// Run reads revisions until the stream ends, and returns ErrGone then. Close
// the stream to end it earlier.
func (r *Reader) Run(stream io.Reader) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxDirectory)
	lines.Split(wholeLines)
	for lines.Scan() {
		var d Directory
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return fmt.Errorf("read directory: %w", err)
		}
		r.set(d)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	return ErrGone
}

// wholeLines is a bufio.SplitFunc that yields lines, but not what an end cut off.
func wholeLines(data []byte, _ bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}

func (r *Reader) set(d Directory) {
	entries := make(map[string]Entry, len(d.Signals))
	for _, e := range d.Signals {
		entries[e.App] = e
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		close(r.first)
	}
	r.entries = entries
}

// First is closed when the first revision has been read.
func (r *Reader) First() <-chan struct{} { return r.first }

// Entry returns where the signal of an app answers.
func (r *Reader) Entry(app string) Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[app]
	if !ok {
		return Entry{App: app, Down: "bootstrap has no signal for it"}
	}
	return e
}
