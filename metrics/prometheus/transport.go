package prometheus

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/metrics/source"
)

const (
	// maxAnswer bounds the bytes of an answer.
	maxAnswer = 64 << 20
	// maxExcerpt bounds the bytes of a page that an error quotes.
	maxExcerpt = 200
)

// errTooLong: an answer has more than maxAnswer bytes.
var errTooLong = errors.New("the answer has more than 64 MiB: aggregate series, or use a longer step")

// maxSecret bounds the file of a token or of a password, in bytes.
const maxSecret = 64 << 10

// roundTripper returns the client's transport. It follows no redirect, so that a token reaches the configured host only.
func (s settings) roundTripper() (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.TLS.ServerName}
	if s.TLS.CAFile != "" {
		pem, err := os.ReadFile(s.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s has no certificate", s.TLS.CAFile)
		}
	}
	if s.TLS.CertFile != "" {
		t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(s.TLS.CertFile, s.TLS.KeyFile)
			return &pair, err
		}
	}
	return t, nil
}

// authorize adds the login to a request. It reads the secret again, which may have changed.
func (s settings) authorize(r *http.Request) error {
	file := cmp.Or(s.BearerTokenFile, s.PasswordFile)
	if file == "" {
		return nil
	}
	text, err := inputfile.Read(file, maxSecret)
	if err != nil {
		return fmt.Errorf("read the login: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if s.User != "" {
		r.SetBasicAuth(s.User, secret)
		return nil
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	return nil
}

// checked refuses answers that are none of the API, with what to change.
type checked struct {
	inner    http.RoundTripper
	settings settings
}

// RoundTrip implements http.RoundTripper.
func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if err := c.settings.authorize(r); err != nil {
		return nil, err
	}
	answer, err := c.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := c.problem(answer); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	answer.Body = &limited{ReadCloser: answer.Body, left: maxAnswer}
	return answer, nil
}

// problem returns what makes the answer useless.
func (c *checked) problem(r *http.Response) error {
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case r.StatusCode >= 300 && r.StatusCode < 400:
		return fmt.Errorf("the server redirects to %.200q: set url to the address of the API, which needs no login page", place(r))
	case r.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("the server rejects %s (401)", c.settings.login())
	case kind != "application/json" && r.StatusCode != http.StatusNoContent:
		return fmt.Errorf("the server answers %d with %.100q, not with JSON: %q: check the url", r.StatusCode, r.Header.Get("Content-Type"), excerpt(r.Body))
	}
	there, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil { // it is optional
		return nil
	}
	return source.Skew(there, time.Now())
}

// place returns the target of a redirect without its query, which may have a secret.
func place(r *http.Response) string {
	to, err := r.Location()
	if err != nil {
		return r.Header.Get("Location")
	}
	return (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
}

// login describes how the client authenticates.
func (s settings) login() string {
	switch {
	case s.BearerTokenFile != "":
		return "the token in " + s.BearerTokenFile + ": replace it"
	case s.User != "":
		return "user " + s.User + " with the password in " + s.PasswordFile
	}
	return "requests without a login: set bearer_token_file, or user and password_file"
}

func excerpt(r io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(r, maxExcerpt)) // it is for people
	return string(bytes.TrimSpace(text))
}

// limited is a body of at most left bytes.
type limited struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLong
	}
	if errors.Is(err, io.EOF) {
		return n, io.EOF
	}
	return n, err
}
