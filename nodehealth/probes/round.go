package probes

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/nodehealth"
)

// round probes some targets, each until it has a result.
type round struct {
	prober *Prober
	ctx    context.Context // ends with the interval
	// jobs has each target without a result at most once. Targets that were not tried come first.
	// The others follow in the order of their next attempts, as all wait equally long.
	jobs  chan *job
	open  atomic.Int64 // targets without a result
	known chan result
}

// job is one target without a result.
type job struct {
	target nodehealth.Target
	host   host
	tried  int
	due    time.Time     // time of the next attempt
	last   attemptResult // result of the last attempt
}

type host struct {
	addrs []netip.Addr
	found bool
}

type result struct {
	node    string
	verdict api.HealthVerdict
	why     string
}

// Probe implements nodehealth.Probe. It calls the callback in the caller's goroutine, once for each target.
// If ctx ends before the round does, Probe returns the cause and does not report the other targets.
func (p *Prober) Probe(ctx context.Context, targets []nodehealth.Target, notify func(node string, v api.HealthVerdict, why string)) error {
	if len(targets) == 0 {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, p.config.Interval)
	defer cancel()
	r := &round{prober: p, ctx: limit, jobs: make(chan *job, len(targets)), known: make(chan result, len(targets))}
	r.open.Store(int64(len(targets)))
	first := int(p.turn.Load() % uint64(len(targets)))
	for i := range targets {
		r.jobs <- &job{target: targets[(first+i)%len(targets)]}
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	for range p.config.workers(len(targets)) {
		workers.Go(r.work)
	}
	answered := 0
	for range targets {
		var got result
		select {
		case got = <-r.known:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // a result may be there too
			return fmt.Errorf("probe %d nodes: %w", len(targets), context.Cause(ctx))
		}
		if got.verdict != "" {
			answered++
		}
		notify(got.node, orUnknown(got.verdict), got.why)
	}
	if answered < len(targets) {
		p.turn.Add(uint64(answered))
	}
	return nil
}

// orUnknown returns unknown for a target that was not tried.
func orUnknown(v api.HealthVerdict) api.HealthVerdict {
	if v == "" {
		return api.CheckUnknown
	}
	return v
}

// work tries targets until all have a result.
func (r *round) work() {
	var scratch bytes.Buffer
	for j := range r.jobs {
		r.try(j, &scratch)
	}
}

func (r *round) try(j *job, scratch *bytes.Buffer) {
	limit := *r.prober.config.Options.PollRetryLimit
	late := result{why: fmt.Sprintf("the round ended after %d of %d attempts", j.tried, limit)}
	if !r.wait(j.due) {
		r.notify(j, late)
		return
	}
	j.last = r.prober.attempt(r.ctx, j, scratch)
	if r.over() && !j.last.kind.answered() {
		r.notify(j, late)
		return
	}
	j.tried++
	if j.last.kind.final() || j.tried >= limit {
		verdict, why := r.prober.judge(j)
		r.notify(j, result{verdict: verdict, why: why})
		return
	}
	j.due = time.Now().Add(time.Duration(*r.prober.config.Options.PollRetryInterval))
	r.jobs <- j // has room: j was taken out
}

// wait reports whether due came before the round's end.
func (r *round) wait(due time.Time) bool {
	return retry.Pause(r.ctx, time.Until(due)) && !r.over()
}

// over reports whether the round has ended. A connection may detect its deadline before the context
// does.
func (r *round) over() bool {
	deadline, _ := r.ctx.Deadline()
	return r.ctx.Err() != nil || !time.Now().Before(deadline)
}

// notify reports the result of a target. The last one ends the round.
func (r *round) notify(j *job, got result) {
	got.node = j.target.Node
	r.known <- got // has room for every target
	if r.open.Add(-1) == 0 {
		close(r.jobs)
	}
}
