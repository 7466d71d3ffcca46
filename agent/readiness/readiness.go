// Package readiness checks whether an instance of an application is ready, on the machine of the instance.
//
//	w := readiness.Watch{Readiness: r, Began: began, Command: run}
//	w.Run(ctx, func(c readiness.Change) { ... }) // until ctx ends
//
// [Watch.Run] waits until the process is old enough, then repeats the check, and reports each change. It keeps no connection between
// two checks, reads no body, and follows no redirect. Each check ends within its timeout. A check over the network goes to the loopback
// address only. Different watches may run at the same time.
package readiness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	startingPeriod = time.Second // between two checks of an instance that was never ready
	maxHeader      = 64 << 10    // bytes of a response
	host           = "127.0.0.1"
)

// Watch is what to check.
type Watch struct {
	api.Readiness           // with defaults
	Began         time.Time // of the process
	// Ports has the numbers of the ports of the instance, by name.
	Ports map[string]int
	// Command runs the command of an [api.ExecCheck], and returns nil if it exits with 0. It ends with ctx.
	Command func(ctx context.Context, command string) error
}

// Change is that an instance became ready, or is no longer ready.
type Change struct {
	Ready bool
	Why   string // of the last failure; empty if it is ready
}

// Run reports each change until ctx ends. The instance is not ready at first. Without a check it reports one change.
func (w Watch) Run(ctx context.Context, report func(Change)) {
	if !retry.Pause(ctx, time.Until(w.Began.Add(time.Duration(*w.After)))) {
		return
	}
	check := w.check()
	if check == nil {
		report(Change{Ready: true})
		return
	}
	state := state{failures: w.Failures}
	for {
		bound, cancel := context.WithTimeout(ctx, time.Duration(w.Timeout))
		err := check(bound)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if c, changed := state.add(err); changed {
			report(c)
		}
		next := time.Duration(w.Period)
		if !state.was {
			next = min(next, startingPeriod)
		}
		if !retry.Pause(ctx, next) {
			return
		}
	}
}

// state counts the failures in a row.
type state struct {
	failures int // that end readiness
	ready    bool
	was      bool // it was ready once
	failed   int
}

// add adds the result of a check, and returns the change that follows.
func (s *state) add(err error) (Change, bool) {
	if err == nil {
		s.failed = 0
		changed := !s.ready
		s.ready, s.was = true, true
		return Change{Ready: true}, changed
	}
	s.failed++
	if !s.ready || s.failed < s.failures {
		return Change{}, false
	}
	s.ready = false
	return Change{Why: err.Error()}, true
}

// check returns the check; nil without one.
func (w Watch) check() func(context.Context) error {
	switch {
	case w.HTTP != nil:
		return func(ctx context.Context) error { return checkHTTP(ctx, w.port(w.HTTP.Port), *w.HTTP) }
	case w.TCP != nil:
		return func(ctx context.Context) error { return checkTCP(ctx, w.port(w.TCP.Port)) }
	case w.Exec != nil && w.Command != nil:
		return func(ctx context.Context) error { return w.Command(ctx, w.Exec.Command) }
	}
	return nil
}

// port returns the number of a port.
func (w Watch) port(p api.PortRef) int {
	if p.Name != "" {
		return w.Ports[p.Name]
	}
	return p.Number
}

func address(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

func checkTCP(ctx context.Context, port int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(port))
	if err != nil {
		return fmt.Errorf("no connection to port %d: %w", port, cause(ctx, err))
	}
	return conn.Close()
}

// newClient returns a client that has no connections between two checks, and follows no redirect.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func checkHTTP(ctx context.Context, port int, h api.HTTPCheck) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address(port)+h.Path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "weirkeeper-readiness")
	answer, err := newClient().Do(r)
	if err != nil {
		return fmt.Errorf("no response of port %d: %w", port, cause(ctx, err))
	}
	_ = answer.Body.Close() // its content does not matter
	switch got := answer.StatusCode; {
	case h.Status != 0 && got != h.Status:
		return fmt.Errorf("port %d responds to %s with status %d, want %d", port, h.Path, got, h.Status)
	case h.Status == 0 && (got < 200 || got > 399):
		return fmt.Errorf("port %d responds to %s with status %d, want 200 to 399", port, h.Path, got)
	}
	return nil
}

// cause returns the short reason of a network error.
func cause(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("timeout")
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the connection was closed without a response")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
