package prometheus

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// RemoteWrite is the value of the key "telemetry.remote_write": a server that accepts remote write 1.0 of Prometheus. Its url is
// that of the requests.
type RemoteWrite settings

const (
	// maxQueued bounds the ticks that wait for the server.
	maxQueued = 60
	// maxRetryAfter bounds the pause that a server requests.
	maxRetryAfter = time.Minute
)

// Check returns the mistakes of the block.
func (r *RemoteWrite) Check() strictyaml.Problems {
	return (*settings)(r).check("http(s)://host[:port]/path of the requests, such as http://prometheus:9090/api/v1/write")
}

// Below resolves relative paths below dir.
func (r *RemoteWrite) Below(dir string) { (*settings)(r).Below(dir) }

// Writer sends the samples of ticks to a server. A bounded number of ticks waits while the server does not answer. All methods may be
// called concurrently.
type Writer struct {
	settings settings
	log      *slog.Logger
	added    chan struct{} // has a value after Add

	mu      sync.Mutex
	client  *http.Client  // nil: the files of its certificates were not read yet
	waiting []tickSamples // the oldest first; the first may be on its way
	status  WriterStatus
}

type tickSamples struct {
	at  time.Time
	all []Sample
}

// WriterStatus is what a Writer has done.
type WriterStatus struct {
	Queued   int       // ticks that wait
	Sent     uint64    // ticks that the server accepted
	Dropped  uint64    // ticks that left the full queue
	Rejected uint64    // ticks that the server refused for good
	Since    time.Time // of the first failure without a success after it; zero: none
	Err      error     // of the last attempt; nil: it succeeded
}

// Open returns a writer to the server. It does not connect, and reads no file: what is wrong with one is an error of each attempt.
func (r *RemoteWrite) Open(log *slog.Logger) *Writer {
	s := settings(*r)
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	return &Writer{settings: s, log: log, added: make(chan struct{}, 1)}
}

// connection returns the client.
func (w *Writer) connection() (*http.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client != nil {
		return w.client, nil
	}
	transport, err := w.settings.roundTripper()
	if err != nil {
		return nil, err
	}
	// A redirect leads to a server for which the token is not meant.
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return w.client, nil
}

// close closes idle connections.
func (w *Writer) close() {
	if client, err := w.connection(); err == nil {
		client.CloseIdleConnections()
	}
}

// Add queues the samples of a tick, and returns at once. If the queue is full, the oldest tick is dropped. The caller must not
// change the samples afterwards.
func (w *Writer) Add(at time.Time, all []Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == maxQueued {
		w.waiting = w.waiting[1:]
		w.status.Dropped++
	}
	w.waiting = append(w.waiting, tickSamples{at, all})
	select {
	case w.added <- struct{}{}:
	default:
	}
}

// Status returns what the writer has done.
func (w *Writer) Status() WriterStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.status
	out.Queued = len(w.waiting)
	return out
}

// Run sends the queued ticks until ctx ends. A tick that fails is sent again, after growing pauses. It returns nil.
func (w *Writer) Run(ctx context.Context) error {
	defer w.close()
	pauses := retry.Policy{First: time.Second, Longest: time.Minute}.Pauses()
	for {
		tick, ok := w.first()
		if !ok {
			select {
			case <-ctx.Done():
				return nil
			case <-w.added:
			}
			continue
		}
		err := w.send(ctx, encodeSamples(tick.at, tick.all))
		if ctx.Err() != nil {
			return nil
		}
		refused, isRefused := errors.AsType[*refusal](err)
		again := err != nil && (!isRefused || refused.again)
		w.done(tick, err, again)
		if !again {
			pauses.Reset()
			continue
		}
		pause := pauses.NextBackOff()
		if isRefused {
			pause = max(pause, min(refused.after, maxRetryAfter))
		}
		if !retry.Pause(ctx, pause) {
			return nil
		}
	}
}

// first returns the oldest tick.
func (w *Writer) first() (tickSamples, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return tickSamples{}, false
	}
	return w.waiting[0], true
}

// done stores the result of an attempt, and removes the tick from the queue unless it is sent again.
func (w *Writer) done(tick tickSamples, err error, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !again && len(w.waiting) > 0 && w.waiting[0].at.Equal(tick.at) { // it may have been dropped meanwhile
		w.waiting = w.waiting[1:]
	}
	failed := w.status.Err != nil
	w.status.Err = err
	switch {
	case err == nil:
		w.status.Sent++
		if w.status.Since = (time.Time{}); failed {
			w.log.Info("remote write works again", "url", w.settings.URL)
		}
		return
	case !again:
		w.status.Rejected++
	}
	if !failed {
		w.status.Since = time.Now()
		w.log.Warn("remote write fails", "url", w.settings.URL, "err", err)
	}
}

// Try sends a request without samples, which proves the address and the login.
func (w *Writer) Try(ctx context.Context) error {
	defer w.close()
	return w.send(ctx, nil)
}

// refusal is an error response.
type refusal struct {
	what  string
	again bool          // a later attempt may succeed
	after time.Duration // that the server requests
}

// Error returns what the server answered.
func (r *refusal) Error() string { return r.what }

// send sends one request.
func (w *Writer) send(ctx context.Context, request []byte) error {
	client, err := w.connection()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.settings.Timeout, fmt.Errorf("no answer within %v", w.settings.Timeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.settings.URL, bytes.NewReader(snappy.Encode(nil, request)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	r.Header.Set("User-Agent", "weirkeeper")
	if err := w.settings.authorize(r); err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	defer answer.Body.Close() // only read
	return w.settings.refusal(answer)
}

// refusal returns the error of a response; nil: the server has accepted the request.
func (s settings) refusal(answer *http.Response) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch code := answer.StatusCode; {
	case code/100 == 2 && kind == "text/html":
		return &refusal{what: fmt.Sprintf("the server answers with a page: %q: check the url", excerpt(answer.Body)), again: true}
	case code/100 == 2:
		return nil
	case code/100 == 3:
		return &refusal{what: fmt.Sprintf("the server redirects to %.200q: set url to the address that accepts remote write, without a login page", place(answer)), again: true}
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return &refusal{what: fmt.Sprintf("the server rejects %s (%d)", s.login(), code), again: true}
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return &refusal{what: fmt.Sprintf("the server answers %d: %q: check the url; Prometheus needs --web.enable-remote-write-receiver", code, excerpt(answer.Body)), again: true}
	default:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // it is optional
		return &refusal{what: fmt.Sprintf("the server answers %d: %q", code, excerpt(answer.Body)),
			again: code >= 500 || code == http.StatusTooManyRequests, after: time.Duration(max(seconds, 0)) * time.Second}
	}
}
