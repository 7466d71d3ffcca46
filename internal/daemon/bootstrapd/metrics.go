package bootstrapd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
)

// defaultSignal is the label of the default signal. It is not the name of an app.
const defaultSignal = "(default)"

// fetchResult is the result of fetching a release, as a label.
type fetchResult string

const (
	fetchOK          fetchResult = "ok"
	fetchRejected    fetchResult = "rejected" // another try has the same result
	fetchDenied      fetchResult = "denied"
	fetchUnavailable fetchResult = "unavailable"
	fetchNoSpace     fetchResult = "no_space"
	fetchFailed      fetchResult = "failed"
)

// resultOf returns the result of a fetch with that error.
func resultOf(err error) fetchResult {
	is := func(of ...error) bool {
		return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
	}
	switch {
	case err == nil:
		return fetchOK
	case is(release.ErrNotFound, release.ErrCorrupt, release.ErrUnsafe, release.ErrUnsigned, release.ErrUntrusted,
		release.ErrBadSignature, release.ErrYanked, release.ErrChanged):
		return fetchRejected
	case is(release.ErrDenied, release.ErrNoBucket):
		return fetchDenied
	case is(release.ErrUnavailable):
		return fetchUnavailable
	case is(release.ErrNoSpace):
		return fetchNoSpace
	}
	return fetchFailed
}

// fetches counts the results of fetching releases. The zero value is empty. It is safe for concurrent use.
type fetches struct {
	mu       sync.Mutex
	results  map[fetchResult]float64
	rejected map[release.Ref]bool // for each pinned release: whether its last fetch was rejected
}

// countFetch counts a fetch. A fetch that was cancelled does not count.
func (f *fetches) countFetch(ctx context.Context, ref release.Ref, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	result := resultOf(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.results == nil {
		f.results = map[fetchResult]float64{}
	}
	f.results[result]++
	if _, pinned := f.rejected[ref]; pinned {
		f.rejected[ref] = result == fetchRejected
	}
}

// pin sets the pinned releases. Fetches of other releases are not among the rejected ones.
func (f *fetches) pin(refs []release.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.rejected
	f.rejected = make(map[release.Ref]bool, len(refs))
	for _, ref := range refs {
		f.rejected[ref] = before[ref]
	}
}

// rejectionsLocked returns how many pinned releases are rejected.
func (f *fetches) rejectionsLocked() (n float64) {
	for _, rejected := range f.rejected {
		n += flag(rejected)
	}
	return n
}

// collector implements prometheus.Collector with the metrics of a bootstrap.
type collector struct {
	*metric.Set
	status  func() api.BootstrapStatus
	fetches *fetches
}

func newCollector(status func() api.BootstrapStatus, f *fetches) *collector {
	return &collector{metric.NewSet(metric.BootstrapPrefix, metric.Bootstrap()), status, f}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.status()
	c.Flag(ch, "configuration_rejected", s.Refused != "")
	c.Flag(ch, "autoscaler_running", s.Autoscaler.State == supervise.Running.String())
	c.Emit(ch, "autoscaler_restarts_total", float64(s.Autoscaler.Restarts))
	if s.Autoscaler.Alive != nil {
		c.Flag(ch, "autoscaler_overdue", s.Autoscaler.Alive.Overdue)
	}
	running, restarts, yanked := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, p := range s.Signals {
		app := cmp.Or(p.App, defaultSignal)
		running[app], yanked[app] = flag(p.State == supervise.Running.String()), flag(p.Yanked != "")
		restarts[app] = restartsOf(p)
	}
	c.each(ch, "signal_running", running)
	c.each(ch, "signal_restarts_total", restarts)
	c.each(ch, "signal_yanked", yanked)
	c.fetches.mu.Lock()
	defer c.fetches.mu.Unlock()
	for _, result := range []fetchResult{fetchOK, fetchRejected, fetchDenied, fetchUnavailable, fetchNoSpace, fetchFailed} {
		c.Emit(ch, "release_fetches_total", c.fetches.results[result], string(result))
	}
	c.Emit(ch, "releases_rejected", c.fetches.rejectionsLocked())
}

// restartsOf returns the restarts of a signal, with those of its candidate.
func restartsOf(p api.Process) float64 {
	n := float64(p.Restarts)
	if p.Candidate != nil {
		n += float64(p.Candidate.Restarts)
	}
	return n
}

// each sends the values of a bounded number of apps.
func (c *collector) each(ch chan<- prometheus.Metric, name string, values map[string]float64) {
	sum := func(a, b float64) float64 { return a + b }
	for app, value := range metric.Groups(values, func(app string) string { return app }, sum) {
		c.Emit(ch, name, value, app)
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
