package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// ErrNoTick: the pool has no tick in the searched time.
var ErrNoTick = errors.New("no tick is recorded")

// newestWithin bounds the search for the newest ticks.
const newestWithin = 3 * time.Second

// Last returns the newest record of the holder of the pool's lease; that of a dry run if no other one is near it. Without
// records the error wraps state.ErrNoRecord.
func (p Pool) Last(ctx context.Context) (r api.TickRecord, err error) {
	ctx, cancel := context.WithTimeout(ctx, newestWithin)
	defer cancel()
	ledger, err := state.OpenLedger(ctx, p.JS, p.Cluster, p.Pool)
	if err != nil {
		return r, err
	}
	data, err := ledger.Last(ctx)
	if err != nil {
		return r, err
	}
	if r, err = ReadRecord(data); err != nil || !r.DryRun {
		return r, err
	}
	_, err = p.Records(ctx, r.At.Add(-3*r.Every), time.Time{}, func(one api.TickRecord) error {
		if !one.DryRun {
			r = one
		}
		return nil
	})
	return r, err
}

// LastDecided returns the newest record with a decision: it searches the last minute, and then longer ranges up to an hour. It
// returns nil without such a record, or if the ledger cannot be read to its end in time, since an earlier record may not be
// the newest one.
func (p Pool) LastDecided(ctx context.Context, now time.Time) *api.TickRecord {
	ctx, cancel := context.WithTimeout(ctx, newestWithin)
	defer cancel()
	return lastDecided(now, func(from time.Time, visit func(api.TickRecord) error) error {
		_, err := p.Records(ctx, from, time.Time{}, visit)
		return err
	})
}

func lastDecided(now time.Time, records func(from time.Time, visit func(api.TickRecord) error) error) (last *api.TickRecord) {
	for back := time.Minute; last == nil && back <= 64*time.Minute; back *= 4 {
		err := records(now.Add(-back), func(r api.TickRecord) error {
			if r.Case != nil {
				last = &r
			}
			return nil
		})
		if err != nil {
			return nil
		}
	}
	return last
}

// Tick is one tick of the past.
type Tick struct {
	api.Summary
	Record *api.TickRecord // nil: the ledger no longer has it
}

// TickAt returns the last tick that began at that time or earlier, without dry runs. The error wraps ErrNoTick if the pool
// has no tick in the 90 days before.
func (p Pool) TickAt(ctx context.Context, at time.Time) (t Tick, err error) {
	const longest = 90 * 24 * time.Hour
	for back := 10 * time.Minute; ; back *= 12 {
		found := false
		_, err := p.Summaries(ctx, at.Add(-min(back, longest)), at, func(s api.Summary) error {
			if !s.DryRun {
				t.Summary, found = s, true
			}
			return nil
		})
		switch {
		case err != nil:
			return t, err
		case found:
			t.Record, err = p.Record(ctx, t.Summary.At)
			return t, err
		case back >= longest:
			return t, fmt.Errorf("find the tick of pool %s/%s at %s: %w in the 90 days before", p.Cluster, p.Pool, at.Format(time.RFC3339), ErrNoTick)
		}
	}
}

// Record returns the record of the tick that began exactly then; nil if the ledger does not have it, or if this weir cannot
// read it. It ignores dry runs.
func (p Pool) Record(ctx context.Context, at time.Time) (found *api.TickRecord, err error) {
	_, err = p.Records(ctx, at, at, func(r api.TickRecord) error {
		if r.DryRun {
			return nil
		}
		found = &r
		return ErrStop
	})
	return found, err
}
