package bulkapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	maxHeader   = 64 << 10
	idleTimeout = 90 * time.Second
)

// Credentials requests the user and password of the bulk API.
type Credentials func(ctx context.Context) (Login, error)

// caller makes requests to one API. It may be used concurrently.
type caller struct {
	cfg                Config
	base               *url.URL
	http               *http.Client
	requestCredentials Credentials // nil: use those of cfg

	mu     sync.Mutex
	cached *Login
}

func newCaller(cfg Config, requestCredentials Credentials) (*caller, error) {
	base, err := cfg.base()
	if err != nil {
		return nil, err
	}
	if cfg.User != "" {
		requestCredentials = nil
	} else if requestCredentials == nil {
		return nil, errors.New("user is not set, and there is no bus to request credentials from")
	}
	return &caller{cfg: cfg, base: base, requestCredentials: requestCredentials, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, IdleConnTimeout: idleTimeout, MaxResponseHeaderBytes: maxHeader,
		},
	}}, nil
}

// query is one GET request.
type query struct {
	path   string
	params url.Values
	take   func(io.Reader) error // reads the complete answer
}

// getWithRetries repeats a request until there is an answer, a permanent error, or the limit of tries is
// reached.
func (c *caller) getWithRetries(ctx context.Context, q query) error {
	again := retry.Policy{First: 250 * time.Millisecond, Longest: 8 * time.Second, Tries: 10, MaxRequested: 30 * time.Second}
	err := again.Do(ctx, func(err error) bool { return errors.Is(err, errUnavailable) },
		func() (time.Duration, error) { return c.try(ctx, q) })
	if errors.Is(err, errUnavailable) || errors.Is(err, errDenied) {
		c.forget()
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", c.base.JoinPath(q.path), err)
	}
	return nil
}

// try makes one request. It returns the pause that the server requests.
func (c *caller) try(ctx context.Context, q query) (after time.Duration, err error) {
	login, err := c.credentials(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: request credentials: %w", errUnavailable, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.RequestTimeout,
		fmt.Errorf("no complete answer within %v; lower batch_size or raise request_timeout", c.cfg.RequestTimeout))
	defer cancel()
	address := c.base.JoinPath(q.path)
	address.RawQuery = q.params.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return 0, err
	}
	request.SetBasicAuth(login.User, login.Password)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "weirkeeper")
	response, err := c.http.Do(request)
	if err == nil {
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return retryAfter(response.Header), &statusError{Status: response.StatusCode, Location: response.Header.Get("Location")}
		}
		err = q.take(&bounded{from: response.Body, left: c.cfg.MaxBytes, max: c.cfg.MaxBytes})
	} else {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // get adds the address
		}
		err = fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if cause := context.Cause(ctx); errors.Is(err, errUnavailable) && cause != nil {
		err = fmt.Errorf("%w: %w", errUnavailable, cause)
	}
	return 0, err
}

// retryAfter parses the Retry-After header: seconds, or a date; 0 if it is missing.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// credentials returns the cached credentials, or requests them.
func (c *caller) credentials(ctx context.Context) (Login, error) {
	if c.requestCredentials == nil {
		return Login{User: c.cfg.User, Password: c.cfg.Password}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cached != nil {
		return *c.cached, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	login, err := c.requestCredentials(ctx)
	if err != nil {
		return Login{}, err
	}
	c.cached = &login
	return login, nil
}

// forget removes the cached credentials, so that the next request gets new ones.
func (c *caller) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cached = nil
}

// mayHaveOthers reports whether rejected credentials can be replaced.
func (c *caller) mayHaveOthers() bool { return c.requestCredentials != nil }

// bounded reads an answer up to its limit.
type bounded struct {
	from      io.Reader
	left, max int64
}

// Read reads up to the limit, and one byte more to detect a longer answer.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p[:min(int64(len(p)), b.left+1)])
	if int64(n) > b.left {
		return int(b.left), fmt.Errorf("%w: more than %d bytes", errTooLarge, b.max)
	}
	b.left -= int64(n)
	return n, err
}
