package influx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	client "github.com/influxdata/influxdb-client-go/v2/api/http"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/metrics"
)

const (
	maxIdle     = 8 // connections
	idleTimeout = 90 * time.Second
	maxProblem  = 64 << 10 // bytes of an error response
)

// request is one POST to the API.
type request struct {
	path    string // below the URL
	params  url.Values
	headers map[string]string
	body    []byte
	// take reads the response of an attempt unless it is an error. Errors of take from outside this package count as
	// connection errors.
	take func(*http.Response) error
}

// do sends a request until it succeeds, fails permanently, or has no retries left.
func (s *Store) do(ctx context.Context, r request) error {
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	again := retry.Policy{First: 100 * time.Millisecond, Longest: 2 * time.Second, Tries: 4, MaxRequested: 10 * time.Second}
	return again.Do(limited, passes, func() (time.Duration, error) { return s.try(limited, r) })
}

// passes reports whether a retry may succeed.
func passes(err error) bool {
	if e, ok := errors.AsType[*answerError](err); ok {
		return e.passes()
	}
	return errors.Is(err, ErrUnreachable)
}

// try sends a request once. It returns the pause that the server requests.
func (s *Store) try(ctx context.Context, r request) (after time.Duration, err error) {
	address := s.service.ServerURL() + r.path + "?" + r.params.Encode()
	failed := s.service.DoPostRequest(ctx, address, bytes.NewReader(r.body), func(h *http.Request) {
		for name, value := range r.headers {
			h.Header.Set(name, value)
		}
	}, func(response *http.Response) error {
		return errors.Join(r.take(response), response.Body.Close())
	})
	if failed == nil {
		return 0, nil
	}
	after = time.Duration(failed.RetryAfter) * time.Second
	if failed.StatusCode != 0 {
		return after, s.serverError(failed.StatusCode, failed.Message)
	}
	return 0, s.connectionError(failed)
}

// connectionError returns the error of a request without an error response.
func (s *Store) connectionError(failed *client.Error) error {
	err := failed.Err
	if err == nil {
		err = failed
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the address is in the configuration
	}
	if e, ok := errors.AsType[*answerError](err); ok {
		return s.serverError(e.Status, e.Message)
	}
	if errors.Is(err, ErrBadAnswer) || errors.Is(err, ErrTooLarge) || errors.Is(err, metrics.ErrTooMany) {
		return err
	}
	return fmt.Errorf("%w from %s: %w", ErrUnreachable, s.config.URL, err)
}

// serverError returns the server's message without the token.
func (s *Store) serverError(status int, message string) *answerError {
	if token := string(s.config.Token); token != "" {
		message = strings.ReplaceAll(message, token, s.config.Token.String())
		if _, password, ok := strings.Cut(token, ":"); ok && password != "" {
			message = strings.ReplaceAll(message, password, s.config.Token.String())
		}
	}
	return &answerError{Status: status, Message: strings.ToValidUTF8(message, "?")}
}

// bounded is a transport with a limit for responses.
type bounded struct {
	next http.RoundTripper
	max  int64 // bytes
}

// RoundTrip sends one request. An error response is cut at its limit.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := &boundedBody{ReadCloser: response.Body, left: maxProblem, end: io.EOF}
	if response.StatusCode/100 == 2 {
		body.left, body.end = b.max, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.max)
	}
	response.Body = body
	return response, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64 // negative: the limit was exceeded
	end  error // returned at the limit
}

// Read reads up to the limit, plus one byte to detect more.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.end
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if int64(n) > b.left {
		n, b.left = int(b.left), -1
		return n, b.end
	}
	b.left -= int64(n)
	return n, err
}
