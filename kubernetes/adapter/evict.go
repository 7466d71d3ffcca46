package adapter

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
)

const (
	parallelEvictions = 8
	evictTimeout      = 10 * time.Second
	firstBackoff      = 2 * time.Second
	longestBackoff    = time.Minute
	// endMargin is how long before the end of a machine its pods have ended.
	endMargin = 5 * time.Second
	// A spot machine ends between lateNotice before and longestNotice after its cordon is received. Another time is that of a wrong
	// clock, and then usualNotice counts: that of AWS.
	lateNotice    = 30 * time.Second
	usualNotice   = 2 * time.Minute
	longestNotice = 30 * time.Minute
	// deletionMargin is how much longer than its grace period a deleted pod may take.
	deletionMargin = 10 * time.Second
	// repeatAfter is when an accepted eviction is sent again if the pod still runs without a deletion.
	repeatAfter = 30 * time.Second
)

// evictions are the pods of nodes that Weirkeeper has cordoned. It may be used concurrently.
type evictions struct {
	first time.Duration // of the pauses after a refusal

	mu   sync.Mutex
	pods map[string]*evicted // by uid
}

// evicted is the state of one pod.
type evicted struct {
	core.Task
	node     string
	underWay bool
	ending   time.Time     // when it was first received as deleted
	next     time.Time     // when it may be sent again
	pause    time.Duration // after the next refusal
	why      string        // of the latest refusal
	since    time.Time     // of the first one in a row
	sent     int           // accepted evictions
}

func newEvictions(first time.Duration) *evictions {
	return &evictions{first: cmp.Or(first, firstBackoff), pods: map[string]*evicted{}}
}

// eviction is one that is sent.
type eviction struct {
	core.Task
	node string
	pod  *evicted
}

// due records the tasks of the cordoned nodes, and returns the evictions that are due, at most so many as may be under way. Tasks that
// are gone, or on nodes that are not cordoned any more, are dropped.
func (e *evictions) due(now time.Time, tasks map[string][]core.Task) (send []eviction) {
	e.mu.Lock()
	defer e.mu.Unlock()
	current := map[string]bool{}
	for _, node := range slices.Sorted(maps.Keys(tasks)) {
		for _, t := range tasks[node] {
			current[t.UID] = true
			if e.pods[t.UID] == nil {
				e.pods[t.UID] = &evicted{pause: e.first}
			}
			p := e.pods[t.UID]
			p.Task, p.node = t, node
			p.takeDeletion(now)
		}
	}
	free := parallelEvictions
	var list []*evicted
	for uid, p := range e.pods {
		switch {
		case p.underWay:
			free--
		case !current[uid]:
			delete(e.pods, uid)
		case !p.Deleting && !now.Before(p.next):
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *evicted) int {
		return cmp.Or(cmp.Compare(endOf(a.Task), endOf(b.Task)), a.next.Compare(b.next), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
	})
	for _, p := range list[:min(len(list), max(free, 0))] {
		p.underWay = true
		send = append(send, eviction{p.Task, p.node, p})
	}
	return send
}

// takeDeletion records since when a pod is deleted. One that does not end within its grace period blocks the drain.
func (p *evicted) takeDeletion(now time.Time) {
	if !p.Deleting {
		return
	}
	if p.ending.IsZero() {
		p.ending = now
	}
	if now.Sub(p.ending) > time.Duration(p.Grace)*time.Second+deletionMargin {
		p.why, p.since = "it is deleted and does not end: a finalizer or the kubelet of its node holds it", p.ending
	}
}

// endOf returns the end of a task's machine, for the order of evictions: machines with an end come first.
func endOf(t core.Task) int64 {
	if t.Ends == 0 {
		return math.MaxInt64
	}
	return t.Ends
}

// endOfSpot returns when a spot machine ends, by the local clock: by the given time, as far as that is possible.
func endOfSpot(now, given time.Time) time.Time {
	if left := given.Sub(now); left < -lateNotice || left > longestNotice {
		return now.Add(usualNotice)
	}
	return given
}

// graceOf returns how long an evicted task has to end, in seconds: less than its own grace period if its machine ends before. nil: its own.
func graceOf(now time.Time, t core.Task) *int64 {
	left := endOfSpot(now, time.Unix(t.Ends, 0)).Unix() - now.Add(endMargin).Unix()
	if t.Ends == 0 || left >= int64(t.Grace) {
		return nil
	}
	return new(max(left, 1))
}

// ended records the result of an eviction, and reports whether the text for people changed.
func (e *evictions) ended(now time.Time, one eviction, err error) (changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := one.pod
	was := p.why
	p.underWay = false
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // done; or another pod has this name now
		p.next, p.pause, p.why, p.sent = now.Add(repeatAfter), e.first, "", p.sent+1
		if p.sent > 2 {
			p.why, p.since = "its eviction was accepted, and it still runs", now
		}
		return was != p.why
	}
	pause := p.pause
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, min(time.Duration(seconds)*time.Second, longestBackoff))
	}
	if p.why == "" {
		p.since = now
	}
	p.next, p.pause, p.why = now.Add(pause), min(2*p.pause, longestBackoff), wire.Clip(err.Error())
	return was != p.why
}

// blocked returns the pods of a node whose eviction is refused, the longest first.
func (e *evictions) blocked(node string) (list []api.BlockedTask) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.pods {
		if p.node == node && p.why != "" {
			list = append(list, api.BlockedTask{Task: p.Namespace + "/" + p.Name, Why: p.why, Since: p.since})
		}
	}
	slices.SortFunc(list, func(a, b api.BlockedTask) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Task, b.Task))
	})
	return list
}

// drain evicts the tasks of cordoned nodes until ctx ends.
func (a *Adapter) drain(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(a.cfg.Batch)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := time.Now()
		if !a.mirror.State(now).Fresh {
			continue
		}
		tasks := map[string][]core.Task{}
		a.mirror.Read(func(c *core.Cluster) {
			for _, node := range c.Draining(a.leads) {
				tasks[node] = c.Tasks(node)
			}
		})
		for _, one := range a.evictions.due(now, tasks) {
			wg.Go(func() { a.evict(ctx, one) })
		}
	}
}

// evict sends one eviction.
func (a *Adapter) evict(ctx context.Context, one eviction) {
	ctx, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	err := a.rights.result(rightEvict, "no pod is evicted, so no drain ends", a.api.Evict(ctx, one.Namespace, one.Name, one.UID, graceOf(time.Now(), one.Task)))
	if a.evictions.ended(time.Now(), one, err) {
		a.mirror.Read(func(c *core.Cluster) { c.Touch(one.node) })
		if err != nil {
			a.cfg.Log.Warn("eviction refused", "pod", one.Namespace+"/"+one.Name, "node", one.node, "err", err)
		}
	}
	a.counts.evictions.Add(1)
	if err != nil {
		a.counts.refusals.Add(1)
	}
}
