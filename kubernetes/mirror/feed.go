package mirror

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/kubernetes/objects"
)

const (
	firstPause = 200 * time.Millisecond // before the second attempt
	maxDelay   = time.Minute            // that the API server may request
	pageSize   = 500                    // objects in a page of a list
	leastWatch = time.Second            // a watch that ends earlier without an event has failed
	watchTime  = 5 * time.Minute        // after it, and up to twice of it, the API server ends a watch
)

var (
	errOld    = errors.New("the API server sends no end of the first list in a watch: pages are listed")
	errCut    = errors.New("the watch ended in the middle of the first list")
	errShort  = errors.New("the watch ended at once, without an event")
	errSilent = errors.New("the API server sends nothing")
)

// kind has what differs between nodes and pods.
type kind struct {
	resource, fields string // and the field selector
	// put returns the change for an object, and its uid. gone: the object counts no more.
	put func(now time.Time, o runtime.Object) (change func(c *core.Cluster), uid string)
	// remove returns the change for an object that was deleted.
	remove func(o runtime.Object) func(c *core.Cluster)
	// keep removes all objects but those with these uids.
	keep func(c *core.Cluster, uids map[string]bool)
	// optional: without it, only questions where pods fit have less knowledge.
	optional bool
}

func kinds() []kind {
	return []kind{
		{resource: kube.Nodes, put: putNode, remove: removeNode, keep: (*core.Cluster).KeepNodes},
		{resource: kube.Pods, fields: "status.phase!=Succeeded,status.phase!=Failed", put: putPod, remove: removePod, keep: (*core.Cluster).KeepPods},
		{resource: kube.Budgets, put: putBudget, remove: removeBudget, keep: (*core.Cluster).KeepBudgets, optional: true},
		{resource: kube.Volumes, put: putVolume, remove: removeVolume, keep: (*core.Cluster).KeepVolumes, optional: true},
	}
}

func putBudget(_ time.Time, o runtime.Object) (change func(c *core.Cluster), uid string) {
	b, is := o.(*policyv1.PodDisruptionBudget)
	if !is {
		return nil, ""
	}
	trimmed := objects.Budget(b)
	return func(c *core.Cluster) { c.PutBudget(trimmed) }, trimmed.UID
}

func removeBudget(o runtime.Object) func(c *core.Cluster) {
	b, is := o.(*policyv1.PodDisruptionBudget)
	if !is {
		return nil
	}
	return func(c *core.Cluster) { c.DeleteBudget(string(b.UID)) }
}

func putVolume(_ time.Time, o runtime.Object) (change func(c *core.Cluster), uid string) {
	v, is := o.(*corev1.PersistentVolume)
	if !is {
		return nil, ""
	}
	trimmed, bound := objects.Volume(v)
	if !bound {
		return func(c *core.Cluster) { c.DeleteVolume(trimmed.UID) }, trimmed.UID
	}
	return func(c *core.Cluster) { c.PutVolume(trimmed) }, trimmed.UID
}

func removeVolume(o runtime.Object) func(c *core.Cluster) {
	v, is := o.(*corev1.PersistentVolume)
	if !is {
		return nil
	}
	return func(c *core.Cluster) { c.DeleteVolume(string(v.UID)) }
}

func putNode(_ time.Time, o runtime.Object) (change func(c *core.Cluster), uid string) {
	n, is := o.(*corev1.Node)
	if !is {
		return nil, ""
	}
	trimmed := objects.Node(n)
	return func(c *core.Cluster) { c.PutNode(trimmed) }, trimmed.UID
}

func removeNode(o runtime.Object) func(c *core.Cluster) {
	n, is := o.(*corev1.Node)
	if !is {
		return nil
	}
	return func(c *core.Cluster) { c.DeleteNode(n.Name, string(n.UID)) }
}

func putPod(now time.Time, o runtime.Object) (change func(c *core.Cluster), uid string) {
	p, is := o.(*corev1.Pod)
	if !is {
		return nil, ""
	}
	trimmed, finished := objects.Pod(p)
	if finished {
		return func(c *core.Cluster) { c.DeletePod(trimmed.UID) }, trimmed.UID
	}
	return func(c *core.Cluster) { c.PutPod(now, trimmed) }, trimmed.UID
}

func removePod(o runtime.Object) func(c *core.Cluster) {
	p, is := o.(*corev1.Pod)
	if !is {
		return nil
	}
	return func(c *core.Cluster) { c.DeletePod(string(p.UID)) }
}

// feed follows one resource.
type feed struct {
	m       *Mirror
	kind    kind
	version string          // the next watch begins after it; empty: all objects are listed first
	listed  map[string]bool // uids of the objects of the list; nil: no list is under way
	paged   bool            // the API server has no initial events in watches: pages are listed
	logs    rate.Sometimes

	// Guarded by m.mu:
	synced bool
	last   time.Time // of the latest contact
	err    error     // why the latest attempt ended; nil while the watch is open
	counts Counts
}

func (f *feed) run(ctx context.Context) {
	f.logs.Interval = 30 * time.Second
	pauses := retry.Policy{First: firstPause, Longest: f.m.cfg.Pause}.Pauses()
	for ctx.Err() == nil {
		began := time.Now()
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil || time.Since(began) > 2*f.m.cfg.Pause {
			pauses.Reset()
		}
		if err == nil {
			continue
		}
		f.failed(err)
		pause := min(pauses.NextBackOff(), f.m.cfg.Pause)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			pause = max(pause, min(time.Duration(seconds)*time.Second, maxDelay))
		}
		if !retry.Pause(ctx, pause) {
			return
		}
	}
}

// failed records why an attempt ended: the mirror is not fresh until the next one has succeeded.
func (f *feed) failed(err error) {
	if kube.Refused(err) {
		err = fmt.Errorf("%s: %w", kube.Needs("list and watch of "+f.kind.resource), err)
	}
	err = fmt.Errorf("watch %s: %w", f.kind.resource, err)
	f.m.apply(func() {
		f.err = err
		f.counts.Errors++
	})
	f.logs.Do(func() { f.m.cfg.Log.Warn("watch failed", "resource", f.kind.resource, "err", err) })
}

// follow opens one watch and receives its events until it ends. nil: it ended as usual, and the next one continues.
func (f *feed) follow(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	watchdog := time.AfterFunc(f.m.cfg.Listing, func() { end(errSilent) })
	defer watchdog.Stop()
	first := f.version == ""
	o := metav1.ListOptions{
		AllowWatchBookmarks: true, FieldSelector: f.kind.fields, ResourceVersion: f.version,
		TimeoutSeconds: new(int64(watchTime.Seconds() * (1 + rand.Float64()))),
	}
	if first {
		o.SendInitialEvents, o.ResourceVersionMatch = new(true), metav1.ResourceVersionMatchNotOlderThan
		f.begin()
	}
	if first && f.paged {
		return f.list(ctx, watchdog)
	}
	w, err := f.m.source.Watch(ctx, f.kind.resource, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case first && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)): // an API server without initial events in a watch
		return f.list(ctx, watchdog)
	case err != nil:
		f.forgetVersion(err)
		return err
	}
	defer w.Stop()
	if first { // a server that ignores the request for initial events sends them, and not their end
		err := f.receive(ctx, w, watchdog)
		f.paged = errors.Is(err, errSilent) && f.listed != nil || errors.Is(err, errOld)
		return err
	}
	f.alive(false)
	watchdog.Reset(f.m.cfg.Stale)
	return f.receive(ctx, w, watchdog)
}

// begin starts a list.
func (f *feed) begin() {
	f.listed = map[string]bool{}
	f.m.apply(func() {
		f.counts.Lists++
		if f.synced && f.err == nil {
			f.err = fmt.Errorf("%s are listed again", f.kind.resource)
		}
	})
}

// alive records a contact. event: it was an event.
func (f *feed) alive(event bool) {
	f.m.apply(func() { f.aliveLocked(event) })
}

func (f *feed) aliveLocked(event bool) {
	f.last = time.Now()
	if event {
		f.counts.Events++
	}
	if f.listed == nil {
		f.err = nil
	}
}

// finish ends a list: objects that it did not have are gone.
func (f *feed) finish(version string) {
	f.m.apply(func() {
		f.kind.keep(f.m.cluster, f.listed)
		f.listed, f.synced, f.version = nil, true, version
		f.aliveLocked(true)
	})
}

// forgetVersion makes the next attempt list all objects, if the error is that the version has expired or is unknown.
func (f *feed) forgetVersion(err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTimeout(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		f.version = ""
	}
}

// receive applies the events of a watch.
func (f *feed) receive(ctx context.Context, w watch.Interface, watchdog *time.Timer) error {
	began, events := time.Now(), 0
	for e := range w.ResultChan() {
		events++
		if e.Type == watch.Error && ctx.Err() != nil { // the client reports the end of its connection so
			return context.Cause(ctx)
		}
		if e.Type == watch.Error {
			err := apierrors.FromObject(e.Object)
			if !apierrors.IsTooManyRequests(err) {
				f.version = "" // the object that cannot be read would come again
			}
			return err
		}
		if err := f.event(e); err != nil {
			return err
		}
		if f.listed == nil {
			watchdog.Reset(f.m.cfg.Stale)
		} else {
			watchdog.Reset(f.m.cfg.Listing)
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case f.listed != nil:
		return errCut
	case events == 0 && time.Since(began) < leastWatch:
		return errShort
	}
	return nil
}

// event applies one event.
func (f *feed) event(e watch.Event) error {
	m, err := meta.Accessor(e.Object)
	if err != nil {
		f.version = ""
		return fmt.Errorf("event %s: %w", e.Type, err)
	}
	switch e.Type {
	case watch.Bookmark:
		if f.listed != nil {
			if m.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
				return errOld
			}
			f.finish(m.GetResourceVersion())
			return nil
		}
		f.alive(true)
	case watch.Deleted:
		delete(f.listed, string(m.GetUID()))
		f.change(f.kind.remove(e.Object))
	default:
		f.put(e.Object)
	}
	if f.listed == nil {
		f.version = m.GetResourceVersion()
	}
	return nil
}

// put applies an object.
func (f *feed) put(o runtime.Object) {
	change, uid := f.kind.put(time.Now(), o)
	if f.listed != nil {
		f.listed[uid] = true
	}
	f.change(change)
}

// change applies a change; nil: the object is of another kind.
func (f *feed) change(change func(c *core.Cluster)) {
	f.m.apply(func() {
		if change != nil {
			change(f.m.cluster)
		}
		f.aliveLocked(true)
	})
}

// list receives all objects in pages, each of which is dropped before the next.
func (f *feed) list(ctx context.Context, watchdog *time.Timer) error {
	o := metav1.ListOptions{FieldSelector: f.kind.fields, Limit: pageSize}
	for {
		page, err := f.m.source.List(ctx, f.kind.resource, o)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		watchdog.Reset(f.m.cfg.Listing)
		if err := meta.EachListItem(page, func(o runtime.Object) error { f.put(o); return nil }); err != nil {
			return err
		}
		m, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		if o.Continue = m.GetContinue(); o.Continue == "" {
			f.finish(m.GetResourceVersion())
			return nil
		}
	}
}
