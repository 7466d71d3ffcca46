package signals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// ServeConfig identifies the signal, with the arguments that bootstrap passes. They determine the socket's address.
type ServeConfig struct {
	Namespace string
	Name      string
	App       string
	Log       *slog.Logger // nil: no log
}

// Validate returns every problem of the configuration.
func (c ServeConfig) Validate() error {
	var errs []error
	for _, word := range []struct{ what, is string }{{"namespace", c.Namespace}, {"name", c.Name}, {"app", c.App}} {
		if word.is == "" {
			errs = append(errs, fmt.Errorf("the signal's %s is empty", word.what))
		}
	}
	if n := len(c.address()); n > sigproto.MaxAddress {
		errs = append(errs, fmt.Errorf("the socket's name %.200q has %d bytes, at most %d are possible: shorten the namespace, the name or the app",
			c.address(), n, sigproto.MaxAddress))
	}
	return errors.Join(errs...)
}

func (c ServeConfig) address() string { return sigproto.Address(c.Namespace, c.Name, c.App) }

// Serve answers autoscalers with s until ctx ends, which is not an error. It returns after the last connection has been
// closed and the last call of Value has returned.
func Serve(ctx context.Context, s Signal, config ServeConfig) error {
	if err := config.Validate(); err != nil {
		return err
	}
	listener, err := sigproto.Listen(config.address())
	if err != nil {
		return err
	}
	return ServeListener(ctx, s, listener, config)
}

// ServeListener is Serve with an open listener, which it closes. It accepts the connections that a [sigproto.Guard]
// accepts.
func ServeListener(ctx context.Context, s Signal, listener net.Listener, config ServeConfig) error {
	defer listener.Close()
	listener = sigproto.Guard(listener)
	if err := config.Validate(); err != nil {
		return err
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()                                                  // before the wait, also if Accept fails
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // ends Accept after ctx has ended
	defer stop()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if crowded(err) {
			config.Log.Warn("out of file descriptors, retrying accept", "err", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(crowdedPause):
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("accept a connection: %w", err)
		}
		wg.Go(func() { serveConn(ctx, s, conn, config) })
	}
}

// crowdedPause is the pause before the next attempt to accept.
const crowdedPause = 100 * time.Millisecond

// crowded reports whether there is no descriptor for another connection. Other processes may have used them up, so open
// connections must continue.
func crowded(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// serveConn answers one autoscaler until it closes the connection, violates the protocol, or ctx ends.
func serveConn(ctx context.Context, s Signal, conn net.Conn, config ServeConfig) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	wire := sigproto.NewServerConn(conn, sigproto.ServerConfig{})
	hello, err := wire.ReadHello()
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, io.EOF) { // a probe connects and sends nothing
			config.Log.Warn("invalid hello", "err", err)
		}
		return
	}
	if len(hello.Unknown) > 0 {
		config.Log.Warn("hello has unknown keys", "keys", hello.Unknown)
	}
	for {
		err := serveEvaluation(ctx, s, wire, hello, config)
		if err == io.EOF || ctx.Err() != nil {
			return
		}
		if err != nil {
			config.Log.Warn("connection to the autoscaler ended", "err", err)
			return
		}
	}
}

// serveEvaluation answers or refuses one evaluation. An error ends the connection.
func serveEvaluation(ctx context.Context, s Signal, wire *sigproto.ServerConn, hello sigproto.Hello, config ServeConfig) error {
	e, err := wire.Next()
	if errors.Is(err, sigproto.ErrBody) {
		config.Log.Warn("evaluation refused", "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	if len(e.Unknown) > 0 {
		config.Log.Warn("evaluation has unknown keys", "keys", e.Unknown)
	}
	watched, stop := wire.Watch(ctx)
	response, err := Answer(watched, s, config.App, hello, e)
	stop()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // Serve is ending; a refusal would report a failure of the signal
	}
	if err != nil {
		config.Log.Error("evaluation failed", "err", err)
		return wire.Refuse()
	}
	return wire.Answer(response)
}

// Answer returns the response of the signal of an app to one evaluation, without a socket. A panic and an invalid request are
// errors.
func Answer(ctx context.Context, s Signal, app string, hello sigproto.Hello, e sigproto.Evaluation) (response sigproto.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the signal panicked: %v\n%s", p, debug.Stack())
		}
	}()
	ctx, explanation := WithExplanation(ctx)
	request, err := s.Value(ctx, newInput(app, hello, e))
	if verdict, why := verdictOf(err); verdict != sigproto.VerdictValue {
		if why == "" {
			why = explanation()
		}
		return sigproto.Response{Verdict: verdict, Explanation: why}, nil
	}
	if err == nil {
		err = request.Validate()
	}
	return sigproto.Response{Resources: toWire(request), Explanation: explanation()}, err
}
