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
	defaultTimeout   = 30 * time.Second
	defaultMaxBytes  = 1 << 30
	defaultMaxPoints = 1 << 25
	defaultMaxSeries = 1 << 18
)

// Token is a secret. Printing it does not show it.
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
	URL    string // of the server, such as "http://127.0.0.1:8086"; may have a path
	Org    string // name of the organization of InfluxDB 2; else empty
	Bucket string // its name; for InfluxDB 1.8, DATABASE/RETENTIONPOLICY, or DATABASE; for InfluxDB 3, the database
	Token  Token  // for InfluxDB 1.8, USER:PASSWORD; empty without authentication

	Timeout   time.Duration // of one request and its retries; 0: defaultTimeout
	MaxBytes  int64         // of one answer; 0: defaultMaxBytes
	MaxPoints int           // of one window; 0: defaultMaxPoints
	// MaxSeries bounds the series of one window, and those that a regular expression is matched with; 0:
	// defaultMaxSeries.
	MaxSeries int
}

// WithDefaults returns c with defaults for zeros.
func (c Config) WithDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultMaxBytes)
	c.MaxPoints = cmp.Or(c.MaxPoints, defaultMaxPoints)
	c.MaxSeries = cmp.Or(c.MaxSeries, defaultMaxSeries)
	return c
}

// Validate returns every problem of the configuration.
func (c Config) Validate() error {
	problems := []error{checkURL(c.URL)}
	if c.Bucket == "" {
		problems = append(problems, errors.New("influx: bucket is missing (for InfluxDB 1.8: DATABASE/RETENTIONPOLICY)"))
	}
	if strings.ContainsFunc(string(c.Token), func(r rune) bool { return r <= ' ' || r > '~' }) {
		problems = append(problems, errors.New("influx: the token contains white space or a character that is not ASCII: check for a line break at its end"))
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

// checkURL does not quote the URL, which may have a password.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("influx: invalid URL: want http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		return errors.New("influx: the URL contains a user: give USER:PASSWORD as the token")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("influx: the URL %q has more than a path", u.Scheme+"://"+u.Host+u.Path)
	}
	return nil
}

// Store is a metrics.Store in an InfluxDB. Its errors come from package metrics, this package, or an ended context.
type Store struct {
	config    Config
	transport *http.Transport
	service   client.Service
}

// New returns a store in that bucket. It does not connect.
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
		// A redirect leads to a server for which the token is not meant.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	base := strings.TrimSuffix(c.URL, "/") + "/"
	return &Store{config: c, transport: transport, service: client.NewService(base, authorization, options)}, nil
}

// Close closes idle connections. The store stays usable.
func (s *Store) Close() { s.transport.CloseIdleConnections() }
