package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// batch is the runs of one command: each policy with each seed.
type batch struct {
	scenario scenario
	policies []policy
	seeds    int
	records  string                    // file for the records of the first run; empty: none
	plots    bool                      // the first seed of each policy has columns
	ended    func(api.Simulated) error // receives the row of each policy in order, when it ended; nil: no receiver
}

// run runs all policies, as many at a time as there are processors. After an error it returns no results, unless ctx ended: then it
// returns those until then, and runs that did not begin have no ticks.
func (b batch) run(ctx context.Context) ([][]simulate.Result, error) {
	results := make([][]simulate.Result, len(b.policies))
	done := make([]chan error, len(b.policies)*b.seeds)
	for i := range done {
		done[i] = make(chan error, 1)
		results[i/b.seeds] = append(results[i/b.seeds], simulate.Result{})
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	defer all.Wait()
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), len(done)) {
		all.Go(func() {
			for at := int(next.Add(1)) - 1; at < len(done); at = int(next.Add(1)) - 1 {
				i, k := at/b.seeds, at%b.seeds
				var err error
				results[i][k], err = b.one(running, i, k)
				done[at] <- err
			}
		})
	}
	for i := range results {
		var err error
		for k := range b.seeds {
			err = errors.Join(err, <-done[i*b.seeds+k])
		}
		if ctx.Err() == nil && err == nil && b.ended != nil {
			err = b.ended(row(b.scenario, b.policies[i], results[i]))
		}
		if err != nil && ctx.Err() == nil {
			stop(err)
			return nil, err
		}
	}
	if ctx.Err() != nil {
		all.Wait()
		return results, fmt.Errorf("the result is until the cancellation: %w", context.Cause(ctx))
	}
	return results, nil
}

// one runs a policy with a seed, and writes the records of the first run.
func (b batch) one(ctx context.Context, i, k int) (simulate.Result, error) {
	of, err := b.scenario.of(b.policies[i], b.scenario.file.Run.Seed+k)
	if err != nil {
		return simulate.Result{}, err
	}
	if b.plots && k == 0 {
		of.Columns, of.Why = plotColumns, cause
	}
	if b.records == "" || i > 0 || k > 0 {
		return b.scenario.withSignals(ctx, of, simulate.Run)
	}
	file, err := os.Create(b.records)
	if err != nil {
		return simulate.Result{}, err
	}
	of.Sink = sink(file)
	r, err := b.scenario.withSignals(ctx, of, simulate.Run)
	return r, errors.Join(err, file.Close())
}

// sink returns a receiver of records that writes JSON lines.
func sink(to io.Writer) func(api.TickRecord) error {
	lines := json.NewEncoder(to)
	return func(r api.TickRecord) error { return lines.Encode(r) }
}
