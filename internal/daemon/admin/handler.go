package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
)

// maxToken bounds the file of a token, in bytes.
const maxToken = 4 << 10

// handler answers the requests to a server.
type handler struct {
	*Server
	checks  *checks
	content Content
}

// newHandler returns the paths of a server. Metrics and profiles in progress do not keep probes out.
func newHandler(server *Server, content Content, found *checks) http.Handler {
	s := &handler{server, found, content}
	mux, probes, slots := http.NewServeMux(), make(chan struct{}, maxAtOnce), make(chan struct{}, maxAtOnce)
	guard := func(h http.HandlerFunc) http.HandlerFunc { return s.authorized(httpguard.AtMost(slots, h)) }
	mux.HandleFunc("GET /healthz", httpguard.AtMost(probes, s.healthz))
	mux.HandleFunc("GET /readyz", httpguard.AtMost(probes, s.readyz))
	mux.HandleFunc("GET /metrics", guard(s.metrics()))
	if s.config.Settings.Pprof {
		mux.HandleFunc("GET /debug/pprof/", guard(pprof.Index))
		mux.HandleFunc("GET /debug/pprof/profile", guard(pprof.Profile))
		mux.HandleFunc("GET /debug/pprof/trace", guard(pprof.Trace))
		mux.HandleFunc("GET /debug/pprof/symbol", guard(pprof.Symbol))
	}
	if content.More != nil {
		more := http.NewServeMux()
		content.More(more)
		mux.HandleFunc("GET /", guard(more.ServeHTTP))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !httpguard.OfThisHost(s.listener.Addr(), r) {
			http.Error(w, "the Host header is a name of another host: use the IP address, or localhost", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 0) // no path has a body
		mux.ServeHTTP(w, r)
	})
}

// token returns the token that clients must send; empty: none.
func (c Config) token() (string, error) {
	path := c.Settings.TokenFile
	if path == "" {
		return "", nil
	}
	text, err := inputfile.Read(path, maxToken)
	if err != nil {
		return "", fmt.Errorf("admin.token_file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || len(text) > maxToken {
		return "", fmt.Errorf("admin.token_file %s: want a secret of at most %d bytes in it", path, maxToken)
	}
	return token, nil
}

// allowed reports whether a request has the token. The file is read for each request, so that a new token is in use at
// once.
func (s *handler) allowed(r *http.Request) bool {
	token, err := s.config.token()
	if err != nil {
		s.config.Log.Warn("admin request refused", "err", err)
		return false
	}
	if token == "" {
		return true
	}
	return httpguard.Equal(httpguard.Bearer(r), token)
}

// authorized refuses requests without the token.
func (s *handler) authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.allowed(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send \"Authorization: Bearer TOKEN\" with the content of admin.token_file", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// healthz serves whether the loops of the process advance.
func (s *handler) healthz(w http.ResponseWriter, r *http.Request) {
	var dead []checkStatus
	for _, one := range s.checks.now(r.Context()) {
		if one.dead && one.State == Failed {
			dead = append(dead, one)
		}
	}
	s.answer(w, dead, "ok\n")
}

// readyz serves whether the daemon is ready, and with "verbose" each check.
func (s *handler) readyz(w http.ResponseWriter, r *http.Request) {
	list := s.checks.now(r.Context())
	if r.URL.Query().Has("verbose") {
		s.authorized(func(w http.ResponseWriter, r *http.Request) { s.verbose(w, r, list) })(w, r)
		return
	}
	var failed []checkStatus
	for _, one := range list {
		if !one.ready() {
			failed = append(failed, one)
		}
	}
	s.answer(w, failed, "ready\n")
}

// answer writes good, or one line for each failed check. Without a token the lines of a server with a token have
// names only.
func (s *handler) answer(w http.ResponseWriter, failed []checkStatus, good string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(failed) == 0 {
		fmt.Fprint(w, good)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	for _, one := range failed {
		if s.config.Settings.TokenFile != "" {
			fmt.Fprintln(w, one.Name+": "+one.State.String())
			continue
		}
		fmt.Fprintln(w, one.line())
	}
}

// verbose writes all checks: as text, or as JSON.
func (s *handler) verbose(w http.ResponseWriter, r *http.Request, list []checkStatus) {
	ready := true
	for _, one := range list {
		ready = ready && one.ready()
	}
	code := http.StatusOK
	if !ready {
		code = http.StatusServiceUnavailable
	}
	if r.URL.Query().Get("format") == "json" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(struct { // fails only if the client is gone
			Daemon string        `json:"daemon"`
			Ready  bool          `json:"ready"`
			Checks []checkStatus `json:"checks"`
		}{s.config.Daemon, ready, list})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	for _, one := range list {
		mark := "[+]"
		if !one.ready() {
			mark = "[-]"
		}
		fmt.Fprintf(w, "%s %s\n", mark, one.line())
	}
	fmt.Fprintf(w, "%s is %s\n", s.config.Daemon, map[bool]string{true: "ready", false: "not ready"}[ready])
}

// line returns the check in one line, with control characters escaped.
func (s checkStatus) line() string {
	text := fmt.Sprintf("%s: %s since %s", s.Name, s.State, s.Since.UTC().Format(time.RFC3339))
	if s.Detail != "" {
		text += ": " + s.Detail
	}
	if s.Remedy != "" {
		text += "; " + s.Remedy
	}
	return terminal.OneLine(text)
}

// metrics returns the handler of /metrics. The first request makes the registry.
func (s *handler) metrics() http.HandlerFunc {
	registered := sync.OnceValues(func() (http.Handler, error) {
		registry := prometheus.NewRegistry()
		own := []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
		for _, one := range s.content.Collectors {
			own = append(own, prometheus.WrapCollectorWith(s.content.Labels, one))
		}
		for _, one := range own {
			if err := registry.Register(one); err != nil {
				return nil, fmt.Errorf("metrics for Prometheus: %w", err)
			}
		}
		all := prometheus.Gatherers{registry}
		for _, child := range s.content.Children {
			if child != "" {
				all = append(all, child)
			}
		}
		// Without the metrics of a child, those of the daemon remain.
		return promhttp.HandlerFor(all, promhttp.HandlerOpts{Timeout: readTimeout, ErrorHandling: promhttp.ContinueOnError}), nil
	})
	return func(w http.ResponseWriter, r *http.Request) {
		h, err := registered()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	}
}
