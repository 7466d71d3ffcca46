package bootstrapd

import (
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// checks returns the checks of readiness: bus, clock, state, files, the autoscaler, each signal, and the disks.
func (r *reloader) checks() []admin.Check {
	return []admin.Check{
		admin.Bus(r.bus), admin.Clock(r.bus.Conn(), r.process.Log), admin.Stored(r.bus, names.PoolBucket(r.process.Cluster, r.process.Pool)),
		{Name: "configuration", Read: func(context.Context) admin.Result {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.refused != "" {
				return admin.Result{State: admin.Degraded, Detail: "the files are rejected, and the previous ones apply: " + r.refused, Remedy: "correct the files"}
			}
			return admin.Result{State: admin.OK, Detail: "the files apply"}
		}},
		{Name: "autoscaler", Read: func(context.Context) admin.Result {
			return autoscalerResult(time.Now(), r.bootstrap.Status().Autoscaler)
		}},
		{Name: "signals", Read: func(context.Context) admin.Result { return signalsResult(time.Now(), r.status().Signals) }},
		admin.Disk(r.process.Data, daemon.DataParts()...),
	}
}

// autoscalerResult returns the state of the child that scales the pool.
func autoscalerResult(now time.Time, p api.Process) admin.Result {
	switch {
	case p.State != supervise.Running.String():
		return admin.Result{State: admin.Failed, Detail: "the process is " + p.State + ": " + p.Why, Remedy: "see the log of bootstrap"}
	case p.Alive == nil:
		return admin.Result{State: admin.Unknown, Detail: "starting"}
	case p.Alive.Overdue:
		return admin.Result{State: admin.Failed, Detail: explain.Silence(now, *p.Alive), Remedy: "see the log of the autoscaler"}
	}
	return admin.Result{State: admin.OK, Detail: fmt.Sprintf("process %d, last sign of life %v ago", p.PID, now.Sub(p.Alive.At).Round(time.Second))}
}

// signalsResult returns the state of the signals. A failed one is degraded, because the default signal replaces it.
func signalsResult(now time.Time, signals []api.Process) admin.Result {
	for _, p := range signals {
		if problem := explain.Process(now, p); problem != "" {
			return admin.Result{State: admin.Degraded, Detail: problem, Remedy: "\"weir signal ps\" lists all"}
		}
		if p.Yanked != "" {
			return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("%s runs %s, which is yanked: %s", p.Title(), p.Version, p.Yanked), Remedy: "pin another version in the pool's file"}
		}
	}
	return admin.Result{State: admin.OK, Detail: fmt.Sprintf("%d run", len(signals))}
}
