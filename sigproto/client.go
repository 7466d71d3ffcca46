package sigproto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"syscall"
	"time"
)

// ClientConfig says which signal a Client asks, and how.
type ClientConfig struct {
	Address string // of the abstract socket, without its NUL byte; see [Address]
	Hello   Hello  // its parameters must not change any more
	// MaxBody and MaxResponse are limits in bytes; 0 takes DefaultMaxBody and
	// DefaultMaxResponse.
	MaxBody     int
	MaxResponse int
	// Columnar: the signal offered the columnar body, so it is sent.
	Columnar bool
	// CheckPeer, if there is one, gets the process that listens (SO_PEERCRED; 0
	// if it is not in our pid namespace) after each connect. Its error ends the
	// evaluation before anything is sent, and so does the end of that process
	// while CheckPeer looks at it, where the kernel can tell (SO_PEERPIDFD).
	CheckPeer func(pid int) error
}

// Validate returns every problem of the configuration.
func (c ClientConfig) Validate() error {
	_, err := c.Hello.encode()
	errs := []error{checkAddress(c.Address), err}
	if c.MaxBody < 0 || c.MaxBody > math.MaxUint32 {
		errs = append(errs, fmt.Errorf("largest body is %d bytes, want 0 to %d", c.MaxBody, uint32(math.MaxUint32)))
	}
	if c.MaxResponse < 0 {
		errs = append(errs, fmt.Errorf("largest response is %d bytes, want at least 0", c.MaxResponse))
	}
	return errors.Join(errs...)
}

const (
	// defaultBudget bounds an evaluation whose context has no deadline.
	defaultBudget = time.Minute
	// Pauses between two attempts to connect: they double from first to longest,
	// but for as long as eager they are of at most eagerPause, since a signal that
	// was killed is mostly back within milliseconds.
	firstPause, eagerPause, longestPause = 5 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond
	eager                                = time.Second
)

// Client is the autoscaler's end. It connects with the first evaluation, and
// keeps the connection until an error. It also keeps what it has encoded, so that
// the next evaluation costs what has changed: for a JSON body about its size, for
// a columnar one nearly nothing; and 16 bytes more for each point of a series
// without lineage.
type Client struct {
	config   ClientConfig
	json     bodyCache
	columnar columnarWriter // for the connection that link is
	link     *link          // nil: not connected
	body     net.Buffers    // of this evaluation
	writing  net.Buffers    // what is not yet written of it
	length   int            // of body, in bytes
	response []byte         // memory of the last response
	quick    quickReader
}

// NewClient returns a client that is not connected yet.
func NewClient(config ClientConfig) *Client {
	if config.MaxBody == 0 {
		config.MaxBody = DefaultMaxBody
	}
	if config.MaxResponse == 0 {
		config.MaxResponse = DefaultMaxResponse
	}
	return &Client{config: config}
}

// Close ends the connection, if there is one. The client may be used again.
func (c *Client) Close() error {
	if c.link == nil {
		return nil
	}
	err := c.link.conn.Close()
	c.link = nil
	c.columnar.reset()
	return err
}

// Evaluate asks the signal. All steps share the deadline of ctx, one minute if
// it has none. While nobody listens it tries again until then, and when the kept
// connection turns out to have died since the last evaluation it connects anew,
// so an evaluation after a restart of the signal succeeds. A signal that hangs up
// on the evaluation itself is not asked again: who knows about its processes may
// do so. Every error is an [*Error], and the next evaluation begins with a new
// connection; it wraps [ErrRefused], [ErrProtocol], [ErrTooLarge], a
// [*FieldError], or the cause that ended ctx, where that is the reason. Nothing
// of e is kept after Evaluate has returned.
func (c *Client) Evaluate(ctx context.Context, e Evaluation) (Response, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultBudget)
		defer cancel()
	}
	if c.link != nil && !c.link.clean() {
		_ = c.Close() // it is of no use any more, whatever Close says
	}
	kept := c.link != nil
	response, err := c.attempt(ctx, e)
	if kept && diedIdle(err) {
		response, err = c.attempt(ctx, e)
	}
	return response, err
}

// attempt makes one evaluation, and leaves a connection only if it was good. The
// end of ctx ends it at any point.
func (c *Client) attempt(ctx context.Context, e Evaluation) (Response, error) {
	if err := c.encode(e); err != nil {
		return Response{}, c.fail(PhaseEncode, err)
	}
	fresh := c.link == nil
	if fresh {
		if err := c.connect(ctx); err != nil {
			return Response{}, c.fail(PhaseConnect, err)
		}
	}
	stop := context.AfterFunc(ctx, c.link.expire)
	response, phase, err := c.exchange(ctx, e, fresh)
	if !stop() { // the connection has expired, or will
		err = context.Cause(ctx)
	}
	if err != nil {
		return Response{}, c.fail(phase, err)
	}
	return response, nil
}

// fail closes the connection, so that no stale byte meets the next evaluation.
func (c *Client) fail(phase Phase, err error) error {
	_ = c.Close() // the connection is given up; err is what matters
	c.columnar.reset()
	return &Error{Address: c.config.Address, Phase: phase, Err: err}
}

// encode makes the body.
func (c *Client) encode(e Evaluation) (err error) {
	clear(c.body) // its memory is used again; what it pointed to need not stay
	c.body = c.body[:0]
	if c.config.Columnar {
		var body []byte
		body, err = c.columnar.encode(e)
		c.body = append(c.body, body)
	} else {
		c.body, err = c.json.encode(c.body, e)
	}
	if err != nil {
		return err
	}
	c.length = 0
	for _, piece := range c.body {
		c.length += len(piece)
	}
	if limit := min(c.config.MaxBody, math.MaxUint32); c.length > limit {
		return fmt.Errorf("%w: body of %d bytes, limit %d", ErrTooLarge, c.length, limit)
	}
	return nil
}

// connect dials until somebody listens, and checks who that is.
func (c *Client) connect(ctx context.Context) error {
	if err := checkAddress(c.config.Address); err != nil {
		return err
	}
	var dialer net.Dialer
	begin := time.Now()
	var refusal error // of a try that was not cut short
	for pause := firstPause; ; pause = longer(pause, time.Since(begin)) {
		conn, err := dialer.DialContext(ctx, "unix", "@"+c.config.Address)
		if err == nil {
			return c.adopt(conn.(*net.UnixConn))
		}
		// The dialer may find the deadline before the context does.
		ended := ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
		if !ended || refusal == nil {
			refusal = err
		}
		// EAGAIN: the listener's queue is full.
		if !ended && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EAGAIN) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last try: %w)", context.Cause(ctx), refusal)
		case <-time.After(pause):
		}
	}
}

// longer returns the pause after a pause, when it has been tried for so long.
func longer(pause, tried time.Duration) time.Duration {
	if tried < eager {
		return min(2*pause, eagerPause)
	}
	return min(2*pause, longestPause)
}

// adopt takes a new connection into use.
func (c *Client) adopt(conn *net.UnixConn) (err error) {
	if c.link, err = newLink(conn); err != nil {
		_ = conn.Close() // of no use
		return err
	}
	if c.config.CheckPeer == nil {
		return nil
	}
	return checkPeer(conn, c.config.CheckPeer)
}

// exchange speaks one evaluation on the connection; phase is the last one that
// was begun. A columnar body that is refused, unless it was a whole one, is made
// again as that: the signal does not hold what it built on.
func (c *Client) exchange(ctx context.Context, e Evaluation, fresh bool) (Response, Phase, error) {
	if fresh {
		if err := c.sendHello(ctx); err != nil {
			return Response{}, PhaseHello, err
		}
	}
	phase, err := c.send()
	if phase == PhaseDataACK && errors.Is(err, ErrRefused) && c.columnar.next > 1 {
		c.columnar.reset()
		if err := c.encode(e); err != nil {
			return Response{}, PhaseEncode, err
		}
		phase, err = c.send()
	}
	if err != nil {
		return Response{}, phase, err
	}
	response, err := c.readResponse()
	return response, PhaseResponse, err
}

// send sends length and body, and reads their ACKs.
func (c *Client) send() (Phase, error) {
	if err := c.link.sendLength(c.length); err != nil {
		return PhaseLengthACK, err
	}
	c.writing = c.body
	return PhaseDataACK, c.link.sendBody(&c.writing)
}

// sendHello sends the hello and returns when the signal has read it.
func (c *Client) sendHello(ctx context.Context) error {
	hello, err := c.config.Hello.encode()
	if err != nil {
		return err
	}
	if _, err := c.link.conn.Write(hello); err != nil {
		return err
	}
	return c.link.waitRead(ctx)
}

func (c *Client) readResponse() (Response, error) {
	data, err := readObject(c.link.reader, c.config.MaxResponse, c.response[:0])
	if cap(data) <= maxAnswer {
		c.response = data
	}
	if err != nil {
		return Response{}, err
	}
	if response, ok := c.quick.read(data); ok {
		return response, nil
	}
	return parseResponse(data)
}

// diedIdle reports whether the signal had hung up before it answered a length.
func diedIdle(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Phase == PhaseLengthACK && hungUp(err)
}

// hungUp reports whether the signal ended the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
