package admin

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// early serves while a daemon starts: before it has a connection and its state, it has no checks of its own.
type early struct {
	handler atomic.Pointer[http.Handler]
	waits   atomic.Pointer[string] // why the start waits; nil: it does not
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	ended   chan struct{} // closed when the server has ended
	err     error         // of the server, after ended
}

// Open opens the address as Listen does, and serves the check "start" until Serve: a daemon that waits for NATS or for
// its stored state reports why. connection.Waiting is set. The caller calls Close, and passes the server in
// Config.Opened.
func Open(c Config, connection *bus.Config) (*Server, error) {
	s, err := Listen(c)
	if err != nil {
		return nil, err
	}
	connection.Waiting = s.Waits
	if s == nil {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.early = &early{cancel: cancel, ended: make(chan struct{})}
	found := newChecks([]Check{{Name: "start", Read: s.early.check}})
	s.early.handler.Store(new(newHandler(s, Content{}, found)))
	server, listener := s.server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.early.handler.Load()).ServeHTTP(w, r) }))
	s.early.wg.Go(func() { _ = found.run(ctx) }) // returns nil
	s.early.wg.Go(func() {
		defer context.AfterFunc(ctx, func() { server.Close() })()
		s.early.err = serve(server, listener)
		close(s.early.ended)
	})
	return s, nil
}

// Waits stores why the start of the daemon waits.
func (s *Server) Waits(why error) {
	if s != nil && s.early != nil {
		s.early.waits.Store(new(why.Error()))
	}
}

// check returns the state of the start.
func (e *early) check(context.Context) Result {
	if why := e.waits.Load(); why != nil {
		return Result{State: Failed, Detail: "waits: " + *why, Remedy: "run \"weir doctor\" if this lasts"}
	}
	return Result{State: Unknown, Detail: "starting"}
}

// become serves the handler of the started daemon until ctx ends.
func (e *early) become(ctx context.Context, handler http.Handler) error {
	e.handler.Store(&handler)
	select {
	case <-ctx.Done():
		return nil
	case <-e.ended:
		return e.err
	}
}

func (e *early) close() {
	e.cancel()
	e.wg.Wait()
}
