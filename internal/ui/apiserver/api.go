package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// Prefix begins the path of each route.
const Prefix = "/api/v1"

const (
	maxReads    = 32               // requests in progress
	maxOrders   = 8                // orders in progress, beside the reads
	maxStreams  = 512              // streams of events
	maxOfToken  = 64               // of maxStreams, for one token
	maxBody     = 4 << 10          // bytes
	maxQuery    = 8 << 10          // bytes
	readWithin  = 30 * time.Second // of one request
	writeWithin = 20 * time.Second // of one response, and of one event
)

// Config has what the API reads and writes.
type Config struct {
	Cluster string
	Fleet   Fleet
	Pool    func(name string) Pool // the ports of a pool of the cluster
	Live    *Live                  // nil: /events is off
	// Tokens returns the tokens, of which each request needs one. It is called for each request, so that a changed file is
	// in use at once. nil: there are none, and no order is accepted.
	Tokens func() ([]Token, error)
	// Own is the address on which the server listens; nil: each request is refused. Without Tokens only the processes of
	// this host may read, on a loopback address.
	Own net.Addr
	Log *slog.Logger
}

// Fleet reads all pools. view.Fleet implements it.
type Fleet interface {
	Rows(ctx context.Context) ([]api.Pool, error)
	Pools(ctx context.Context) ([]string, error)
}

// Pool has the ports of one pool.
type Pool struct {
	Now    Now
	Past   history.Pool
	Orders Orders
}

// Now reads the present of a pool. view.Pool implements it.
type Now interface {
	Status(ctx context.Context) api.PoolStatus
	Nodes(ctx context.Context) ([]api.Node, error)
	Apps(ctx context.Context) (api.HarmonizerStatus, error)
	Signals(ctx context.Context) ([]api.Process, error)
}

// Orders writes the orders of a pool. view.Orders implements it.
type Orders interface {
	Change(ctx context.Context, force bool, f func(context.Context, *state.Orders) error) (api.Orders, error)
	Recover(ctx context.Context, o api.RepairOrder) (api.RepairOrderResponse, error)
	Retry(ctx context.Context, app string) (api.HarmonizerOrderAnswer, error)
}

// server answers the requests.
type server struct {
	Config
	reads, orders, streams chan struct{}

	mu      sync.Mutex
	ofToken map[Token]int // open streams, guarded by mu
}

// New returns the handler of all paths below Prefix.
func New(c Config) http.Handler {
	s := &server{Config: c, reads: make(chan struct{}, maxReads), orders: make(chan struct{}, maxOrders), streams: make(chan struct{}, maxStreams),
		ofToken: map[Token]int{}}
	mux := http.NewServeMux()
	paths := map[string]bool{}
	for _, r := range routes() {
		slots := s.reads
		switch {
		case r.stream != nil:
			slots = s.streams
		case r.order != nil:
			slots = s.orders
		}
		mux.HandleFunc(r.method+" "+Prefix+r.path, httpguard.AtMost(slots, s.serve(r)))
		paths[r.path] = true
	}
	mux.HandleFunc("GET "+Prefix+"/openapi.yaml", serveOpenAPI)
	for path := range paths {
		mux.HandleFunc(Prefix+path, func(w http.ResponseWriter, r *http.Request) {
			writeError(w, http.StatusMethodNotAllowed, errors.New("this path has no such method: see "+Prefix+"/openapi.yaml"))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, errors.New("no such path: see "+Prefix+"/openapi.yaml"))
	})
	return s.guard(mux)
}

// authorKey is the key of the token in the context of a request.
type authorKey struct{}

// guard refuses requests of other sites, and requests without a token where one is needed.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		switch {
		case s.Own == nil || !httpguard.OfThisHost(s.Own, r):
			writeError(w, http.StatusForbidden, errors.New("the Host header is a name of another host: use the IP address, or localhost"))
			return
		case !httpguard.SameSite(r):
			writeError(w, http.StatusForbidden, errors.New("the request comes from a page of another site"))
			return
		case len(r.URL.RawQuery) > maxQuery:
			writeError(w, http.StatusRequestURITooLong, errors.New("the query is too long"))
			return
		}
		token, err := s.tokenOf(r)
		if err != nil {
			s.Log.Warn("tokens of the API unreadable", "err", err)
			writeError(w, http.StatusServiceUnavailable, errors.New("the tokens of this server cannot be read: see its log"))
			return
		}
		if open := s.Tokens == nil && httpguard.Loopback(s.Own); token.Role == "" && (!open || r.Header.Get("Authorization") != "") {
			h.Set("WWW-Authenticate", "Bearer")
			writeError(w, http.StatusUnauthorized, errors.New("send \"Authorization: Bearer SECRET\" with a secret of the token file"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), authorKey{}, token)))
	})
}

// takeStream counts a stream of a token, and reports whether the token may have it. Requests without a token share one count.
func (s *server) takeStream(by Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ofToken[by] >= maxOfToken {
		return false
	}
	s.ofToken[by]++
	return true
}

func (s *server) giveStream(by Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ofToken[by]--; s.ofToken[by] <= 0 {
		delete(s.ofToken, by)
	}
}

// tokenOf returns the token of a request; a zero one without a valid secret.
func (s *server) tokenOf(r *http.Request) (Token, error) {
	secret := httpguard.Bearer(r)
	if s.Tokens == nil || secret == "" {
		return Token{}, nil
	}
	tokens, err := s.Tokens()
	return Find(tokens, secret), err
}
