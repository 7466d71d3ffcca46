package sigproto

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// ServerConfig bounds a connection on the signal's end.
type ServerConfig struct {
	MaxBody int // bytes; 0 means DefaultMaxBody
	// Timeout bounds each message from its first byte, and the hello from the accept; 0 means one minute. Between two
	// evaluations a connection may be idle without limit.
	Timeout time.Duration
}

// firstRead is the initial size of a body's buffer, and the maximum size of a read.
const firstRead = 256 << 10

// ServerConn is one connection on the signal's end. Call ReadHello once, then repeatedly Next followed by Answer or
// Refuse. After an error other than [ErrBody], close the connection.
type ServerConn struct {
	conn     net.Conn
	reader   *bufio.Reader
	config   ServerConfig
	body     []byte // reused
	json     decoder
	columnar columnarReader
}

// NewServerConn uses conn, which the caller must close.
func NewServerConn(conn net.Conn, config ServerConfig) *ServerConn {
	if config.MaxBody == 0 {
		config.MaxBody = DefaultMaxBody
	}
	if config.Timeout == 0 {
		config.Timeout = time.Minute
	}
	return &ServerConn{conn: conn, reader: bufio.NewReader(conn), config: config}
}

// ReadHello reads the first message.
func (s *ServerConn) ReadHello() (Hello, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(s.config.Timeout)); err != nil {
		return Hello{}, err
	}
	data, err := readObject(s.reader, maxHello, nil)
	if err != nil {
		return Hello{}, fmt.Errorf("read hello: %w", err)
	}
	hello, err := parseHello(data)
	if err != nil {
		return Hello{}, fmt.Errorf("read hello: %w", err)
	}
	return hello, nil
}

// Next waits for an evaluation and reads it. The evaluation belongs to the caller. The error is exactly io.EOF if the
// autoscaler closed the connection between two evaluations. It wraps [ErrBody] if Next refused the body; then Next may
// be called again.
func (s *ServerConn) Next() (Evaluation, error) {
	length, err := s.readLength()
	if err != nil {
		return Evaluation{}, err
	}
	if length > s.config.MaxBody {
		err := fmt.Errorf("%w: body of %d bytes, limit %d", ErrTooLarge, length, s.config.MaxBody)
		return Evaluation{}, errors.Join(err, s.Refuse())
	}
	if err := s.write([]byte{ackGood}); err != nil {
		return Evaluation{}, fmt.Errorf("send the length's ack: %w", err)
	}
	e, bad, err := s.readBody(length)
	if err != nil {
		return Evaluation{}, fmt.Errorf("read body of %d bytes: %w", length, err)
	}
	if bad == nil {
		return e, nil
	}
	if refused := s.Refuse(); refused != nil {
		return Evaluation{}, errors.Join(bad, refused)
	}
	return Evaluation{}, fmt.Errorf("%w: %w", ErrBody, bad)
}

// Answer sends the second ACK and the response. It sends nothing if the response is invalid.
func (s *ServerConn) Answer(r Response) error {
	answer, err := appendResponse([]byte{ackGood}, r)
	if err != nil {
		return err
	}
	if len(answer) > maxAnswer {
		return fmt.Errorf("%w: answer of %d bytes, limit %d", ErrTooLarge, len(answer), maxAnswer)
	}
	if err := s.write(answer); err != nil {
		return fmt.Errorf("send the response: %w", err)
	}
	return nil
}

// Refuse sends 0x02 in place of an ACK: this evaluation has no answer.
func (s *ServerConn) Refuse() error {
	if err := s.write([]byte{ackRefused}); err != nil {
		return fmt.Errorf("send a refusal: %w", err)
	}
	return nil
}

// watchAfter is how long an evaluation may take before Watch checks whether the autoscaler still waits.
const watchAfter = 5 * time.Millisecond

// Watch returns a context that ends with ctx, or soon after the autoscaler has closed the connection. Use it between
// Next and Answer. Call stop before any other method.
func (s *ServerConn) Watch(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	var mu sync.Mutex // orders the changes of the deadline
	stopped := false
	look := time.AfterFunc(watchAfter, func() {
		defer close(ended)
		mu.Lock()
		if !stopped {
			_ = s.conn.SetReadDeadline(time.Time{}) // fails only on a closed connection, on which the read fails too
		}
		mu.Unlock()
		if _, err := s.reader.Peek(1); err != nil {
			cancel(fmt.Errorf("the autoscaler has closed the connection: %w", err))
		}
	})
	return watched, func() {
		defer cancel(nil)
		if look.Stop() {
			return // not needed
		}
		mu.Lock()
		stopped = true
		_ = s.conn.SetReadDeadline(time.Unix(1, 0))
		mu.Unlock()
		<-ended
	}
}

func (s *ServerConn) readLength() (int, error) {
	if err := s.conn.SetReadDeadline(time.Time{}); err != nil {
		return 0, fmt.Errorf("wait for an evaluation: %w", err)
	}
	if _, err := s.reader.Peek(1); err != nil {
		if err == io.EOF {
			return 0, io.EOF
		}
		return 0, fmt.Errorf("wait for an evaluation: %w", err)
	}
	if err := s.conn.SetReadDeadline(time.Now().Add(s.config.Timeout)); err != nil {
		return 0, fmt.Errorf("read length: %w", err)
	}
	var length [4]byte
	if _, err := io.ReadFull(s.reader, length[:]); err != nil {
		return 0, fmt.Errorf("read length: %w", err)
	}
	return int(binary.BigEndian.Uint32(length[:])), nil
}

// readBody reads a body to its end. bad is why it is invalid.
func (s *ServerConn) readBody(length int) (e Evaluation, bad, err error) {
	var first []byte
	if length > 0 {
		if first, err = s.reader.Peek(1); err != nil {
			return Evaluation{}, nil, unexpected(err)
		}
	}
	if length > 0 && first[0] == columnarMark {
		if err := s.readColumnar(length); err != nil {
			return Evaluation{}, nil, err
		}
		e, bad = s.columnar.finish()
		return e, bad, nil
	}
	if err := s.readJSON(length); err != nil {
		return Evaluation{}, nil, err
	}
	e, bad = s.json.finish(s.body)
	return e, bad, nil
}

// readJSON decodes a body while it arrives. It stores the whole body for the slow decoder.
func (s *ServerConn) readJSON(length int) error {
	s.json.reset()
	s.body = s.body[:0]
	for got := 0; got < length; {
		if cap(s.body)-lookahead <= got {
			size := min(length, max(2*got, firstRead))
			s.body = append(make([]byte, 0, size+lookahead), s.body...)
		}
		n, err := s.reader.Read(s.body[got:min(length, got+firstRead, cap(s.body)-lookahead)])
		got += n
		if err != nil && got < length {
			return unexpected(err)
		}
		s.body = s.body[:got]
		s.json.feed(s.body)
	}
	return nil
}

// readColumnar decodes a body while it arrives. It stores only incomplete elements.
func (s *ServerConn) readColumnar(length int) error {
	s.columnar.begin(length)
	if cap(s.body) < min(length, firstRead) {
		s.body = make([]byte, 0, min(length, firstRead))
	}
	s.body = s.body[:0]
	for length > 0 {
		start := len(s.body)
		n, err := s.reader.Read(s.body[start:min(start+length, cap(s.body))])
		length -= n
		if err != nil && length > 0 {
			return unexpected(err)
		}
		s.body = s.body[:start+n]
		used := s.columnar.feed(s.body)
		s.body = s.body[:copy(s.body, s.body[used:])]
	}
	return nil
}

// unexpected converts io.EOF in the middle of a message.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *ServerConn) write(b []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.config.Timeout)); err != nil {
		return err
	}
	_, err := s.conn.Write(b)
	return err
}
