// Package mirror keeps a [core.Cluster] equal to the nodes, pods, disruption budgets and volumes of an API server, and reports how far it
// is up to date.
//
// [New] makes a Mirror, and Mirror.Run follows the API server: it receives all objects in a watch, then each change. Each object
// is trimmed at its receipt, so that the memory depends on what is kept. An API server without initial events in a watch is listed
// in pages.
//
// The mirror is fresh only while the watches of nodes and pods are: a node may be full, or empty, because of pods that it has not received. An error
// of a watch ends its freshness at once, and so does a time without an event or bookmark. Bookmarks come about once a minute.
//
// All methods may be called concurrently.
package mirror

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirkeeper/weirkeeper/kubernetes/core"
)

// Source is the API server.
type Source interface {
	// List returns one page of a resource.
	List(ctx context.Context, resource string, o metav1.ListOptions) (runtime.Object, error)
	// Watch opens a watch of a resource.
	Watch(ctx context.Context, resource string, o metav1.ListOptions) (watch.Interface, error)
}

// Config has the pools and the time limits.
type Config struct {
	Pools []core.Pool
	// Stale is how long a watch may be silent. Default 150 s: two bookmarks and a half.
	Stale time.Duration
	// Listing is how long the first list may be silent. Default 1 min.
	Listing time.Duration
	// Pause is the longest one before the next attempt. Default 5 s.
	Pause time.Duration
	Log   *slog.Logger
}

// Mirror follows one API server.
type Mirror struct {
	cfg     Config
	source  Source
	changed chan struct{}
	feeds   []*feed

	mu      sync.Mutex
	cluster *core.Cluster
}

// New returns a mirror that has received nothing.
func New(c Config, source Source) *Mirror {
	c.Stale, c.Listing, c.Pause = cmp.Or(c.Stale, 150*time.Second), cmp.Or(c.Listing, time.Minute), cmp.Or(c.Pause, 5*time.Second)
	m := &Mirror{cfg: c, source: source, changed: make(chan struct{}, 1), cluster: core.New(c.Pools)}
	for _, k := range kinds() {
		m.feeds = append(m.feeds, &feed{m: m, kind: k, counts: Counts{Resource: k.resource}})
	}
	return m
}

// Run follows the API server until ctx ends.
func (m *Mirror) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, f := range m.feeds {
		wg.Go(func() { f.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Changed receives after changes of the cluster and of the state: at least once after the last one.
func (m *Mirror) Changed() <-chan struct{} { return m.changed }

// Read calls read with the cluster. No change is received meanwhile. read must not keep the cluster.
func (m *Mirror) Read(read func(c *core.Cluster)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	read(m.cluster)
}

// State is how far a mirror is up to date.
type State struct {
	Fresh bool
	AsOf  time.Time // of the last event or bookmark, of the watch with the earlier one; zero: nothing was received
	Why   string    // why it is not fresh
}

// State returns the state at this time.
func (m *Mirror) State(now time.Time) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{Fresh: true}
	for i, f := range m.feeds {
		if f.kind.optional {
			continue
		}
		if i == 0 || f.last.Before(s.AsOf) {
			s.AsOf = f.last
		}
		if why := f.whyNotLocked(now); why != "" && s.Fresh {
			s.Fresh, s.Why = false, why
		}
	}
	return s
}

// Unknown returns why one of the resources is not up to date; empty if it is.
func (m *Mirror) Unknown(resource string, now time.Time) (why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.feeds {
		if f.kind.resource == resource {
			why = f.whyNotLocked(now)
		}
	}
	return why
}

// Counts are what one watch has received.
type Counts struct {
	Resource              string
	Events, Lists, Errors int
}

// Counts returns those of each watch.
func (m *Mirror) Counts() (all []Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.feeds {
		all = append(all, f.counts)
	}
	return all
}

// apply changes the cluster or a feed, and signals it.
func (m *Mirror) apply(change func()) {
	m.mu.Lock()
	change()
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// whyNotLocked returns why a feed is not up to date; empty if it is.
func (f *feed) whyNotLocked(now time.Time) string {
	switch age := now.Sub(f.last); {
	case f.err != nil:
		return f.err.Error()
	case !f.synced:
		return f.kind.resource + " are not listed yet"
	case age > f.m.cfg.Stale:
		return fmt.Sprintf("watch %s: no event or bookmark for %v", f.kind.resource, age.Round(time.Second))
	}
	return ""
}
