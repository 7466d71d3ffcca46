// Package jsonlines reads untrusted files of JSON lines of bounded length. It skips blank lines and lines that begin
// with #.
//
//	lines := jsonlines.NewReader(in, 1<<20, "a line is {...}")
//	data, err := lines.Next() // io.EOF after the last
//
// A Reader is not safe for concurrent use.
//
// An [Error] names the file and the line. Recordings of the harmonizer, of node health and of metrics have this
// form.
package jsonlines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Error is an invalid line.
type Error struct {
	Line    int // from 1
	Problem string
	Allowed string // description of a valid line
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s; %s", e.Line, e.Problem, e.Allowed) }

// Reader reads lines.
type Reader struct {
	in      *bufio.Reader
	most    int
	allowed string
	line    int
	cut     bool
}

// NewReader returns a Reader of lines of at most `most` bytes. Its errors include allowed.
func NewReader(in io.Reader, most int, allowed string) *Reader {
	return &Reader{in: bufio.NewReader(in), most: most, allowed: allowed}
}

// Wrong returns an Error about the last line.
func (r *Reader) Wrong(problem string) error { return &Error{r.line, problem, r.allowed} }

// Parsed returns the next line, decoded by parse; see Next. An error of parse becomes an *Error.
func Parsed[L any](r *Reader, parse func([]byte) (L, error)) (L, error) {
	var line L
	data, err := r.Next()
	if err != nil {
		return line, err
	}
	if line, err = parse(data); err != nil {
		return line, r.Wrong(err.Error())
	}
	return line, nil
}

// Cut reports whether the last line lacks a line feed, so the input may be truncated.
func (r *Reader) Cut() bool { return r.cut }

// Next returns the next line that is not blank or a comment, without surrounding white space; io.EOF after the last.
// If a line is too long, it returns an *Error. Other errors come from the input.
func (r *Reader) Next() ([]byte, error) {
	for {
		data, err := r.read()
		if err != nil {
			return nil, err
		}
		if len(data) > 0 && data[0] != '#' {
			return data, nil
		}
	}
}

func (r *Reader) read() ([]byte, error) {
	var data []byte
	for r.line++; ; {
		part, err := r.in.ReadSlice('\n')
		if len(data)+len(part) > r.most {
			return nil, r.Wrong(fmt.Sprintf("is longer than %d bytes", r.most))
		}
		data = append(data, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil, errors.Is(err, io.EOF) && len(data) > 0:
			r.cut = err != nil
			return bytes.TrimSpace(data), nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read line %d: %w", r.line, err)
	}
}
