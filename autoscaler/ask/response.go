package ask

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// response is the result of one request to one process.
type response struct {
	connection
	short   string // of the request
	body    sigproto.Response
	err     error
	unsent  bool // no request was sent, because its windows were not good; err is the reason
	latency time.Duration
}

// unsent returns the response for a request whose windows were not good.
func unsent(at connection, err error) response {
	return response{connection: at, err: err, unsent: true}
}

// send sends a request to one process. It connects first if the connection is not open.
func (p Ports) send(ctx context.Context, to connection, q request) response {
	if to.client == nil {
		to.client = p.Dial(to.endpoint, to.spec)
	}
	x := response{connection: to, short: q.short}
	began := p.Now()
	x.body, x.err = to.client.Evaluate(ctx, q.body)
	x.latency = p.Now().Sub(began)
	return x
}

// silent reports whether the process accepted the connection but did not respond in time.
func (x response) silent() bool {
	return errors.Is(x.err, context.DeadlineExceeded) && !x.notConnected()
}

// notConnected reports whether no process accepted the connection, or one that bootstrap did not
// start.
func (x response) notConnected() bool {
	e, ok := errors.AsType[*sigproto.Error](x.err)
	return ok && e.Phase == sigproto.PhaseConnect
}

// gone reports whether the error indicates the end of the process, and not a bad response.
func (x response) gone() bool {
	return !x.unsent && (x.notConnected() || errors.Is(x.err, io.EOF) || errors.Is(x.err, io.ErrUnexpectedEOF) ||
		errors.Is(x.err, syscall.EPIPE) || errors.Is(x.err, syscall.ECONNRESET))
}
