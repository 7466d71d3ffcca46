package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

const (
	probeEvery   = 100 * time.Millisecond
	probeTimeout = 2 * time.Second // of one act, as the daemons have
)

// busProbe repeats one kind of act on the bus and keeps when it succeeded.
type busProbe struct {
	name string

	mu   sync.Mutex
	done []time.Time
	last error
}

// succeeded reports an act. An error is kept for the table.
func (p *busProbe) succeeded(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last = err; err == nil {
		p.done = append(p.done, time.Now())
	}
}

// gap returns the longest time without a success from began to now.
func (p *busProbe) gap(began time.Time) (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := began
	for _, at := range p.done {
		if at.After(began) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return max(longest, time.Since(last))
}

// count returns how often the act succeeded after a time.
func (p *busProbe) count(since time.Time) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.done {
		if at.After(since) {
			n++
		}
	}
	return n
}

// problem returns the last error.
func (p *busProbe) problem() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// busProbes are all probes of one place, near the server that fails or far from it.
type busProbes struct {
	place                         string
	write, cas, read, watch, core *busProbe
	// unknown are compare-and-set writes without an answer, applied those of them that were applied. stale are writes over
	// an old value, which were refused. wrong are values without a writer.
	unknown, applied, stale, wrong int
	mu                             sync.Mutex // guards the numbers
}

func (p *busProbes) all() []*busProbe {
	return []*busProbe{p.write, p.cas, p.read, p.watch, p.core}
}

// probe starts all probes over a connection to the first of these servers. They end with ctx, before the wait group.
func (w *busWorld) probe(ctx context.Context, wg *sync.WaitGroup, place string, servers ...string) *busProbes {
	w.Helper()
	u := roles.User{Role: roles.Pool, Cluster: busCluster, Pool: busProbePool}
	b := w.open(u, servers...)
	p := &busProbes{place: place}
	for name, to := range map[string]**busProbe{"write": &p.write, "compare-and-set": &p.cas, "read": &p.read, "watch": &p.watch, "core": &p.core} {
		*to = &busProbe{name: name + " " + place}
	}
	kv := kvbucket.New(b.JetStream(), names.PoolBucket(busCluster, busProbePool))
	key := "trial." + place
	w.overlap(ctx, wg, p.write, func(ctx context.Context) error { _, err := kv.Put(ctx, key+"-put", []byte("x")); return err })
	w.repeat(ctx, wg, p.read, func(ctx context.Context) error {
		e, err := kv.Direct(ctx, key+"-put")
		if err == nil && !e.Found {
			err = errors.New("no value")
		}
		return err
	})
	counter := &casCounter{kv: kv, key: key + "-cas", probes: p, unsure: true}
	w.repeat(ctx, wg, p.cas, counter.next)
	subject := names.Subject(busCluster, "health", busProbePool, "loopback")
	bustest.Subscribe(w, b.Conn(), subject, func(m *nats.Msg) {
		if string(m.Data) == place {
			p.core.succeeded(nil)
		}
	})
	unheard := &busProbe{}
	w.repeat(ctx, wg, unheard, func(context.Context) error { return b.Conn().Publish(subject, []byte(place)) })
	wg.Go(func() { p.watching(ctx, b, key+"-put") })
	return p
}

// overlap starts an act in each interval until ctx ends, also while earlier ones wait for their answers.
func (w *busWorld) overlap(ctx context.Context, wg *sync.WaitGroup, p *busProbe, act func(context.Context) error) {
	w.repeat(ctx, wg, &busProbe{}, func(context.Context) error {
		wg.Go(func() {
			one, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			if err := act(one); ctx.Err() == nil {
				p.succeeded(err)
			}
		})
		return nil
	})
}

// repeat repeats an act until ctx ends.
func (w *busWorld) repeat(ctx context.Context, wg *sync.WaitGroup, p *busProbe, act func(context.Context) error) {
	wg.Go(func() {
		again := time.NewTicker(probeEvery)
		defer again.Stop()
		for {
			one, cancel := context.WithTimeout(ctx, probeTimeout)
			err := act(one)
			cancel()
			if ctx.Err() != nil {
				return
			}
			p.succeeded(err)
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// watching follows a key. It watches again if the watch ends.
func (p *busProbes) watching(ctx context.Context, b *bus.Bus, key string) {
	for ctx.Err() == nil {
		err := p.watchOnce(ctx, b, key)
		p.watch.mu.Lock()
		p.watch.last = err
		p.watch.mu.Unlock()
		pause := time.NewTimer(probeEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// watchOnce reads changes as the harmonizer reads those of its rows: by batches from the last sequence number on, until one fails.
func (p *busProbes) watchOnce(ctx context.Context, b *bus.Bus, key string) error {
	bucket := names.PoolBucket(busCluster, busProbePool)
	first, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	e, err := kvbucket.New(b.JetStream(), bucket).Direct(first, key)
	if err != nil {
		return err
	}
	next, again := e.Revision+1, time.NewTicker(probeEvery)
	defer again.Stop()
	for {
		reading, cancel := context.WithTimeout(ctx, probeTimeout)
		messages, _, err := streams.Batch(reading, b.JetStream(), kvbucket.Stream(bucket), streams.Request{Sequence: next, Subject: "$KV." + bucket + "." + key, Count: 500})
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, m := range messages {
			next = m.Sequence + 1
			p.watch.succeeded(nil)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// casCounter writes 1, 2, 3 and so on over one key. A write without an answer is unknown: it reads the key again before
// the next write. So the key never has a number that was not written, and no number is written twice.
type casCounter struct {
	kv       *kvbucket.Bucket
	key      string
	probes   *busProbes
	number   int
	revision uint64
	unsure   bool
	// tried is the highest number that was written or may be stored; known only after the first success, because a read
	// may return an old value.
	tried int
	begun bool
}

func (c *casCounter) next(ctx context.Context) error {
	if c.unsure {
		if err := c.settle(ctx); err != nil {
			return err
		}
	}
	c.tried = max(c.tried, c.number+1)
	revision, err := c.kv.Update(ctx, c.key, fmt.Append(nil, c.number+1), c.revision)
	switch {
	case err == nil:
		c.number, c.revision, c.begun = c.number+1, revision, true
		return nil
	case errors.Is(err, kvbucket.ErrMissing): // the store came back empty
		c.unsure = true
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch): // the value that was read was an older one
		c.unsure = true
		c.count(&c.probes.stale)
	case errors.Is(err, kvbucket.ErrUnknown):
		c.unsure = true
		c.count(&c.probes.unknown)
	}
	return err
}

// settle reads what became of a write without an answer.
func (c *casCounter) settle(ctx context.Context) error {
	e, err := c.kv.Get(ctx, c.key)
	if err != nil {
		return err
	}
	var stored int
	if e.Found {
		if _, err := fmt.Sscan(string(e.Value), &stored); err != nil {
			return err
		}
	}
	switch {
	case !c.begun:
		c.tried = max(c.tried, stored)
	case stored > c.tried:
		c.count(&c.probes.wrong)
	case stored == c.number+1:
		c.count(&c.probes.applied)
	}
	c.number, c.revision, c.unsure = stored, e.Revision, false
	return nil
}

func (c *casCounter) count(n *int) {
	c.probes.mu.Lock()
	defer c.probes.mu.Unlock()
	*n++
}

// leaseProbe follows the lease of the pool.
type leaseProbe struct {
	busProbe
	revision uint64
	changes  []string // of the epoch
}

// follow reads the lease. Each new revision is a renewal.
func (l *leaseProbe) follow(kv *kvbucket.Bucket) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := kv.Direct(ctx, "lease")
		if err != nil {
			return err
		}
		l.mu.Lock()
		same := e.Revision == l.revision
		l.revision = e.Revision
		if _, epoch, ok := strings.Cut(string(e.Value), `"epoch":`); ok {
			epoch, _, _ = strings.Cut(epoch, ",")
			if !slices.Contains(l.changes, epoch) {
				l.changes = append(l.changes, epoch)
			}
		}
		l.mu.Unlock()
		if same {
			return errNotRenewed
		}
		return nil
	}
}

// epochs returns the epochs of the lease, in order.
func (l *leaseProbe) epochs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.changes)
}

var errNotRenewed = errors.New("the lease is not renewed")
