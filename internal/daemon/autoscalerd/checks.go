package autoscalerd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// pulsing is a directory that also counts the signs of life of its reader.
type pulsing struct {
	ask.Directory
	pulse *admin.Pulse
}

// Report implements ask.Directory.
func (p pulsing) Report(r ask.Report) { p.pulse.Beat(); p.Directory.Report(r) }

// Alive implements ask.Directory.
func (p pulsing) Alive() { p.pulse.Beat(); p.Directory.Alive() }

// tickReport is what the admin server reports of a tick.
type tickReport struct {
	at       time.Time     // end, with a monotonic reading
	every    time.Duration // the longer one of interval and duration
	failed   string        // why the tick ended early, or is not in the ledger
	degraded []string      // apps whose own signal has no current answer, with the reason
}

// ticked stores the report of a tick.
func (t *terms) ticked(r api.TickRecord, lost error) {
	report := &tickReport{at: time.Now(), every: max(r.Every, r.Took), failed: r.Failed}
	if lost != nil {
		report.failed = "the record is not in the ledger: " + lost.Error()
	}
	if r.Detail != nil {
		for _, app := range r.Detail.Apps {
			if app.Fallback {
				report.degraded = append(report.degraded, fmt.Sprintf("app %s is served by %s: %s", app.App, explain.Source(app.Source), app.Why))
			}
		}
	}
	t.tick.Store(report)
	t.scaling.ticked(r, lost)
}

// currentLease returns the lease of the current term; nil before the first.
func (t *terms) currentLease() admin.StandbyLease {
	if l := t.lease.Load(); l != nil {
		return l
	}
	return nil
}

// checks returns the checks of readiness, without the disk.
func (t *terms) checks() []admin.Check {
	lease := admin.Lease(t.currentLease)
	if t.settings.dryRun {
		lease.Read = func(context.Context) admin.Result {
			return admin.Result{State: admin.OK, Detail: "a dry run needs no lease"}
		}
	}
	began, tick := time.Now(), t.settings.config().Tick
	return []admin.Check{
		admin.Bus(t.bus), admin.Clock(t.bus.Conn(), t.log),
		admin.Stored(t.bus, names.PoolBucket(t.settings.pool.Cluster, t.settings.pool.Name)),
		t.pulse.Check("loop", liveness.HungAfter(tick)),
		lease,
		admin.NodeSenders(t.parts.nodes.Losers),
		{Name: "tick", Read: func(ctx context.Context) admin.Result { return t.tickNow(lease.Read(ctx), began, tick) }},
		{Name: "signals", Read: func(ctx context.Context) admin.Result {
			last := t.tick.Load()
			switch {
			case last == nil:
				return admin.Result{State: admin.OK, Detail: "no tick yet"}
			case len(last.degraded) > 0:
				return admin.Result{State: admin.Degraded, Detail: strings.Join(last.degraded, "; "), Remedy: "see \"weir status\""}
			}
			return admin.Result{State: admin.OK, Detail: "all windows and answers are current"}
		}},
	}
}

// tickNow returns the state of the ticks of a process with that state of the lease, which began then. tick is the
// interval of the configuration, for the time before the first tick.
func (t *terms) tickNow(lease admin.Result, began time.Time, tick time.Duration) admin.Result {
	if lease.State == admin.Standby {
		return lease
	}
	last := t.tick.Load()
	if last == nil {
		r := admin.Result{State: admin.Unknown, Detail: "no tick yet"}
		if age := time.Since(began); lease.State == admin.OK && age > liveness.OverdueAfter(tick) {
			r = admin.Result{State: admin.Failed, Detail: "no tick since " + began.Format(time.RFC3339), Remedy: "see the log of the autoscaler"}
		}
		return r
	}
	age := time.Since(last.at)
	detail := fmt.Sprintf("last tick %v ago", age.Round(time.Second))
	switch {
	case age > liveness.OverdueAfter(last.every):
		return admin.Result{State: admin.Failed, Detail: detail + ", overdue", Remedy: "see the log of the autoscaler"}
	case last.failed != "":
		return admin.Result{State: admin.Failed, Detail: detail + ": " + last.failed, Remedy: "see \"weir status\""}
	}
	return admin.Result{State: admin.OK, Detail: detail}
}
