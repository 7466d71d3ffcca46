// Package httpguard protects HTTP servers: it bounds connections and requests, refuses requests that a page of another
// site sends, compares tokens in constant time, and reads changed certificates.
//
// A server is made by [Server], and wraps its handlers in [AtMost]. Its handler calls [OfThisHost] and [SameSite] before
// it reads anything else of a request. A connection beyond the bound closes the one that has waited longest. All functions may be used concurrently.
package httpguard

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Bounds of a server.
const (
	maxHeader     = 16 << 10 // bytes
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	idleTimeout   = 30 * time.Second
)

// Server returns a server with bounded connections, headers and reads. It has no WriteTimeout: the caller sets one, or
// its handlers set a deadline for each write. net/http removes the deadline of the reads when all of a request is read, so it does
// not end a slow handler.
func Server(h http.Handler, connections int, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ConnState: newConns(connections).State, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// AtMost refuses requests while all slots are taken.
func AtMost(slots chan struct{}, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d requests are in progress: try again", cap(slots)), http.StatusServiceUnavailable)
		}
	}
}

// OfThisHost reports whether the Host header of a request may name this server. On a loopback address it refuses the
// names of other hosts: a page of a browser can make its own name resolve to this machine. On other addresses clients
// send a token.
func OfThisHost(own net.Addr, r *http.Request) bool {
	if !Loopback(own) {
		return true
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	host = strings.Trim(host, "[]")
	return host == "" || host == "localhost" || net.ParseIP(host) != nil
}

// Loopback reports whether only processes of this host reach the address.
func Loopback(own net.Addr) bool {
	address, err := netip.ParseAddrPort(own.String())
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// SameSite reports whether no page of another site sent the request. A browser states the site of the page in
// Sec-Fetch-Site, and the origin in Origin. Programs send neither.
func SameSite(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// Bearer returns the token of the Authorization header; empty: none.
func Bearer(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

// Equal compares two tokens in a time that depends on neither.
func Equal(given, want string) bool {
	x, y := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// Certificate returns a function for tls.Config.GetCertificate. It reads the PEM files for each connection, so that
// changed files are in use at once.
func Certificate(certFile, keyFile string) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("read the TLS certificate: %w; name the PEM files of a certificate and its key", err)
		}
		return &pair, nil
	}
}
