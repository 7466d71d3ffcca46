package probes

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// round asks some targets, each until it is known.
type round struct {
	prober *Prober
	ctx    context.Context // ends with the interval
	// jobs has each target that is not known at most once. Those that were not tried
	// come first; the others follow in the order in which their next try is due, as all
	// wait equally long.
	jobs  chan *job
	open  atomic.Int64 // targets that are not known
	known chan result
}

// job is one target that is not known yet.
type job struct {
	target nodehealth.Target
	host   host
	tried  int
	due    time.Time // the next try
	last   sight     // of the last try
}

type host struct {
	addrs []netip.Addr
	found bool
}

type result struct {
	node    string
	verdict judge.Verdict
	why     string
}

// Probe implements nodehealth.Probe. tell is called by the caller's goroutine, for each
// target once. Probe returns the cause when ctx ends before the round does; the other
// targets are not told then.
func (p *Prober) Probe(ctx context.Context, targets []nodehealth.Target, tell func(node string, v judge.Verdict, why string)) error {
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
		select {
		case got := <-r.known:
			if got.verdict != "" {
				answered++
			}
			tell(got.node, orUnknown(got.verdict), got.why)
		case <-ctx.Done():
			return fmt.Errorf("probe %d nodes: %w", len(targets), context.Cause(ctx))
		}
	}
	if answered < len(targets) {
		p.turn.Add(uint64(answered))
	}
	return nil
}

// orUnknown: a target whose turn did not come has no verdict.
func orUnknown(v judge.Verdict) judge.Verdict {
	if v == "" {
		return judge.Unknown
	}
	return v
}

// work tries targets until all are known.
func (r *round) work() {
	var scratch bytes.Buffer
	for j := range r.jobs {
		r.try(j, &scratch)
	}
}

func (r *round) try(j *job, scratch *bytes.Buffer) {
	limit := *r.prober.config.Options.PollRetryLimit
	late := result{why: fmt.Sprintf("the round was over after %d of %d attempts", j.tried, limit)}
	if !r.wait(j.due) {
		r.tell(j, late)
		return
	}
	j.last = r.prober.look(r.ctx, j, scratch)
	if r.over() && !j.last.kind.answered() {
		r.tell(j, late)
		return
	}
	j.tried++
	if j.last.kind.final() || j.tried >= limit {
		verdict, why := r.prober.judge(j)
		r.tell(j, result{verdict: verdict, why: why})
		return
	}
	j.due = time.Now().Add(time.Duration(*r.prober.config.Options.PollRetryInterval))
	r.jobs <- j // has room: it was taken out
}

// wait reports whether that moment came before the round's end.
func (r *round) wait(due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-r.ctx.Done():
		return false
	case <-timer.C:
		return !r.over()
	}
}

// over reports whether the round has ended. A connection may notice its deadline before
// the context does.
func (r *round) over() bool {
	deadline, _ := r.ctx.Deadline()
	return r.ctx.Err() != nil || !time.Now().Before(deadline)
}

// tell ends a target. The last one ends the round.
func (r *round) tell(j *job, got result) {
	got.node = j.target.Node
	r.known <- got // has room for each
	if r.open.Add(-1) == 0 {
		close(r.jobs)
	}
}
