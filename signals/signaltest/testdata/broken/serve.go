package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	good, refused = 0x01, 0x02
	maxBody       = 1 << 30
	smallBuffer   = 64 << 10
)

// serve answers one autoscaler.
func (p *program) serve(conn net.Conn) {
	defer conn.Close()
	if p.is("wrong_ack") {
		conn = asciiACK{conn}
	}
	reader, err := p.hello(conn)
	for err == nil {
		err = p.evaluation(conn, reader)
	}
	if p.is("dies_on_eof") && errors.Is(err, io.ErrUnexpectedEOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// asciiACK is a connection that sends the digit 1 as an ACK.
type asciiACK struct{ net.Conn }

func (c asciiACK) Write(b []byte) (int, error) {
	if b[0] == good {
		b[0] = '1'
	}
	return c.Conn.Write(b)
}

// hello reads the first message, and returns a reader of the following bytes.
func (p *program) hello(conn net.Conn) (*bufio.Reader, error) {
	reader := bufio.NewReader(conn)
	if p.is("hello_wants_newline") {
		_, err := reader.ReadString('\n')
		return reader, err
	}
	var hello map[string]any
	var in io.Reader = reader
	switch {
	case p.is("hello_reads_once"):
		first, err := firstRead(conn)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(first)
	case p.is("hello_counts_braces"):
		text, err := countBraces(reader)
		if err != nil {
			return nil, err
		}
		return reader, json.Unmarshal(text, &hello)
	case p.is("hello_decodes_reads"):
		in = asText{conn}
	}
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&hello); err != nil {
		return nil, err
	}
	if p.is("hello_drops_rest") {
		return bufio.NewReader(conn), nil
	}
	if p.is("strict_keys") && len(hello) > 4 {
		return nil, errors.New("unknown keys")
	}
	return bufio.NewReader(io.MultiReader(decoder.Buffered(), reader)), nil
}

func firstRead(conn net.Conn) ([]byte, error) {
	buffer := make([]byte, 4096)
	n, err := conn.Read(buffer)
	return buffer[:n], err
}

// countBraces reads up to the brace that closes the first one. It ignores strings.
func countBraces(reader *bufio.Reader) (text []byte, err error) {
	for depth := 0; len(text) == 0 || depth > 0; {
		b, err := reader.ReadByte()
		if err != nil {
			return nil, err
		}
		switch b {
		case '{':
			depth++
		case '}':
			depth--
		}
		text = append(text, b)
	}
	return text, nil
}

// asText is a connection on which each read must be valid UTF-8.
type asText struct{ net.Conn }

func (c asText) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	text, _, _ := bytes.Cut(b[:n], []byte{0}) // a length may follow the hello
	if err == nil && !utf8.Valid(text) {
		err = errors.New("the text is not UTF-8")
	}
	return n, err
}

// evaluation answers one request. An error ends the connection.
func (p *program) evaluation(conn net.Conn, reader *bufio.Reader) error {
	body, err := p.readBody(conn, reader)
	if err != nil {
		return err
	}
	question, err := p.decode(body)
	if err != nil {
		if p.is("hangs_up_on_garbage") && !bytes.Contains(body, []byte("NaN")) && !bytes.Contains(body, []byte("Inf")) && !bytes.Contains(body, []byte("1e999")) {
			return err
		}
		_, err = conn.Write([]byte{refused})
		return err
	}
	if p.is("needs_points") {
		for _, points := range question.Metrics {
			_ = points[len(points)-1]
		}
	}
	if err := p.answer(conn); err != nil {
		if p.is("dies_on_epipe") {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return err
	}
	if p.is("one_evaluation") {
		return io.EOF
	}
	return nil
}

// readBody reads length and body.
func (p *program) readBody(conn net.Conn, reader *bufio.Reader) ([]byte, error) {
	var header [4]byte
	if p.is("impatient") {
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	}
	if _, err := io.ReadFull(reader, header[:]); err != nil {
		return nil, err
	}
	_ = conn.SetReadDeadline(time.Time{})
	length := binary.BigEndian.Uint32(header[:])
	if p.is("little_endian") {
		length = binary.LittleEndian.Uint32(header[:])
	}
	if length > maxBody && !p.is("takes_any_length") || length > smallBuffer && p.is("small_buffer") {
		_, err := conn.Write([]byte{refused})
		return nil, errors.Join(err, errors.New("too long"))
	}
	if _, err := conn.Write([]byte{good}); err != nil {
		return nil, err
	}
	if length > maxBody {
		select {} // like a signal that waits for all of it
	}
	body := make([]byte, length)
	if p.is("reads_once") {
		n, err := reader.Read(body)
		return body[:n], err
	}
	_, err := io.ReadFull(reader, body)
	if err == io.EOF && length > 0 {
		err = io.ErrUnexpectedEOF
	}
	return body, err
}

type question struct {
	Metrics   map[string][][]any `json:"metrics"`
	Timestamp any                `json:"timestamp"`
}

// numbers checks that the values are JSON numbers.
func numbers(values ...any) error {
	for _, value := range values {
		n, ok := value.(json.Number)
		if !ok {
			return fmt.Errorf("%v is no number", value)
		}
		if _, err := n.Float64(); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) decode(body []byte) (question, error) {
	if p.is("takes_nan") {
		body = []byte(strings.NewReplacer("-Infinity", "0", "Infinity", "0", "NaN", "0", "1e999", "0").Replace(string(body)))
	}
	body = p.guessed(body)
	var q question
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if p.is("strict_keys") {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(&q); err != nil {
		return q, err
	}
	if q.Metrics == nil && !p.is("takes_null_metrics") || len(q.Metrics) == 0 && p.is("needs_metrics") {
		return q, errors.New("no metrics")
	}
	if err := numbers(q.Timestamp); err != nil && !p.is("needs_no_timestamp") {
		return q, err
	}
	for _, points := range q.Metrics {
		if err := p.checkPoints(points); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (p *program) checkPoints(points [][]any) error {
	if points == nil {
		return errors.New("a series is null")
	}
	for _, point := range points {
		if err := numbers(point...); err != nil {
			return err
		}
		if len(point) != 2 || p.is("short_numbers") && len(point[1].(json.Number)) > 12 {
			return fmt.Errorf("point %v", point)
		}
	}
	return nil
}

// guessed returns the body in UTF-8, like a library that guesses its encoding.
func (p *program) guessed(body []byte) []byte {
	if p.is("takes_mark") {
		return bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	}
	if !p.is("takes_utf16") || len(body) < 4 || body[0] != 0xff || body[1] != 0xfe {
		return body
	}
	var units []uint16
	for pair := range slices.Chunk(body[2:len(body)&^1], 2) {
		units = append(units, binary.LittleEndian.Uint16(pair))
	}
	return []byte(string(utf16.Decode(units)))
}

// answer sends the second ACK and the response.
func (p *program) answer(conn net.Conn) error {
	asked := p.asked.Add(1)
	response := `{"Resources":{"cpus":4,"mem":2048.5,"disk":null}}`
	switch {
	case p.is("negative"):
		response = `{"Resources":{"cpus":-1}}`
	case p.is("no_resources"):
		response = `{"cpus":4}`
	case p.is("verdict_number"):
		response = `{"Resources":{"cpus":4},"Verdict":1}`
	case p.is("verdict_other"):
		response = `{"Resources":{"cpus":4},"Verdict":"ok"}`
	case p.is("stale_with_value"):
		response = `{"Resources":{"cpus":4},"Verdict":"stale"}`
	case p.is("explanation_list"):
		response = `{"Resources":{"cpus":4},"Explanation":["4"]}`
	case p.is("long_answer"):
		response = fmt.Sprintf(`{"Resources":{"cpus":4},"Why":%q}`, strings.Repeat("x", 5000))
	case p.is("says_goodbye"):
		response += "bye"
	case p.is("counts"):
		response = fmt.Sprintf(`{"Resources":{"cpus":%d}}`, asked)
	}
	if p.is("two_writes") {
		if _, err := conn.Write([]byte{good}); err != nil {
			return ignoreHangup(err)
		}
		awaitRead(conn)
		_, err := io.WriteString(conn, response)
		return ignoreHangup(err)
	}
	_, err := conn.Write(append([]byte{good}, response...))
	return err
}

// awaitRead waits until the other end has read all bytes, or has closed the connection.
func awaitRead(conn net.Conn) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	for unread := 1; err == nil && unread > 0; {
		<-time.After(100 * time.Microsecond)
		err = raw.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	}
}

// ignoreHangup treats the autoscaler's end of a connection as a normal end.
func ignoreHangup(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return io.EOF
	}
	return err
}
