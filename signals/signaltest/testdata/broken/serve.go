package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	good, refused = 0x01, 0x02
	maxBody       = 1 << 30
	smallBuffer   = 64 << 10
)

// serve answers one autoscaler.
func (p *program) serve(conn net.Conn) {
	defer conn.Close()
	reader, err := p.hello(conn)
	for err == nil {
		err = p.evaluation(conn, reader)
	}
	if p.is("dies_on_eof") && errors.Is(err, io.ErrUnexpectedEOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hello reads the first message, and returns a reader of what follows it.
func (p *program) hello(conn net.Conn) (*bufio.Reader, error) {
	reader := bufio.NewReader(conn)
	if p.is("hello_wants_newline") {
		_, err := reader.ReadString('\n')
		return reader, err
	}
	var hello map[string]any
	if p.is("hello_drops_rest") {
		buffer := make([]byte, 4096)
		n, err := conn.Read(buffer)
		if err == nil {
			err = json.NewDecoder(bytes.NewReader(buffer[:n])).Decode(&hello)
		}
		return bufio.NewReader(conn), err
	}
	decoder := json.NewDecoder(reader)
	if err := decoder.Decode(&hello); err != nil {
		return nil, err
	}
	if p.is("strict_keys") && len(hello) > 3 {
		return nil, errors.New("unknown keys")
	}
	return bufio.NewReader(io.MultiReader(decoder.Buffered(), reader)), nil
}

// evaluation answers one question; its error ends the connection.
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
	if _, err := io.ReadFull(reader, header[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if length > maxBody && !p.is("takes_any_length") || length > smallBuffer && p.is("small_buffer") {
		_, err := conn.Write([]byte{refused})
		return nil, errors.Join(err, errors.New("too long"))
	}
	if _, err := conn.Write([]byte{good}); err != nil {
		return nil, err
	}
	if length > maxBody {
		select {} // as one that waits for all of it
	}
	body := make([]byte, length)
	if p.is("reads_once") && length < smallBuffer && length > 0 {
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
	Metrics   map[string][][2]json.Number `json:"metrics"`
	Timestamp json.Number                 `json:"timestamp"`
}

func (p *program) decode(body []byte) (question, error) {
	if p.is("takes_nan") {
		body = []byte(strings.NewReplacer("-Infinity", "0", "Infinity", "0", "NaN", "0", "1e999", "0").Replace(string(body)))
	}
	var q question
	decoder := json.NewDecoder(bytes.NewReader(body))
	if p.is("strict_keys") {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(&q); err != nil {
		return q, err
	}
	for _, points := range q.Metrics {
		for _, point := range points {
			if x, err := point[1].Float64(); err != nil || math.IsInf(x, 0) {
				return q, fmt.Errorf("value %s", point[1])
			}
			if p.is("short_numbers") && len(point[1]) > 12 {
				return q, fmt.Errorf("value %s is too long", point[1])
			}
		}
	}
	if p.is("needs_metrics") && len(q.Metrics) == 0 {
		return q, errors.New("no metrics")
	}
	return q, nil
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
		<-time.After(5 * time.Millisecond)
		_, err := io.WriteString(conn, response)
		return ignoreHangup(err)
	}
	_, err := conn.Write(append([]byte{good}, response...))
	return err
}

// ignoreHangup takes the autoscaler's end of a connection for an ordinary end.
func ignoreHangup(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return io.EOF
	}
	return err
}
