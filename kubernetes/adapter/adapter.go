// Package adapter is the scheduler of Weirkeeper's pools that run Kubernetes: it speaks the scheduler protocol for the nodes
// of one cluster of Kubernetes.
//
// [New] takes the API server and a connection for each pool, and Adapter.Run follows the one and serves the others until its context ends. It
// publishes the facts and heartbeats of all nodes in each period, and those of a changed node at once. It answers which pods wait and
// where pods fit, cordons nodes, and evicts the pods of cordoned ones under their disruption budgets.
//
// While the state of the nodes or the pods is not current, it publishes no facts and no heartbeats, and cordons are refused as busy: no pool shrinks
// on old knowledge. A restart loses nothing: what was cordoned, by which request, and whether the node was unschedulable before, is an annotation
// of the node. Of several adapters, the one with the lease of a pool acts for it.
//
// Adapter.Status and Adapter.Collector may be called concurrently with Run.
package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/mirror"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// API changes objects of the API server.
type API interface {
	mirror.Source
	Node(ctx context.Context, name string) (*corev1.Node, error)
	PatchNode(ctx context.Context, name string, patch []byte) error
	DeleteNode(ctx context.Context, name, uid string) error
	Evict(ctx context.Context, namespace, name, uid string, grace *int64) error
}

// Sink stores samples of metrics.
type Sink interface {
	Write(ctx context.Context, samples []metrics.Sample) error
}

// Pool is the connection of one pool.
type Pool struct {
	core.Pool
	Conn *nats.Conn
	// Lease is that of the pool; nil: no other adapter acts for it.
	Lease Lease
	Sink  Sink // nil: no metrics are written
}

// Config has the pools and the time limits.
type Config struct {
	Cluster string // of Weirkeeper
	Pools   []Pool
	// Period is the time between two heartbeats of a node. Default 10 s.
	Period time.Duration
	// Batch is the time in which changes are collected. Default 100 ms.
	Batch time.Duration
	// Grace is how long a pod waits until it counts. Default 3 s: the scheduler may still find a node.
	Grace time.Duration
	// FirstBackoff is the pause after the first refused eviction of a pod. Default 2 s.
	FirstBackoff time.Duration
	// DeleteEnded lets the adapter delete the Node object of a machine that has ended.
	DeleteEnded bool
	Mirror      mirror.Config // without pools
	Log         *slog.Logger
}

// WithDefaults returns a copy with the default of each field that is zero.
func (c Config) WithDefaults() Config {
	c.Period, c.Batch, c.Grace = cmp.Or(c.Period, liveness.DefaultPeriod), cmp.Or(c.Batch, 100*time.Millisecond), cmp.Or(c.Grace, 3*time.Second)
	return c
}

// Validate returns every problem of c.
func (c Config) Validate() error {
	var errs []error
	if c.Period < c.Batch || c.Period > liveness.MaxPeriod {
		errs = append(errs, fmt.Errorf("period is %v: want %v to %v", c.Period, c.Batch, liveness.MaxPeriod))
	}
	if c.Grace < 0 || c.Grace > time.Hour {
		errs = append(errs, fmt.Errorf("grace is %v: want 0s to 1h", c.Grace))
	}
	if len(c.Pools) == 0 {
		errs = append(errs, errors.New("pools: want at least one"))
	}
	return errors.Join(errs...)
}

// Adapter is the scheduler of the pools of one cluster of Kubernetes.
type Adapter struct {
	cfg       Config
	api       API
	mirror    *mirror.Mirror
	evictions *evictions
	rights    rights
	pools     map[string]*Pool
	counts    counts
	all       chan struct{} // requests the facts of all nodes
	unwritten rate.Sometimes
}

// counts are totals since the start.
type counts struct {
	facts, unsent, cordons, evictions, refusals atomic.Int64
	batch                                       atomic.Int64 // when the loop last ran, in Unix nanoseconds
}

// New returns an adapter that does not run yet.
func New(c Config, api API) (*Adapter, error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	a := &Adapter{cfg: c, api: api, evictions: newEvictions(c.FirstBackoff), rights: rights{missing: map[string]string{}}, pools: map[string]*Pool{}, all: make(chan struct{}, 1), unwritten: rate.Sometimes{First: 1, Interval: time.Minute}}
	c.Mirror.Pools, c.Mirror.Log = nil, c.Log
	for i := range c.Pools {
		a.pools[c.Pools[i].Name] = &c.Pools[i]
		c.Mirror.Pools = append(c.Mirror.Pools, c.Pools[i].Pool)
	}
	a.mirror = mirror.New(c.Mirror, api)
	return a, nil
}

// Run serves until ctx ends. It returns an error if it cannot subscribe, or if a connection is closed for good.
func (a *Adapter) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var wg sync.WaitGroup
	run := func(part func(context.Context) error) {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				end(err)
			}
		})
	}
	run(a.mirror.Run)
	run(a.publish)
	run(a.drain)
	run(a.writeMetrics)
	for _, p := range a.pools {
		run(func(ctx context.Context) error { return a.lead(ctx, p) })
	}
	<-ctx.Done()
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// publishAll requests the facts of all nodes.
func (a *Adapter) publishAll() {
	select {
	case a.all <- struct{}{}:
	default: // requested already
	}
}
