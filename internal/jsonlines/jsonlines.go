// Package jsonlines reads files of JSON lines, which may be anybody's: a line of
// bounded length after the other. Blank lines, and those that begin with #, say
// nothing.
//
//	lines := jsonlines.NewReader(in, 1<<20)
//	data, err := lines.Next() // io.EOF after the last; lines.Line() is its number
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

// Error is a line that is none. Its text does not tell the Line.
type Error struct {
	Line    int // from 1
	Problem string
}

func (e *Error) Error() string { return e.Problem }

// Reader reads lines.
type Reader struct {
	in   *bufio.Reader
	most int
	line int
	cut  bool
}

// NewReader returns a Reader of lines of so many bytes at most.
func NewReader(in io.Reader, most int) *Reader { return &Reader{in: bufio.NewReader(in), most: most} }

// Line returns the number of the last line that was read, from 1.
func (r *Reader) Line() int { return r.line }

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
			return nil, &Error{Line: r.line, Problem: fmt.Sprintf("is longer than %d bytes", r.most)}
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
