package sigproto

import (
	"bufio"
	"context"
	"encoding/binary"
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
	// CheckPeer, if there is one, gets the process that listens (SO_PEERCRED; 0
	// if it is not in our pid namespace) after each connect. Its error ends the
	// evaluation before anything is sent.
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
	// Pauses between two attempts to connect: they double from first to longest.
	firstPause, longestPause = 5 * time.Millisecond, 100 * time.Millisecond
)

// Client is the autoscaler's end. It connects with the first evaluation, and
// keeps the connection until an error.
type Client struct {
	config ClientConfig
	body   []byte // of the last evaluation; its memory is used again
	conn   *net.UnixConn
	reader *bufio.Reader // over conn
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
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn, c.reader = nil, nil
	return err
}

// Evaluate asks the signal. All steps share the deadline of ctx, one minute if
// it has none. While nobody listens it tries again until then, and when the kept
// connection has died since the last evaluation it connects anew, so an
// evaluation during a restart of the signal succeeds. Every error is an [*Error];
// it wraps [ErrRefused], [ErrProtocol], [ErrTooLarge], a [*FieldError], or the
// cause that ended ctx, where that is the reason.
func (c *Client) Evaluate(ctx context.Context, e Evaluation) (Response, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultBudget)
		defer cancel()
	}
	body, err := appendBody(c.body[:0], e)
	c.body = body
	if err != nil {
		return Response{}, c.fail(PhaseEncode, err)
	}
	if limit := min(c.config.MaxBody, math.MaxUint32); len(body) > limit {
		return Response{}, c.fail(PhaseEncode, fmt.Errorf("%w: body of %d bytes, limit %d", ErrTooLarge, len(body), limit))
	}
	if c.conn != nil && !c.clean() {
		_ = c.Close() // it is of no use any more, whatever Close says
	}
	kept := c.conn != nil
	response, err := c.attempt(ctx)
	if kept && diedIdle(err) {
		response, err = c.attempt(ctx)
	}
	return response, err
}

// attempt makes one evaluation, and leaves a connection only if it was good. The
// end of ctx ends it at any point.
func (c *Client) attempt(ctx context.Context) (Response, error) {
	fresh := c.conn == nil
	if fresh {
		if err := c.connect(ctx); err != nil {
			return Response{}, c.fail(PhaseConnect, err)
		}
	}
	conn := c.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	response, phase, err := c.exchange(fresh)
	if !stop() { // the deadline of conn is past, or will be
		err = context.Cause(ctx)
	}
	if err != nil {
		return Response{}, c.fail(phase, err)
	}
	return response, nil
}

// exchange speaks one evaluation on the connection; phase is the last one that
// was begun.
func (c *Client) exchange(fresh bool) (response Response, phase Phase, err error) {
	if fresh {
		if err := c.sendHello(); err != nil {
			return Response{}, PhaseHello, err
		}
	}
	if err := c.sendLength(); err != nil {
		return Response{}, PhaseLengthACK, err
	}
	if err := c.sendBody(); err != nil {
		return Response{}, PhaseDataACK, err
	}
	response, err = c.readResponse()
	return response, PhaseResponse, err
}

// fail closes the connection, so that no stale byte meets the next evaluation.
func (c *Client) fail(phase Phase, err error) error {
	_ = c.Close() // the connection is given up; err is what matters
	return &Error{Address: c.config.Address, Phase: phase, Err: err}
}

// connect dials until somebody listens, and checks who that is.
func (c *Client) connect(ctx context.Context) error {
	if err := checkAddress(c.config.Address); err != nil {
		return err
	}
	var dialer net.Dialer
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		conn, err := dialer.DialContext(ctx, "unix", "@"+c.config.Address)
		if err == nil {
			c.conn = conn.(*net.UnixConn)
			c.reader = bufio.NewReader(c.conn)
			return c.checkPeer()
		}
		// EAGAIN: the listener's queue is full.
		if ctx.Err() == nil && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EAGAIN) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last try: %w)", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

func (c *Client) checkPeer() error {
	if c.config.CheckPeer == nil {
		return nil
	}
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask who listens: %w", err)
	}
	var peer *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		peer, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return fmt.Errorf("ask who listens: %w", err)
	}
	if err := c.config.CheckPeer(int(peer.Pid)); err != nil {
		return fmt.Errorf("check process %d, which listens: %w", peer.Pid, err)
	}
	return nil
}

func (c *Client) sendHello() error {
	hello, err := c.config.Hello.encode()
	if err != nil {
		return err
	}
	_, err = c.conn.Write(hello)
	return err
}

func (c *Client) sendLength() error {
	length := binary.BigEndian.AppendUint32(nil, uint32(len(c.body)))
	if _, err := c.conn.Write(length); err != nil {
		return err
	}
	ack, err := c.reader.ReadByte()
	for err == nil && isSpace(ack) { // left over from the last response
		ack, err = c.reader.ReadByte()
	}
	if err != nil {
		return err
	}
	if n := c.reader.Buffered(); ack == ackGood && n > 0 {
		return fmt.Errorf("%w: %d more bytes with the ACK", ErrProtocol, n)
	}
	return checkACK(ack)
}

func (c *Client) sendBody() error {
	if _, err := c.conn.Write(c.body); err != nil {
		return err
	}
	ack, err := c.reader.ReadByte()
	if err != nil {
		return err
	}
	return checkACK(ack)
}

func checkACK(ack byte) error {
	switch ack {
	case ackGood:
		return nil
	case ackRefused:
		return ErrRefused
	}
	return fmt.Errorf("%w: got byte 0x%02x, want the ACK 0x01", ErrProtocol, ack)
}

func (c *Client) readResponse() (Response, error) {
	data, err := readObject(c.reader, c.config.MaxResponse)
	if err != nil {
		return Response{}, err
	}
	return parseResponse(data)
}

// clean reports whether nothing but white space waits on the kept connection,
// and the signal has not hung up.
func (c *Client) clean() bool {
	buffered, err := c.reader.Peek(c.reader.Buffered())
	if err != nil || !allSpace(buffered) {
		return false
	}
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return false
	}
	var waiting [64]byte
	var n int
	var peekErr error
	err = raw.Control(func(fd uintptr) {
		n, _, peekErr = syscall.Recvfrom(int(fd), waiting[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	if err != nil {
		return false
	}
	if peekErr != nil {
		return errors.Is(peekErr, syscall.EAGAIN)
	}
	return n > 0 && allSpace(waiting[:n])
}

func allSpace(b []byte) bool {
	for _, c := range b {
		if !isSpace(c) {
			return false
		}
	}
	return true
}

// diedIdle reports whether the signal had hung up before it answered a length.
func diedIdle(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Phase == PhaseLengthACK &&
		(errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
}
