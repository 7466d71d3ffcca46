package influx

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	client "github.com/influxdata/influxdb-client-go/v2/api/http"
)

// Defaults of a Config.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultMaxBytes  = 1 << 30
	DefaultMaxPoints = 1 << 25
	DefaultMaxSeries = 1 << 18
)

// Token is a secret. It says its bytes to nobody who prints it.
type Token string

// String does not return the token.
func (Token) String() string { return "[token]" }

// GoString does not return the token.
func (Token) GoString() string { return "[token]" }

// LogValue does not return the token.
func (Token) LogValue() slog.Value { return slog.StringValue("[token]") }

// MarshalText does not return the token.
func (Token) MarshalText() ([]byte, error) { return []byte("[token]"), nil }

// Config of a Store.
type Config struct {
	URL    string // of the server, "http://127.0.0.1:8086"; it may have a path
	Org    string // name of the organization; empty for InfluxDB 1.8
	Bucket string // its name; for InfluxDB 1.8, DATABASE/RETENTIONPOLICY, or DATABASE
	Token  Token  // for InfluxDB 1.8, USER:PASSWORD; empty for one without authentication

	Timeout   time.Duration // of one request and its retries; 0: DefaultTimeout
	MaxBytes  int64         // of one answer; 0: DefaultMaxBytes
	MaxPoints int           // of one window; 0: DefaultMaxPoints
	// MaxSeries bounds the series of one window, and those that a regular expression
	// is tried on; 0: DefaultMaxSeries.
	MaxSeries int
}

// WithDefaults returns c with its zeros replaced.
func (c Config) WithDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	c.MaxPoints = cmp.Or(c.MaxPoints, DefaultMaxPoints)
	c.MaxSeries = cmp.Or(c.MaxSeries, DefaultMaxSeries)
	return c
}

// Validate returns every problem of the configuration.
func (c Config) Validate() error {
	problems := []error{checkURL(c.URL)}
	if c.Bucket == "" {
		problems = append(problems, errors.New("influx: no bucket is given (for InfluxDB 1.8: DATABASE/RETENTIONPOLICY)"))
	}
	if strings.ContainsFunc(string(c.Token), func(r rune) bool { return r <= ' ' || r > '~' }) {
		problems = append(problems, errors.New("influx: the token has a character that no token has: is there a space or a line break at its end?"))
	}
	for _, n := range [...]struct {
		name string
		is   int64
	}{{"timeout", int64(c.Timeout)}, {"max_bytes", c.MaxBytes}, {"max_points", int64(c.MaxPoints)}, {"max_series", int64(c.MaxSeries)}} {
		if n.is < 0 {
			problems = append(problems, fmt.Errorf("influx: %s is negative", n.name))
		}
	}
	return errors.Join(problems...)
}

// checkURL quotes nothing of a URL that may have a password in it.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("influx: the URL is none: want http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		return errors.New("influx: the URL has a user in it: give USER:PASSWORD as the token")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("influx: the URL %q has more than a path", u.Scheme+"://"+u.Host+u.Path)
	}
	return nil
}

// Store is a metrics.Store in an InfluxDB. Its errors are those of package metrics,
// those of this package, or that of an ended context.
type Store struct {
	config    Config
	transport *http.Transport
	service   client.Service
}

// New returns a store in that bucket. It connects to nothing yet.
func New(c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout,
	}
	authorization := ""
	if c.Token != "" {
		authorization = "Token " + string(c.Token)
	}
	options := client.DefaultOptions().SetApplicationName("weirkeeper").SetHTTPClient(&http.Client{
		Transport: bounded{transport, c.MaxBytes},
		// Who redirects is not the server that the token is for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	base := strings.TrimSuffix(c.URL, "/") + "/"
	return &Store{config: c, transport: transport, service: client.NewService(base, authorization, options)}, nil
}

// Close closes the connections that nobody uses. The store can still be used.
func (s *Store) Close() { s.transport.CloseIdleConnections() }
