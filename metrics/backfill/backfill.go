// Package backfill writes the metrics of a file to a store, line by line: line protocol, or the
// record that "weir metrics get --output json" writes. Either may be gzip.
//
// A mistake in a line costs that line. [Run] returns how much was written, and which lines
// were refused, with the reason. To write a file again does no harm: a store takes a value that
// it has already.
package backfill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/lineprotocol"
)

const (
	batchSize = 4000 // values that are written at a time
	// maxProblems bounds the refused lines that a Result names.
	maxProblems = 100
	// maxProbes bounds the requests that find out which values of a batch are refused.
	maxProbes = 5000
)

// Store takes samples, and returns how many it dropped: they are too old, or it has another
// value for their time.
type Store interface {
	Put(ctx context.Context, samples []metrics.Sample) (dropped int, err error)
}

// Config has the values that the lines lack.
type Config struct {
	App       string        // of lines of line protocol without the tag "app"
	Precision string        // of their timestamps: ns, us, ms or s
	Now       time.Time     // of lines without a timestamp
	Timeout   time.Duration // of a request to the store
	// Progress is called after each request that wrote something; nil: nothing is.
	Progress func(Result)
}

// Result is what became of a file.
type Result struct {
	Lines   int `json:"lines"`   // that were read
	Written int `json:"written"` // values
	Refused int `json:"refused"` // values; a line that cannot be read counts as one
	// Unsure is how many values were in a request without an answer.
	Unsure   int        `json:"unsure,omitempty"`
	Oldest   *time.Time `json:"oldest,omitempty"` // of the values that were read
	Newest   *time.Time `json:"newest,omitempty"`
	Problems []Problem  `json:"problems,omitempty"` // the first maxProblems
}

// Problem is a line with a refused part.
type Problem struct {
	Line   int    `json:"line"` // from 1
	Reason string `json:"reason"`
}

// Run writes everything of in to the store. It ends early with the store's error, or that of the
// input, or when ctx ends; the Result then states the written data until then.
func Run(ctx context.Context, store Store, in io.Reader, c Config) (Result, error) {
	lines, err := lineprotocol.NewLines(c.App, c.Precision, c.Now)
	if err != nil {
		return Result{}, err
	}
	r := &run{store: store, config: c, probes: maxProbes}
	input, err := open(&interruptible{ctx: ctx, in: in})
	if err != nil {
		return r.result, err
	}
	for {
		text, err := input.next()
		if errors.Is(err, io.EOF) {
			err := r.flush(ctx)
			return r.result, err
		}
		if err != nil && !errors.Is(err, errLong) {
			flushed := r.flush(ctx)
			return r.result, errors.Join(flushed, fmt.Errorf("read line %d: %w", r.result.Lines+1, err))
		}
		r.result.Lines++
		if err == nil {
			err = r.line(text, lines, input.record)
		}
		if err != nil {
			r.refuse(r.result.Lines, 1, err)
		}
		if len(r.batch) >= batchSize {
			if err := r.flush(ctx); err != nil {
				return r.result, err
			}
		}
		if err := ctx.Err(); err != nil {
			return r.result, context.Cause(ctx)
		}
	}
}

// run is one Run.
type run struct {
	store  Store
	config Config
	result Result
	batch  []metrics.Sample
	lines  []int // of each sample of the batch
	probes int   // left
}

// line adds what a line has to the batch.
func (r *run) line(text []byte, lines lineprotocol.Lines, isRecord bool) error {
	var samples []metrics.Sample
	var err error
	if isRecord {
		samples, err = samplesOf(text)
	} else {
		samples, err = lines.Decode(text)
	}
	switch {
	case errors.Is(err, lineprotocol.ErrNoApp):
		err = errors.New(`it does not name its application: add the tag "app", or give --app`)
	case errors.Is(err, lineprotocol.ErrTime):
		err = fmt.Errorf("%w: is the unit of the timestamps %s? Give --precision", err, r.config.Precision)
	}
	if err != nil {
		return err
	}
	for _, s := range samples {
		if err := r.checkSample(s, isRecord); err != nil {
			r.refuse(r.result.Lines, 1, err)
			continue
		}
		if at := s.Time; r.result.Oldest == nil || at.Before(*r.result.Oldest) {
			r.result.Oldest = &at
		}
		if at := s.Time; r.result.Newest == nil || at.After(*r.result.Newest) {
			r.result.Newest = &at
		}
		r.batch, r.lines = append(r.batch, s), append(r.lines, r.result.Lines)
	}
	return nil
}

// earliest is the year 1980, in unix seconds: an earlier time was written in another unit.
const earliest = 315_532_800

// checkSample returns why no store takes a sample.
func (r *run) checkSample(s metrics.Sample, isRecord bool) error {
	err := metrics.CheckSample(r.config.Now, s)
	early := s.Time.Unix() < earliest
	switch {
	case !isRecord && (early || errors.Is(err, metrics.ErrFuture)):
		return fmt.Errorf("its time is %s: is the unit of the timestamps %s? Give --precision", s.Time.UTC().Format(time.RFC3339), r.config.Precision)
	case early:
		return fmt.Errorf("its time is %s: want unix seconds", s.Time.UTC().Format(time.RFC3339))
	}
	return err
}

func (r *run) refuse(line, values int, err error) {
	r.result.Refused += values
	n := len(r.result.Problems)
	if n < maxProblems && (n == 0 || r.result.Problems[n-1].Line != line) {
		r.result.Problems = append(r.result.Problems, Problem{line, err.Error()})
	}
}

// flush writes the batch.
func (r *run) flush(ctx context.Context) error {
	batch, lines := r.batch, r.lines
	r.batch, r.lines = nil, nil
	if len(batch) == 0 {
		return nil
	}
	err := r.write(ctx, batch, lines)
	if err == nil && r.config.Progress != nil {
		r.config.Progress(r.result)
	}
	return err
}

// write writes samples. If the store refuses or drops some of them, it writes each half of them
// again, until it has found them: what is written again stays as it is.
func (r *run) write(ctx context.Context, samples []metrics.Sample, lines []int) error {
	dropped, err := r.putSamples(ctx, samples)
	refused := err != nil && isRefusal(err)
	if err != nil && !refused {
		r.result.Unsure += len(samples)
		return err
	}
	switch n := len(samples); {
	case err == nil && dropped == 0:
		r.result.Written += n
	case err == nil && dropped >= n:
		for _, line := range lines {
			r.refuse(line, 1, errDropped)
		}
	case refused && n == 1:
		r.refuse(lines[0], 1, err)
	case r.probes <= 0 && err == nil:
		r.result.Written += n - dropped
		r.result.Refused += dropped // their lines are not searched for any more
	case r.probes <= 0:
		r.refuse(lines[0], n, fmt.Errorf("this and the lines up to %d are not written: %w", lines[n-1], err))
	default:
		r.probes -= 2
		half := n / 2
		if err := r.write(ctx, samples[:half], lines[:half]); err != nil {
			r.result.Unsure += n - half
			return err
		}
		return r.write(ctx, samples[half:], lines[half:])
	}
	return nil
}

var errDropped = errors.New("the store does not keep it: it is older than the store keeps values, or its time was rewritten too often")

func (r *run) putSamples(ctx context.Context, samples []metrics.Sample) (dropped int, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	return r.store.Put(ctx, samples)
}

// isRefusal reports whether it is of no use to write the same again.
func isRefusal(err error) bool {
	for _, refusal := range []error{metrics.ErrMalformed, metrics.ErrNotFinite, metrics.ErrFuture, metrics.ErrTooManySeries} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
