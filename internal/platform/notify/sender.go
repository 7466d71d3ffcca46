package notify

import (
	"bytes"
	"context"
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

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/webhook"
)

const (
	headerID       = "Weir-Event-Id"
	attemptTimeout = 10 * time.Second
	firstPause     = time.Second // after the first failed attempt; doubled up to longestPause
	longestPause   = 5 * time.Minute
	maxResponse    = 64 << 10 // bytes of a response that are read
	maxShown       = 200      // bytes of a response that an error shows
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
	Queued  int       // events that wait
	Sent    uint64    // accepted events since the start
	Failed  uint64    // failed attempts since the start
	Dropped uint64    // events that were never accepted, since the start
	Since   time.Time // of the first failed attempt without a success after it; zero: the last attempt succeeded
	Err     string    // of the last attempt; empty: it succeeded
}

// Sender sends the events of one target in order.
type Sender struct {
	target Target
	queue  *Queue
	client *http.Client
	first  time.Duration // pause after the first failed attempt
	log    *slog.Logger

	mu     sync.Mutex
	status Status
}

// NewSender returns the sender of a target. Redirects are errors, because they could lead a signed event elsewhere.
func NewSender(t Target, q *Queue, log *slog.Logger) *Sender {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxEvent
	return &Sender{
		target: t, queue: q, first: firstPause, log: log.With("target", t.Name), status: Status{Target: t.Name},
		client: &http.Client{
			Transport: transport, Timeout: attemptTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the target redirects: set its final url")
			},
		},
	}
}

// Add queues an event if the filter passes it. It is durable when Add returns nil.
func (s *Sender) Add(e Event) error {
	if !s.target.Filter.Passes(e) {
		return nil
	}
	data, err := e.encode()
	if err != nil {
		return err
	}
	dropped, err := s.queue.add(data)
	if dropped > 0 {
		s.drop("the queue is full", dropped)
	}
	return err
}

// Status returns the state now.
func (s *Sender) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.status
	out.Queued = s.queue.size()
	return out
}

// Run sends the queued events until ctx ends. Then it returns nil.
func (s *Sender) Run(ctx context.Context) error {
	defer s.client.CloseIdleConnections()
	pauses := retry.Policy{First: s.first, Longest: longestPause}.Pauses()
	for ctx.Err() == nil {
		err := s.next(ctx)
		if err == nil {
			pauses.Reset()
			continue
		}
		s.failed(ctx, err)
		pause := pauses.NextBackOff()
		if refused, ok := errors.AsType[*refusal](err); ok {
			pause = max(pause, refused.after)
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
	}
	return nil
}

// next sends the oldest event, or drops it if it is too old. Without an event it waits for one.
func (s *Sender) next(ctx context.Context) error {
	one, err := s.queue.first()
	switch {
	case err != nil:
		return err
	case one.number == 0:
		select {
		case <-s.queue.more:
		case <-ctx.Done():
		}
		return nil
	case time.Since(one.event.At) > maxAge:
		s.drop("the event is too old", 1)
		return s.queue.remove(one.number)
	}
	if err := s.send(ctx, one); err != nil {
		return err
	}
	s.sent()
	return s.queue.remove(one.number)
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
func (s *Sender) send(ctx context.Context, one queued) error {
	body, err := s.target.Body.render(one.event, one.data)
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
	req.Header.Set(headerID, one.event.ID)
	if s.target.SecretFile != "" {
		secret, err := webhook.ReadSecret(s.target.SecretFile)
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		webhook.Sign(req.Header, time.Now(), secret, body)
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

// failed counts a failed attempt, and logs the first one after a success. The end of the process is no failure.
func (s *Sender) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Since.IsZero() {
		s.status.Since = time.Now()
		s.log.Warn("event not sent, the next attempts follow", "err", err)
	}
	s.status.Failed++
	s.status.Err = err.Error()
}

// drop counts and logs events that are never sent.
func (s *Sender) drop(why string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Dropped += uint64(n)
	s.log.Warn("events dropped", "why", why, "events", n)
}
