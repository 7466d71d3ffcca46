// Package history reads the past of a pool: its summaries by time, and the full record of one tick. It also decides
// recorded ticks with another policy, and collects events. Nothing here writes. A Pool is safe for concurrent use.
//
// Commands and the API read through it.
package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// ErrNoTick: the pool has no tick in the searched time.
var ErrNoTick = errors.New("no tick is recorded")

// errStop ends a visit.
var errStop = errors.New("enough")

// Pool is the past of one pool.
type Pool struct {
	JS            jetstream.JetStream
	Cluster, Pool string
}

// Between calls visit with the summary of each tick that began from from until to, both included, oldest first. Before
// the first summary, as in a pool that was upgraded, it makes summaries from records. It returns how many summaries this
// weir cannot read.
func (p Pool) Between(ctx context.Context, from, to time.Time, visit func(api.Summary) error) (unreadable int, err error) {
	unreadable, err = p.Since(ctx, from.Add(-slack), func(s api.Summary) error {
		switch {
		case s.At.After(to.Add(slack)):
			return errStop
		case s.At.Before(from) || s.At.After(to):
			return nil
		}
		return visit(s)
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return unreadable, err
}

// Since is Between without an end.
func (p Pool) Since(ctx context.Context, from time.Time, visit func(api.Summary) error) (unreadable int, err error) {
	stored, err := state.OpenSummaries(ctx, p.JS, p.Cluster, p.Pool)
	if err != nil {
		return 0, err
	}
	found := false
	err = stored.Since(ctx, from, func(data []byte) error {
		s, err := ReadSummary(data)
		if err != nil {
			unreadable++
			return nil
		}
		first := !found
		found = true
		if first && s.At.Sub(from) > 2*max(s.Every, time.Second) { // more than the time between two ticks
			more, err := p.recorded(ctx, from, s.At, visit)
			if unreadable += more; err != nil {
				return err
			}
		}
		return visit(s)
	})
	if err != nil || found || unreadable > 0 {
		return unreadable, err
	}
	return p.recorded(ctx, from, time.Time{}, visit)
}

// recorded calls visit with the summaries of the records from then until before a tick; zero: all. It returns how many
// records this weir cannot read.
func (p Pool) recorded(ctx context.Context, from, until time.Time, visit func(api.Summary) error) (unreadable int, err error) {
	ended := false
	err = p.Records(ctx, from, func(data []byte) error {
		r, err := explain.Read(data)
		switch {
		case err != nil:
			unreadable++
			return nil
		case !until.IsZero() && !r.At.Before(until):
			ended = true
			return errStop
		}
		return visit(SummaryOf(r))
	})
	if ended {
		err = nil
	}
	return unreadable, err
}

// Records calls visit with each record from then on, oldest first. Without a ledger there are no records.
func (p Pool) Records(ctx context.Context, from time.Time, visit func(record []byte) error) error {
	ledger, err := state.OpenLedger(ctx, p.JS, p.Cluster, p.Pool)
	if errors.Is(err, state.ErrNoRecord) {
		return nil
	}
	if err != nil {
		return err
	}
	return ledger.Since(ctx, from, visit)
}

// Tick is one tick of the past.
type Tick struct {
	api.Summary
	Record *api.TickRecord // nil: the ledger no longer has it
}

// slack is the greatest difference of the clocks of autoscaler and NATS that searches allow for.
const slack = time.Minute

// At returns the last tick that began at that time or earlier, without dry runs. The error wraps ErrNoTick if the pool
// has no tick in the 90 days before.
func (p Pool) At(ctx context.Context, at time.Time) (t Tick, err error) {
	const longest = 90 * 24 * time.Hour
	for back := 10 * time.Minute; ; back *= 12 {
		found := false
		_, err := p.Since(ctx, at.Add(-min(back, longest)), func(s api.Summary) error {
			if s.At.After(at.Add(slack)) {
				return errStop
			}
			if !s.At.After(at) && !s.DryRun {
				t.Summary, found = s, true
			}
			return nil
		})
		switch {
		case err != nil && !errors.Is(err, errStop):
			return t, err
		case found:
			t.Record, err = p.Record(ctx, t.Summary.At)
			return t, err
		case back >= longest:
			return t, fmt.Errorf("find the tick of pool %s/%s at %s: %w in the 90 days before", p.Cluster, p.Pool, at.Format(time.RFC3339), ErrNoTick)
		}
	}
}

// Record returns the record of the tick that began exactly then; nil if the ledger does not have it. It ignores dry
// runs.
func (p Pool) Record(ctx context.Context, at time.Time) (found *api.TickRecord, err error) {
	err = p.Records(ctx, at.Add(-slack), func(data []byte) error {
		r, err := explain.Read(data)
		switch {
		case err != nil: // of another version; the summary is what is left
		case r.At.Equal(at) && !r.DryRun:
			found = &r
			return errStop
		case r.At.After(at.Add(slack)):
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return found, err
}

// dated are the forms of a time without a zone, which is local.
var dated = [...]string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly}

// ParseTime parses a point of the past: RFC 3339, a local date with or without a time, or the last time at which the
// clock showed 15:04 or 15:04:05.
func ParseTime(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	for _, layout := range dated {
		if err != nil {
			at, err = time.ParseInLocation(layout, text, now.Location())
		}
	}
	for _, layout := range [...]string{"15:04:05", "15:04"} {
		if err == nil {
			break
		}
		if at, err = time.ParseInLocation(layout, text, now.Location()); err == nil {
			year, month, day := now.Date()
			at = time.Date(year, month, day, at.Hour(), at.Minute(), at.Second(), 0, now.Location())
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
		}
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("time %.80q: want a time such as 03:10, 2026-01-02T03:10:00 or 2026-01-02T03:10:00Z", text)
	}
	return at, nil
}
