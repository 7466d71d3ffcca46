package signaltest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// The bytes of an ACK, and the limits of a response.
const (
	ackGood, ackRefused = 0x01, 0x02
	maxAnswer           = 4096 // bytes of the second ACK and the response
	maxResponse         = 1 << 20
)

// spinLimit is how long a read polls for the first byte without yielding.
const spinLimit = 2 * time.Millisecond

var (
	errRefused = errors.New("it refused (0x02)")
	errClosed  = errors.New("it closed the connection")
)

// peer is the kit's end of a connection. Unlike sigproto.Client, it sends invalid messages and checks details.
type peer struct {
	conn    *net.UnixConn
	reader  *bufio.Reader
	limit   time.Duration // per step
	answers *Answers      // counts the answers; nil: not counted
}

func newPeer(conn *net.UnixConn, t Target) *peer {
	return &peer{conn: conn, reader: bufio.NewReader(conn), limit: t.Limits.Answer, answers: t.answers}
}

func (p *peer) close() { _ = p.conn.Close() }

// evaluate sends the hello and the target's sample.
func (p *peer) evaluate(t Target) (json.RawMessage, error) {
	if err := p.hello(t); err != nil {
		return nil, err
	}
	return p.request(sampleBody(t))
}

// hello sends the hello, and waits until it has been read, so that the next message arrives in another read.
func (p *peer) hello(t Target) error {
	if err := p.send(helloBytes(t)); err != nil {
		return fmt.Errorf("send the hello: %w", err)
	}
	p.rest()
	return nil
}

// request makes one evaluation, and returns the response.
func (p *peer) request(body []byte) (json.RawMessage, error) {
	if err := p.offer(body); err != nil {
		return nil, err
	}
	if err := p.send(body); err != nil {
		return nil, fmt.Errorf("send the body: %w", err)
	}
	return p.answer()
}

// offer sends a body's length, and reads its ACK.
func (p *peer) offer(body []byte) error {
	if err := p.send(lengthBytes(len(body))); err != nil {
		return fmt.Errorf("send the length: %w", err)
	}
	if err := p.ack(); err != nil {
		return fmt.Errorf("read the ACK of the length: %w", err)
	}
	return nil
}

// answer reads the second ACK and the response.
func (p *peer) answer() (json.RawMessage, error) {
	if err := p.ack(); err != nil {
		return nil, fmt.Errorf("read the ACK of the body: %w", err)
	}
	return p.response()
}

// refusal reads the second ACK, which must be a refusal.
func (p *peer) refusal() error {
	switch err := p.ack(); {
	case errors.Is(err, errRefused):
		return nil
	case err != nil:
		return fmt.Errorf("want a refusal (0x02) in place of the second ACK: %v", err) // the advice of err does not apply here
	}
	response, err := p.response()
	if err != nil {
		return errors.New("it accepted the body (0x01), want a refusal (0x02)")
	}
	return fmt.Errorf("it answered %.200s, want a refusal (0x02)", response)
}

func (p *peer) send(b []byte) error {
	if err := p.conn.SetDeadline(time.Now().Add(p.limit)); err != nil {
		return err
	}
	_, err := p.conn.Write(b)
	return p.plain(err)
}

// plain returns an error of the connection in words for the author of a signal.
func (p *peer) plain(err error) error {
	switch {
	case err == io.EOF, errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return errClosed
	case err != nil && isTimeout(err):
		return fmt.Errorf("it did nothing for %v", p.limit)
	}
	return err
}

// ack reads one byte. It skips white space after a response.
func (p *peer) ack() error {
	if err := p.conn.SetDeadline(time.Now().Add(p.limit)); err != nil {
		return err
	}
	for {
		b, err := p.reader.ReadByte()
		switch {
		case err != nil:
			return p.plain(err)
		case b == ackGood:
			return nil
		case b == ackRefused:
			return errRefused
		case !isSpace(b):
			return &adviceError{fmt.Errorf("got byte 0x%02x, want 0x01", b),
				`an ACK is the one byte 0x01, not a digit or a text: send it for the length, and again for the body, before the response (Python: b"\x01")`}
		}
	}
}

// response reads one JSON object in any number of pieces.
func (p *peer) response() (json.RawMessage, error) {
	if err := p.conn.SetDeadline(time.Now().Add(p.limit)); err != nil {
		return nil, err
	}
	var response json.RawMessage
	decoder := json.NewDecoder(io.LimitReader(p.reader, maxResponse))
	err := decoder.Decode(&response)
	if rest, _ := io.ReadAll(decoder.Buffered()); len(rest) > 0 { // from memory
		p.reader = bufio.NewReader(io.MultiReader(bytes.NewReader(rest), p.reader))
		_, _ = p.reader.Peek(1) // loads them into the buffer
	}
	if err != nil {
		return nil, fmt.Errorf("read the response as JSON: %w", p.plain(err))
	}
	if response[0] != '{' {
		return nil, fmt.Errorf("the response is %.100s, want a JSON object", response)
	}
	p.count(response)
	return response, nil
}

// count records whether a response has a value.
func (p *peer) count(response json.RawMessage) {
	if p.answers == nil {
		return
	}
	var r struct {
		Resources map[string]*json.RawMessage
	}
	if err := json.Unmarshal(response, &r); err != nil {
		return // other checks report the problem
	}
	for _, x := range r.Resources {
		if x != nil {
			p.answers.Values++
			return
		}
	}
	p.answers.None++
}

// unexpectedByte returns a byte that no request requested and that has already arrived.
func (p *peer) unexpectedByte() (byte, bool) {
	waiting, _ := p.reader.Peek(p.reader.Buffered()) // from memory
	if len(waiting) == 0 {
		waiting, _, _ = p.readAvailable(unix.MSG_PEEK)
	}
	for _, b := range waiting {
		if !isSpace(b) {
			return b, true
		}
	}
	return 0, false
}

// first returns the result of one read. It polls for a short time, so that it finds a write before the next one.
func (p *peer) first() ([]byte, error) {
	if n := p.reader.Buffered(); n > 0 {
		return p.reader.Peek(n)
	}
	for begin := time.Now(); time.Since(begin) < spinLimit; {
		got, waiting, err := p.readAvailable(0)
		if err != nil || len(got) > 0 || !waiting {
			return got, err
		}
	}
	if err := p.conn.SetDeadline(time.Now().Add(p.limit)); err != nil {
		return nil, err
	}
	buffer := make([]byte, maxResponse)
	n, err := p.conn.Read(buffer)
	return buffer[:n], err
}

// readAvailable reads what is available without blocking. waiting means that nothing is available.
func (p *peer) readAvailable(flags int) (got []byte, waiting bool, err error) {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return nil, false, err
	}
	buffer := make([]byte, 4*maxAnswer)
	var n int
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		n, _, readErr = unix.Recvfrom(int(fd), buffer, flags|unix.MSG_DONTWAIT)
		return true
	})
	if readErr == unix.EAGAIN || readErr == unix.EINTR {
		return nil, true, err
	}
	return buffer[:max(n, 0)], false, errors.Join(err, readErr)
}

// rest waits until the signal has read everything sent to it, at most for the limit of a step. The next step reports what stays unread.
func (p *peer) rest() {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return // closed: the next step reports it
	}
	for begin := time.Now(); time.Since(begin) < p.limit; {
		unread := 0
		err := raw.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		if err != nil || unread == 0 {
			return
		}
		<-time.After(100 * time.Microsecond)
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

func lengthBytes(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
