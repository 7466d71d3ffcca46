package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// Bounds of a server.
const (
	maxConns     = 128
	readTimeout  = 10 * time.Second
	writeTimeout = 20 * time.Second
	maxAtOnce    = 16 // requests that read checks, metrics or profiles
)

// Config configures the admin server of one daemon.
type Config struct {
	Daemon   string // a key of the block, such as config.DaemonAgent
	Settings config.Admin
	// Flag is the address of the command line; empty: not given. It replaces that of Settings.
	Flag string
	// Trusted is an address of harmonizer.yaml, which may be not loopback without a token; empty: not given.
	Trusted string
	Out     io.Writer // receives the address of Flag and Trusted; nil: the log has it
	Log     *slog.Logger
	// Opened is the server that Open returned for this daemon; nil: Listen opens the address.
	Opened *Server
}

// Content is what a server serves.
type Content struct {
	Checks     []Check
	Collectors []prometheus.Collector
	Labels     prometheus.Labels    // of each metric of the Collectors
	Children   []Child              // whose metrics are served too
	More       func(*http.ServeMux) // adds more paths; may be nil
}

// Server is an admin server that listens. A nil one is off: its methods do nothing.
type Server struct {
	config   Config
	listener net.Listener
	given    bool // by Flag or Trusted
	trusted  bool // the address is Trusted
	early    *early
}

// Listen opens the address of the daemon. It returns nil if the address is "off", or if another process has the
// default address: the daemon works without.
func Listen(c Config) (*Server, error) {
	if c.Opened != nil {
		return c.Opened, nil
	}
	s := &Server{config: c}
	address, byDefault := c.Settings.Address(c.Daemon)
	switch {
	case c.Flag != "":
		address, byDefault, s.given = c.Flag, false, true
	case c.Trusted != "":
		address, byDefault, s.given, s.trusted = c.Trusted, false, true, true
	}
	if address == config.AdminOff {
		return nil, nil
	}
	if err := c.Settings.CheckAddress(address); err != nil && !s.trusted {
		return nil, usage.New(fmt.Errorf("address of the admin server %w", err))
	}
	if _, err := c.token(); err != nil {
		return nil, err
	}
	if c.Settings.TLS.CertFile != "" {
		if _, err := c.certificate()(nil); err != nil {
			return nil, fmt.Errorf("admin.tls: %w", err)
		}
	}
	listener, err := net.Listen("tcp", address)
	if byDefault && errors.Is(err, syscall.EADDRINUSE) {
		c.Log.Warn("admin server off: address in use", "addr", address, "remedy", "give this daemon --admin-addr HOST:PORT, or --admin-addr off")
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("admin server: %w; choose another address with --admin-addr or admin.%s", err, c.Daemon)
	}
	s.listener = listener
	return s, nil
}

// Start is Listen and Serve.
func Start(parts *daemon.Services, c Config, content Content) error {
	s, err := Listen(c)
	if err != nil {
		return err
	}
	s.Serve(parts, content)
	return nil
}

// Given returns the address of Flag or of Trusted; nil without one.
func (s *Server) Given() net.Addr {
	if s == nil || !s.given {
		return nil
	}
	return s.listener.Addr()
}

// Close closes the listener. After Listen and Serve it is not needed.
func (s *Server) Close() {
	switch {
	case s == nil:
	case s.early != nil:
		s.early.close()
	default:
		s.listener.Close()
	}
}

// Serve runs the server until the parts end.
func (s *Server) Serve(parts *daemon.Services, content Content) {
	if s == nil {
		return
	}
	found := newChecks(content.Checks)
	handler := newHandler(s, content, found)
	parts.Run("checks", found.run)
	if s.early != nil {
		parts.Run("admin server", func(ctx context.Context) error { return s.early.become(ctx, handler) })
	} else {
		server, listener := s.server(handler)
		parts.Run("admin server", func(ctx context.Context) error {
			defer context.AfterFunc(ctx, func() { server.Close() })()
			return serve(server, listener)
		})
	}
	url := s.scheme() + "://" + s.listener.Addr().String()
	if s.config.Out != nil && s.given {
		fmt.Fprintf(s.config.Out, "metrics for Prometheus: %s/metrics\n", url)
		return
	}
	s.config.Log.Info("admin server listening", "url", url)
}

// server returns the HTTP server and its listener.
func (s *Server) server(handler http.Handler) (*http.Server, net.Listener) {
	listener := s.listener
	if s.scheme() == "https" {
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.config.certificate()})
	}
	server := httpguard.Server(handler, maxConns, s.config.Log)
	server.WriteTimeout = writeTimeout
	return server, listener
}

func (s *Server) scheme() string {
	if s.config.Settings.TLS.CertFile != "" {
		return "https"
	}
	return "http"
}

// serve is server.Serve, which returns nil after server.Close.
func serve(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// certificate reads the certificate for each connection.
func (c Config) certificate() func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return httpguard.Certificate(c.Settings.TLS.CertFile, c.Settings.TLS.KeyFile)
}
