package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
	"github.com/weirkeeper/weirkeeper/kubernetes/adapter"
)

const (
	maxConnections = 64
	maxRequests    = 8 // at the same time
	answerTimeout  = 10 * time.Second
	shutdownTime   = 2 * time.Second
)

// adminServer answers health checks, metrics and the status. nil: there is none.
type adminServer struct {
	server *http.Server
	listen net.Listener
}

// serveAdmin opens the admin server, and prints its address.
func serveAdmin(c admin, a *adapter.Adapter, out io.Writer, log *slog.Logger) (*adminServer, error) {
	if c.Addr == addrOff {
		return nil, nil
	}
	listen, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return nil, fmt.Errorf("open the admin server: %w: give another admin.addr, or off", err)
	}
	fmt.Fprintf(out, "admin server: http://%s\n", listen.Addr())
	s := httpguard.Server(handler(c, a), maxConnections, log)
	s.WriteTimeout = answerTimeout
	return &adminServer{s, listen}, nil
}

// run serves until ctx ends.
func (s *adminServer) run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		if s.server.Shutdown(ending) != nil {
			_ = s.server.Close() // its connections are closed in any case
		}
	})
	defer stop()
	if err := s.server.Serve(s.listen); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin server: %w", err)
	}
	return nil
}

// handler answers the paths. The health checks need no token, and have no details.
func handler(c admin, a *adapter.Adapter) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(a.Collector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	scrape := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	health := func(why func(now time.Time) string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if why(time.Now()) != "" {
				http.Error(w, "no: /status has the reason", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		}
	}
	mux.HandleFunc("GET /healthz", health(a.Stuck))
	mux.HandleFunc("GET /readyz", health(a.Ready))
	mux.HandleFunc("GET /metrics", guarded(c, scrape.ServeHTTP))
	mux.HandleFunc("GET /status", guarded(c, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(a.Status(time.Now())) // the client may be gone
	}))
	return httpguard.AtMost(make(chan struct{}, maxRequests), mux.ServeHTTP)
}

// guarded requires the token, which is read for each request, and refuses requests that pages of other sites send.
func guarded(c admin, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !httpguard.SameSite(r) {
			http.Error(w, "request of another site", http.StatusForbidden)
			return
		}
		if c.TokenFile != "" {
			token, err := os.ReadFile(c.TokenFile)
			if want := strings.TrimSpace(string(token)); err != nil || want == "" || !httpguard.Equal(httpguard.Bearer(r), want) {
				http.Error(w, "send the token of admin.token_file: Authorization: Bearer TOKEN", http.StatusUnauthorized)
				return
			}
		}
		next(w, r)
	}
}
