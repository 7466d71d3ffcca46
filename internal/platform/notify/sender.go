package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/webhook"
)

const (
	headerID       = "Weir-Event-Id"
	attemptTimeout = 10 * time.Second
	firstPause     = time.Second // after the first failed attempt; doubled up to longestPause
	longestPause   = 5 * time.Minute
	longestRead    = 30 * time.Second // pause after a failure to read the events
	maxAge         = 24 * time.Hour   // of an event; an older one is dropped
	maxResponse    = 64 << 10         // bytes of a response that are read
	maxShown       = 200              // bytes of a response that an error shows
)

// Target is an endpoint that receives events.
type Target struct {
	Name       string // unique, for status and metrics
	URL        string // http or https
	URLFile    string // in place of URL: a file with it, read before each attempt
	SecretFile string // signs the requests; empty: unsigned
	Body       Body
	Filter     Filter
}

// Status is the state of a Sender.
type Status struct {
	Target  string
	Queued  int       // events that wait, before the filter of the target
	Sent    uint64    // accepted events since the start
	Failed  uint64    // failed attempts since the start
	Dropped uint64    // events that were never accepted, since the start
	Since   time.Time // of the first failed attempt without a success after it; zero: the last attempt succeeded
	Err     string    // of the last attempt; empty: it succeeded
	Unread  string    // why the events are not read now; empty: they are
}

// Sender sends the events of one target in order.
type Sender struct {
	target Target
	queue  *Reader
	client *http.Client
	first  time.Duration // pause after the first failed attempt
	log    *slog.Logger

	mu     sync.Mutex
	status Status
}

// NewSender returns the sender of a target, with the reader of its events. Redirects are errors, because they could lead a
// signed event elsewhere.
func NewSender(t Target, queue *Reader, log *slog.Logger) *Sender {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxEvent
	return &Sender{
		target: t, queue: queue, first: firstPause, log: log.With("target", t.Name), status: Status{Target: t.Name},
		client: &http.Client{
			Transport: transport, Timeout: attemptTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the target redirects: set its final url")
			},
		},
	}
}

// Status returns the state now.
func (s *Sender) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Run sends the events until ctx ends. Then it returns nil.
func (s *Sender) Run(ctx context.Context) error {
	defer s.client.CloseIdleConnections()
	s.queue.loaded = false // another process may have sent events meanwhile
	pauses := retry.Policy{First: firstPause, Longest: longestRead}.Pauses()
	for {
		p, err := s.queue.Next(ctx)
		if err == nil {
			s.unread(nil)
			err = s.sendAll(ctx, p)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			pauses.Reset()
			continue
		}
		s.unread(err)
		if !retry.Pause(ctx, pauses.NextBackOff()) {
			return nil
		}
	}
}

// sendAll sends the events of a page, and stores the position after each.
func (s *Sender) sendAll(ctx context.Context, p Page) error {
	if p.Lost > 0 {
		s.drop("the stream is full, or they were too old", p.Lost)
	}
	var passed uint64 // events without an attempt
	for i, m := range p.Messages {
		s.queued(p.Waiting + len(p.Messages) - i)
		done, attempted := s.deliver(ctx, m)
		if !done {
			return nil // ctx has ended
		}
		passed = m.Sequence
		if attempted {
			if err := s.queue.Done(context.WithoutCancel(ctx), passed); err != nil {
				return err
			}
			passed = 0
		}
	}
	s.queued(p.Waiting)
	if passed > 0 {
		return s.queue.Done(ctx, passed)
	}
	return nil
}

// deliver attempts to send an event until the target accepts it, or it is too old: then it is done. It is not if ctx ends before.
func (s *Sender) deliver(ctx context.Context, m bus.Stored) (done, attempted bool) {
	var e Event
	switch err := json.Unmarshal(m.Data, &e); {
	case err != nil || m.Forged:
		s.drop("the event is damaged", 1)
		return true, false
	case !s.target.Filter.Passes(e):
		return true, false
	}
	for attempts := 0; ; attempts++ {
		if time.Since(e.At) > maxAge {
			s.drop("the event is too old", 1)
			return true, attempts > 0
		}
		err := s.send(ctx, e, m.Data)
		if err == nil {
			s.sent()
			return true, true
		}
		if ctx.Err() != nil {
			return false, true
		}
		s.failed(err)
		pause := min(s.first<<min(attempts, 16), longestPause)
		if refused, ok := errors.AsType[*refusal](err); ok {
			pause = max(pause, refused.after)
		}
		if !retry.Pause(ctx, pause) {
			return false, true
		}
	}
}

// refusal is a response without success.
type refusal struct {
	status int
	text   string
	after  time.Duration // that the target requests before the next attempt
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the target answers with status %d: %q", r.status, r.text)
}

// send makes one attempt.
func (s *Sender) send(ctx context.Context, e Event, data []byte) error {
	body, err := s.target.Body.render(e, data)
	if err != nil {
		return err
	}
	to := s.target.URL
	if s.target.URLFile != "" {
		text, err := webhook.ReadSecret(s.target.URLFile)
		if err != nil {
			return fmt.Errorf("read the URL: %w", err)
		}
		to = string(text)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is not valid: correct url or url_file of the target") // err has the URL, a secret
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "weirkeeper")
	req.Header.Set(headerID, e.ID)
	if s.target.SecretFile != "" {
		secret, err := webhook.ReadSecret(s.target.SecretFile)
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		webhook.Sign(req.Header, time.Now(), secret, e.ID, body)
	}
	got, err := s.client.Do(req)
	if with, ok := errors.AsType[*url.Error](err); ok {
		return with.Err // without the URL, which may be a secret
	}
	if err != nil {
		return err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxResponse)) // so that the connection can be used again
	if err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	if got.StatusCode < 200 || got.StatusCode > 299 {
		seconds, _ := strconv.ParseUint(got.Header.Get("Retry-After"), 10, 16) // 0: absent, or a date
		return &refusal{got.StatusCode, strings.TrimSpace(string(text[:min(len(text), maxShown)])), min(time.Duration(seconds)*time.Second, longestPause)}
	}
	return nil
}

// sent counts a success, and logs the end of failures.
func (s *Sender) sent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.Since.IsZero() {
		s.log.Info("target accepts events again", "failed_since", s.status.Since)
	}
	s.status.Sent++
	s.status.Since, s.status.Err = time.Time{}, ""
}

// failed counts a failed attempt, and logs the first one after a success.
func (s *Sender) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Since.IsZero() {
		s.status.Since = time.Now()
		s.log.Warn("event not sent, the next attempts follow", "err", err)
	}
	s.status.Failed++
	s.status.Err = err.Error()
}

// unread stores why the events are not read, nil: they are. It logs when that begins.
func (s *Sender) unread(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.status.Unread = ""
		return
	}
	if s.status.Unread == "" {
		s.log.Warn("events of the target are not read, trying again", "err", err)
	}
	s.status.Unread = err.Error()
}

func (s *Sender) queued(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Queued = n
}

// drop counts and logs events that are never sent.
func (s *Sender) drop(why string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Dropped += uint64(n)
	s.log.Warn("events dropped", "why", why, "events", n)
}
