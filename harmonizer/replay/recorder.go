package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Recorder writes the events of a harmonizer as the input of a replay. Its first second begins
// when it is made. After a write error it writes nothing more.
type Recorder struct {
	mu      sync.Mutex
	w       io.Writer
	now     func() time.Time
	start   time.Time
	written int64 // seconds since start that the file covers
	err     error
}

// NewRecorder returns a recorder that writes whole lines to w. now is its clock.
func NewRecorder(w io.Writer, now func() time.Time) *Recorder {
	return &Recorder{w: w, now: now, start: now()}
}

// Err returns the error that ended the recording, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Message records a received message. A message that is not JSON is recorded as a string,
// which a replay rejects too.
func (r *Recorder) Message(subject, reply string, data []byte) {
	type recorded struct {
		Subject string `json:"subj"`
		Message any    `json:"msg,omitempty"`
		Reply   string `json:"reply,omitempty"`
	}
	l := recorded{Subject: subject, Reply: reply}
	switch data = bytes.TrimSpace(data); {
	case len(data) == 0:
	case json.Valid(data):
		l.Message = json.RawMessage(data)
	default:
		l.Message = string(data)
	}
	r.write(l)
}

// Bulk records the whole expected state.
func (r *Recorder) Bulk(rows []api.App) {
	expectedRows := make(map[string]row, len(rows))
	for _, a := range rows {
		expectedRows[a.Name] = rowOf(a)
	}
	r.write(map[string]any{"bulk": expectedRows})
}

// BulkDown records that the source of the expected state failed, or is back.
func (r *Recorder) BulkDown(down bool) { r.write(map[string]any{"bulk_down": down}) }

// BusDown records that the bus disconnected, or is back.
func (r *Recorder) BusDown(down bool) { r.write(map[string]any{"bus_down": down}) }

// Close records the time until now. The writer stays open.
func (r *Recorder) Close() { r.write(nil) }

// write writes a line for the passed time, then the given line unless it is nil.
func (r *Recorder) write(line any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	passed := int64(r.now().Sub(r.start) / time.Second)
	for r.written < passed {
		step := min(passed-r.written, maxAdvance)
		r.err = enc.Encode(map[string]int64{"advance": step})
		r.written += step
	}
	if line != nil && r.err == nil {
		r.err = enc.Encode(line)
	}
	if r.err == nil && lines.Len() > maxLine {
		r.err = fmt.Errorf("a line has %d bytes; the limit is %d", lines.Len(), maxLine)
	}
	if r.err == nil {
		_, r.err = r.w.Write(lines.Bytes())
	}
	if r.err != nil {
		r.err = fmt.Errorf("record: %w", r.err)
	}
}
