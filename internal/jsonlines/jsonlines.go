// Package jsonlines reads files of JSON lines, which may be anybody's: a line of
// bounded length after the other. Blank lines, and those that begin with #, say
// nothing.
//
//	lines := jsonlines.NewReader(in, 1<<20, "a line is {...}")
//	data, err := lines.Next() // io.EOF after the last
//
// A Reader has one owner.
package jsonlines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Error is a line that cannot be taken.
type Error struct {
	Line    int // from 1
	Problem string
	Allowed string // what a line may be
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

// NewReader returns a Reader of lines of so many bytes at most. Its errors say what is
// allowed.
func NewReader(in io.Reader, most int, allowed string) *Reader {
	return &Reader{in: bufio.NewReader(in), most: most, allowed: allowed}
}

// Wrong returns an Error of the last line that was read.
func (r *Reader) Wrong(problem string) error { return &Error{r.line, problem, r.allowed} }

// Parsed returns the next line that says something, as parse reads it; see Next. What
// parse refuses is an *Error.
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

// Cut reports whether the last line that was read has no end of its own: the input may
// have been cut off there.
func (r *Reader) Cut() bool { return r.cut }

// Next returns the next line that says something, without the white space around it;
// io.EOF after the last. An *Error if it is too long; any other error is of the input.
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
