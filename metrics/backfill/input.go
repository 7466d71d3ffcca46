package backfill

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/record"
)

// maxLine bounds a line of line protocol, in bytes; that of a record is record.MaxLine.
const maxLine = 64 << 10

// errLong: a line is longer than its bound, and was skipped.
var errLong = errors.New("the line is too long")

// interruptible is a reader whose reads end with a context. One that is under way then goes on in
// the background until it returns: nothing else ends the read of a terminal.
type interruptible struct {
	ctx context.Context
	in  io.Reader
	wg  sync.WaitGroup
}

// Read implements io.Reader.
func (i *interruptible) Read(to []byte) (int, error) {
	type read struct {
		data []byte
		err  error
	}
	if i.ctx.Err() != nil {
		return 0, context.Cause(i.ctx)
	}
	done := make(chan read, 1)
	i.wg.Go(func() {
		buffer := make([]byte, len(to))
		n, err := i.in.Read(buffer)
		done <- read{buffer[:n], err}
	})
	select {
	case r := <-done:
		return copy(to, r.data), r.err
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	}
}

// input is a file as its lines.
type input struct {
	in     *bufio.Reader
	record bool // each line is a series in JSON
	long   int  // bytes that a line may have
	text   []byte
}

// open finds out what the input is.
func open(in io.Reader) (*input, error) {
	i := &input{in: bufio.NewReaderSize(in, 64<<10), long: maxLine}
	if magic, err := i.in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unpacked, err := gzip.NewReader(i.in)
		if err != nil {
			return nil, fmt.Errorf("read gzip: %w", err)
		}
		i.in = bufio.NewReaderSize(unpacked, 64<<10)
	}
	first, err := i.in.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read line 1: %w", err)
	}
	if err == nil && first[0] == '{' {
		i.record, i.long = true, record.MaxLine
	}
	return i, nil
}

// next returns a line, which counts until the next call: io.EOF after the last one. errLong if the
// line is too long; the next one can be read.
func (i *input) next() ([]byte, error) {
	i.text = i.text[:0]
	long := false
	for {
		part, err := i.in.ReadSlice('\n')
		if len(i.text)+len(part) > i.long+1 {
			long = true
		} else if !long {
			i.text = append(i.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(i.text) > 0 || long):
		case err != nil:
			return nil, err
		}
		if long {
			return nil, fmt.Errorf("%w: more than %d bytes", errLong, i.long)
		}
		return i.text, nil
	}
}

// samplesOf returns the points of a series of a record.
func samplesOf(line []byte) ([]metrics.Sample, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, nil
	}
	s, err := record.Decode(line)
	if err != nil {
		return nil, err
	}
	if s.Type == metrics.App {
		if err := metrics.CheckApp(metrics.AppOf(s.Name)); err != nil {
			return nil, fmt.Errorf("name %.200q: %w", s.Name, err)
		}
	}
	samples := make([]metrics.Sample, len(s.Times))
	for i, second := range s.Times {
		samples[i] = metrics.Sample{Type: s.Type, Name: s.Name, Dimensions: s.Dimensions, Time: time.Unix(second, 0), Value: s.Values[i]}
	}
	return samples, nil
}
