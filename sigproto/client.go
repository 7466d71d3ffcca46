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

// ClientConfig configures a Client.
type ClientConfig struct {
	Address string // abstract socket name without its NUL byte; see [Address]
	Hello   Hello  // its parameters must not change
	// MaxBody and MaxResponse are limits in bytes; 0 means DefaultMaxBody and DefaultMaxResponse.
	MaxBody     int
	MaxResponse int
	// Columnar: the signal supports the columnar body; the client sends it.
	Columnar bool
	// CheckPeer, if set, is called after each connect with the pid of the listening process (SO_PEERCRED; 0 if it is in
	// another pid namespace). An error ends the evaluation before anything is sent. So does the end of that process
	// during CheckPeer, if the kernel can report it (SO_PEERPIDFD).
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
	// defaultBudget bounds an evaluation without a deadline in its context.
	defaultBudget = time.Minute
	// Pauses between two attempts to connect double from firstPause to longestPause. During the first second they are
	// at most eagerPause, because a killed signal is usually back within milliseconds.
	firstPause, eagerPause, longestPause = 5 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond
	eagerPeriod                          = time.Second
)

// Client is the autoscaler's end. It connects at the first evaluation, and keeps the connection until an error. It
// stores what it has encoded, so the next evaluation costs only what changed. For a JSON body that memory is about its
// size, for a columnar body nearly nothing. A series without lineage needs 16 more bytes per point.
type Client struct {
	config   ClientConfig
	json     bodyCache
	columnar columnarWriter // for the connection of link
	link     *link          // nil: not connected
	body     net.Buffers    // of this evaluation
	writing  net.Buffers    // what is not yet written of it
	length   int            // of body, in bytes
	response []byte         // memory of the last response
	quick    quickReader
}

// NewClient returns a client that is not connected.
func NewClient(config ClientConfig) *Client {
	if config.MaxBody == 0 {
		config.MaxBody = DefaultMaxBody
	}
	if config.MaxResponse == 0 {
		config.MaxResponse = DefaultMaxResponse
	}
	return &Client{config: config}
}

// Close closes the connection, if there is one. The client may be used again.
func (c *Client) Close() error {
	if c.link == nil {
		return nil
	}
	err := c.link.conn.Close()
	c.link = nil
	c.columnar.reset()
	return err
}

// Evaluate sends one evaluation to the signal. All steps share the deadline of ctx, or one minute without one. While no
// process listens, it retries to connect. If the idle connection has been closed since the last evaluation, it
// reconnects, so an evaluation after a restart of the signal succeeds. If the signal closes the connection during the
// evaluation itself, Evaluate does not retry; the caller may.
//
// Every error is an [*Error], and the next evaluation uses a new connection. Depending on the reason, it wraps
// [ErrRefused], [ErrProtocol], [ErrTooLarge], a [*FieldError], or the cause of ctx. Evaluate does not retain e.
func (c *Client) Evaluate(ctx context.Context, e Evaluation) (Response, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultBudget)
		defer cancel()
	}
	if c.link != nil && !c.link.clean() {
		_ = c.Close() // it is unusable; ignore the error
	}
	kept := c.link != nil
	response, err := c.attempt(ctx, e)
	if kept && diedIdle(err) {
		response, err = c.attempt(ctx, e)
	}
	return response, err
}

// attempt makes one evaluation. It keeps the connection only after success. The end of ctx ends it at any point.
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
	if !stop() { // the connection has expired or will expire
		err = context.Cause(ctx)
	}
	if err != nil {
		return Response{}, c.fail(phase, err)
	}
	return response, nil
}

// fail closes the connection, so that the next evaluation reads no stale byte.
func (c *Client) fail(phase Phase, err error) error {
	_ = c.Close() // the connection is unusable; err is more important
	c.columnar.reset()
	return &Error{Address: c.config.Address, Phase: phase, Err: err}
}

// encode encodes the body.
func (c *Client) encode(e Evaluation) (err error) {
	clear(c.body) // release the previous pieces, but reuse the slice
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

// connect dials until a process listens, and checks that process.
func (c *Client) connect(ctx context.Context) error {
	if err := checkAddress(c.config.Address); err != nil {
		return err
	}
	var dialer net.Dialer
	begin := time.Now()
	var refusal error // error of an attempt that was not cut short
	for pause := firstPause; ; pause = nextPause(pause, time.Since(begin)) {
		conn, err := dialer.DialContext(ctx, "unix", "@"+c.config.Address)
		if err == nil {
			return c.adopt(conn.(*net.UnixConn))
		}
		// The dialer may notice the deadline before the context does.
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

// nextPause returns the pause that follows pause, after attempts have taken tried so far.
func nextPause(pause, tried time.Duration) time.Duration {
	if tried < eagerPeriod {
		return min(2*pause, eagerPause)
	}
	return min(2*pause, longestPause)
}

// adopt uses a new connection.
func (c *Client) adopt(conn *net.UnixConn) (err error) {
	if c.link, err = newLink(conn); err != nil {
		_ = conn.Close() // it is unusable
		return err
	}
	if c.config.CheckPeer == nil {
		return nil
	}
	return checkPeer(conn, c.config.CheckPeer)
}

// exchange runs one evaluation on the connection. phase is the last one that began. If a columnar body with increments
// is refused, it sends a complete one: the signal does not have the previous state.
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

// diedIdle reports whether the signal had closed the connection before it acknowledged a length.
func diedIdle(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Phase == PhaseLengthACK && hungUp(err)
}

// hungUp reports whether the signal closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
