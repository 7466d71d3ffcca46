package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// SummarySchema is the version of a summary. A change that older readers misread raises it.
const SummarySchema = 1

const (
	// MaxRecord bounds a record in bytes, as printed: a tick of some 100 000 nodes.
	MaxRecord  = 64 << 20
	maxSummary = 256 << 10 // bytes
)

// ErrStop is returned by a function that visits ticks, to end the visit without an error.
var ErrStop = errors.New("no more ticks are needed")

// ReadRecord decodes a record of the ledger. It accepts keys of later versions, and rejects a record with a newer schema.
func ReadRecord(data []byte) (api.TickRecord, error) {
	r, err := decode[api.TickRecord]("record of the ledger", data, MaxRecord)
	if err == nil && r.Schema > resolve.Schema {
		err = fmt.Errorf("read a record of the ledger of schema %d: this weir reads schema %d; use the newer weir", r.Schema, resolve.Schema)
	}
	return r, err
}

// ReadPrinted is ReadRecord of a record as a command prints it: its durations may be in seconds.
func ReadPrinted(line []byte) (api.TickRecord, error) {
	line, err := printed[api.TickRecord]("record", line)
	if err != nil {
		return api.TickRecord{}, err
	}
	return ReadRecord(line)
}

// ReadPrintedSummary is ReadPrinted of a summary.
func ReadPrintedSummary(line []byte) (api.Summary, error) {
	line, err := printed[api.Summary]("summary", line)
	if err != nil {
		return api.Summary{}, err
	}
	return readSummary(line)
}

// IsSummary reports whether a printed tick is a summary: it does not name the cluster.
func IsSummary(line []byte) bool {
	var of struct {
		Cluster *string  `json:"cluster"`
		Joined  *float64 `json:"joined"`
	}
	return json.Unmarshal(line, &of) == nil && of.Cluster == nil && of.Joined != nil
}

// printed returns a printed tick with its durations as they are stored.
func printed[T any](what string, line []byte) ([]byte, error) {
	var of struct {
		EverySeconds json.RawMessage `json:"every_seconds"`
	}
	if err := json.Unmarshal(line, &of); err != nil || of.EverySeconds == nil {
		return line, nil
	}
	line, err := seconds.Back[T](line)
	if err != nil {
		return nil, fmt.Errorf("read the durations of the %s: %w", what, err)
	}
	return line, nil
}

// readSummary decodes a stored summary. It accepts keys of later versions, and rejects a summary with another schema.
func readSummary(data []byte) (api.Summary, error) {
	s, err := decode[api.Summary]("summary", data, maxSummary)
	if err == nil && s.Schema != SummarySchema {
		err = fmt.Errorf("read a summary of schema %d: this weir reads schema %d; use the newer weir", s.Schema, SummarySchema)
	}
	return s, err
}

// decode decodes a stored value of at most that many bytes.
func decode[T any](what string, data []byte, most int) (v T, err error) {
	if len(data) > most {
		return v, fmt.Errorf("read a %s of %d bytes: want at most %d", what, len(data), most)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("read a %s: %w; another version of weir wrote it", what, err)
	}
	return v, nil
}

// Pool reads the ticks of one pool.
type Pool struct {
	JS            jetstream.JetStream
	Cluster, Pool string
	// SummariesOnly is for a role that may not read the records. Before the first summary it finds no ticks.
	SummariesOnly bool
}

// slack is the greatest difference of the clocks of autoscaler and NATS that searches allow for.
const slack = time.Minute

// Records calls visit with the record of each tick that began from from until to, both included, oldest first. A zero to is
// no end. It returns how many records this weir cannot read. An error of visit ends it; ErrStop does so without an error.
func (p Pool) Records(ctx context.Context, from, to time.Time, visit func(api.TickRecord) error) (unreadable int, err error) {
	unreadable, err = p.records(ctx, from, to, visit)
	return unreadable, unlessStopped(err)
}

func (p Pool) records(ctx context.Context, from, to time.Time, visit func(api.TickRecord) error) (unreadable int, err error) {
	ledger, err := state.OpenLedger(ctx, p.JS, p.Cluster, p.Pool)
	if err != nil {
		return 0, err
	}
	return walk(ctx, ledger, from, to, ReadRecord, func(r api.TickRecord) time.Time { return r.At }, visit)
}

// Summaries is Records for the summaries. Before the first summary, as in a pool whose summaries were lost, it makes
// summaries from records.
func (p Pool) Summaries(ctx context.Context, from, to time.Time, visit func(api.Summary) error) (unreadable int, err error) {
	unreadable, err = p.summaries(ctx, from, to, visit)
	return unreadable, unlessStopped(err)
}

func (p Pool) summaries(ctx context.Context, from, to time.Time, visit func(api.Summary) error) (unreadable int, err error) {
	stored, err := state.OpenSummaries(ctx, p.JS, p.Cluster, p.Pool)
	if err != nil {
		return 0, err
	}
	found, more := false, 0
	made := func(to time.Time) (err error) {
		if p.SummariesOnly {
			return nil
		}
		more, err = p.records(ctx, from, to, func(r api.TickRecord) error { return visit(SummaryOf(r)) })
		return err
	}
	unreadable, err = walk(ctx, stored, from, to, readSummary, func(s api.Summary) time.Time { return s.At }, func(s api.Summary) error {
		first := !found
		found = true
		if first && s.At.Sub(from) > 2*max(s.Every, time.Second) { // more than the time between two ticks
			if err := made(s.At.Add(-1)); err != nil {
				return err
			}
		}
		return visit(s)
	})
	if err == nil && !found && unreadable == 0 {
		err = made(to)
	}
	return unreadable + more, err
}

// walk calls visit with each tick of a stream that began from from until to, oldest first. A zero to is no end. It returns how
// many it cannot decode.
func walk[T any](ctx context.Context, l *state.Ledger, from, to time.Time, decode func([]byte) (T, error), began func(T) time.Time, visit func(T) error) (unreadable int, err error) {
	ended := false
	err = l.Since(ctx, from.Add(-slack), func(data []byte) error {
		t, err := decode(data)
		if err != nil {
			unreadable++
			return nil
		}
		at := began(t)
		switch {
		case !to.IsZero() && at.After(to.Add(slack)):
			ended = true
			return ErrStop
		case at.Before(from), !to.IsZero() && at.After(to):
			return nil
		}
		return visit(t)
	})
	if ended {
		err = nil // another walk may go on
	}
	return unreadable, err
}

func unlessStopped(err error) error {
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}
