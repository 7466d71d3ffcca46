package signaltest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Pauses between two attempts to connect. They double from first to longest.
const firstPause, longestPause = time.Millisecond, 50 * time.Millisecond

// errEnded: the program ended before it listened.
var errEnded = errors.New("it ended before it listened")

// session is a running signal.
type session struct {
	*process
	target     Target
	socketArgs socketArgs
}

// open starts the signal with a unique name.
func open(t Target, env ...string) (*session, error) { return openAt(t, t.socketArgs(), env...) }

func openAt(t Target, w socketArgs, env ...string) (*session, error) {
	p, err := launch(t, env, w.list()...)
	if err != nil {
		return nil, err
	}
	return &session{process: p, target: t, socketArgs: w}, nil
}

// connect waits until the signal listens, at most for limit. It uses the first connection and does not probe.
func (s *session) connect(ctx context.Context, limit time.Duration) (*peer, error) {
	absent := fmt.Errorf("no process listened on the abstract socket %q after %v", s.socketArgs.address(), limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, absent)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: "@" + s.socketArgs.address()})
		if err == nil {
			return newPeer(conn, s.target), nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-s.done:
			timer.Stop()
			return nil, errEnded
		case <-ctx.Done():
			timer.Stop()
			if err := context.Cause(ctx); err != absent {
				return nil, err
			}
			return nil, s.socketArgs.withSimilarSocket(absent)
		case <-timer.C:
		}
	}
}

// request sends a request on a new connection.
func (s *session) request(ctx context.Context) error {
	return s.withConnection(ctx, func(p *peer) error {
		_, err := p.evaluate(s.target)
		return err
	})
}

// alive sends a request to a signal after a test step.
func (s *session) alive(ctx context.Context) error {
	if err := s.request(ctx); err != nil {
		return fmt.Errorf("after that it does not answer on a new connection: %w", err)
	}
	return nil
}

// withConnection connects, and calls f with the connection.
func (s *session) withConnection(ctx context.Context, f func(*peer) error) error {
	p, err := s.connect(ctx, s.target.Limits.Listen)
	if err != nil {
		return err
	}
	defer p.close()
	defer context.AfterFunc(ctx, p.close)()
	return errors.Join(f(p), context.Cause(ctx))
}

// withSignal calls f with a signal that runs until f returns.
func withSignal(t Target, f func(*session) error) error {
	s, err := open(t)
	if err != nil {
		return err
	}
	defer s.kill()
	return s.explain(f(s))
}

// withPeer calls f with a connection to a signal that runs until f returns.
func withPeer(ctx context.Context, t Target, f func(*session, *peer) error) error {
	return withSignal(t, func(s *session) error {
		return s.withConnection(ctx, func(p *peer) error { return f(s, p) })
	})
}
