package lineprotocol

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Path is the path of InfluxDB 2's write handler.
const Path = "/api/v2/write"

const (
	// defaultMaxBody bounds a body in bytes, compressed and uncompressed.
	defaultMaxBody = 10 << 20
	// defaultTimeout bounds receiving a body, and again writing it.
	defaultTimeout = 10 * time.Second
)

// maxAtOnce bounds the bodies in memory.
const maxAtOnce = 8

// Token is a secret. Printing it does not show it.
type Token string

// String returns a placeholder.
func (Token) String() string { return "[token]" }

// Config of a Handler.
type Config struct {
	Token   Token         // that writers must send; empty: no token required
	MaxBody int           // bytes; 0: defaultMaxBody
	Timeout time.Duration // 0: defaultTimeout
	Log     *slog.Logger
}

// Validate returns every problem of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	if c.MaxBody < 0 {
		errs = append(errs, fmt.Errorf("line protocol: the bound of a body is %d bytes: want at least 0", c.MaxBody))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("line protocol: timeout is %v: want at least 0", c.Timeout))
	}
	if c.Log == nil {
		errs = append(errs, errors.New("line protocol: no logger"))
	}
	return errors.Join(errs...)
}

// Writer stores samples and returns how many it dropped as too old or as rewritten too often. The embedded
// store is one.
type Writer interface {
	Put(ctx context.Context, samples []metrics.Sample) (dropped int, err error)
}

// Handler answers write requests.
type Handler struct {
	store  Writer
	config Config
	slots  chan struct{} // has one entry for each request in progress
}

// New returns a Handler that writes to that store.
func New(store Writer, c Config) (*Handler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	return &Handler{store: store, config: c, slots: make(chan struct{}, maxAtOnce)}, nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.write(w, r); err != nil {
		p := problemOf(err)
		level := slog.LevelDebug // the response has the error
		if p.status >= http.StatusInternalServerError {
			level = slog.LevelError
		}
		h.config.Log.Log(r.Context(), level, "metrics not written", "status", p.status, "remote", r.RemoteAddr, "err", err)
		p.answer(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// write decodes a request and stores all samples or none. The exception is samples that are too old or have another
// value for their time: these are dropped, and the error is the one that InfluxDB returns.
func (h *Handler) write(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, codeMethod, "method %s: want POST", r.Method)
	}
	if !h.allowed(r) {
		w.Header().Set("WWW-Authenticate", "Token")
		return refuse(http.StatusUnauthorized, codeUnauthorized, "unauthorized access: send \"Authorization: Token TEXT\" with the text of the store's token file")
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		return refuse(http.StatusTooManyRequests, codeTooMany, "%d requests are in progress", maxAtOnce)
	}
	now := time.Now()
	d, err := newDecoder(r, now)
	if err != nil {
		return err
	}
	body, err := h.body(w, r, now)
	if err != nil {
		return err
	}
	b, err := d.decode(body)
	if err != nil || len(b.samples) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.config.Timeout)
	defer cancel()
	dropped, err := h.store.Put(ctx, b.samples)
	if e, ok := errors.AsType[*metrics.SampleError](err); ok && e.Index >= 0 && e.Index < len(b.lines) {
		return &lineError{b.lines[e.Index], fmt.Errorf("%.200q: %w", e.Name, e.Err)}
	}
	if err == nil && dropped > 0 {
		return refuse(http.StatusUnprocessableEntity, CodePartial,
			"partial write: dropped %d of %d points: older than the retention, or rewritten too often", dropped, len(b.samples))
	}
	return err
}

// allowed compares hashes, so that its run time does not reveal the token.
func (h *Handler) allowed(r *http.Request) bool {
	if h.config.Token == "" {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(h.config.Token)), sha256.Sum256([]byte(strings.TrimSpace(given)))
	return strings.EqualFold(scheme, "Token") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// newDecoder decodes the parameters of a request.
func newDecoder(r *http.Request, now time.Time) (decoder, error) {
	q := r.URL.Query()
	d := decoder{app: q.Get("bucket"), now: now}
	var ok bool
	if d.precision, ok = precisionOf(q.Get("precision")); !ok {
		return d, refuse(http.StatusBadRequest, codeInvalid, "precision %.20q: want ns, us, ms or s", q.Get("precision"))
	}
	if d.app != "" {
		if err := metrics.CheckApp(d.app); err != nil {
			return d, refuse(http.StatusBadRequest, codeInvalid, "bucket: %v", err)
		}
	}
	return d, nil
}

// body reads the uncompressed body before its deadline.
func (h *Handler) body(w http.ResponseWriter, r *http.Request, now time.Time) ([]byte, error) {
	err := http.NewResponseController(w).SetReadDeadline(now.Add(h.config.Timeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	packed := http.MaxBytesReader(w, r.Body, int64(h.config.MaxBody))
	in := io.Reader(packed)
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		unpacked, err := gzip.NewReader(packed)
		if err != nil {
			return nil, unread(err)
		}
		in = unpacked
	default:
		return nil, refuse(http.StatusUnsupportedMediaType, codeInvalid, "content encoding %.40q: want gzip or none", encoding)
	}
	body, err := io.ReadAll(io.LimitReader(in, int64(h.config.MaxBody)+1))
	if err != nil {
		return nil, unread(err)
	}
	if len(body) > h.config.MaxBody {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, h.config.MaxBody)
	}
	return body, nil
}

// unread returns the error of an unreadable body.
func unread(err error) error {
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Errorf("%w: more than %d bytes", errTooLarge, e.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, codeUnavailable, "the body did not arrive in time")
	}
	return refuse(http.StatusBadRequest, codeInvalid, "read the body: %v", err)
}
