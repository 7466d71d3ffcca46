package autoscalerd

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
)

// A tick that is overdue, ended early, or is not in the ledger fails. A standby has no ticks.
func TestTicksAreReported(t *testing.T) {
	held, standby := admin.Result{State: admin.OK}, admin.Result{State: admin.Standby, Detail: "held by b"}
	usual := api.TickRecord{Every: time.Minute}
	for _, tt := range []struct {
		name   string
		record *api.TickRecord // nil: no tick
		lost   error
		age    time.Duration
		lease  admin.Result
		state  admin.State
		detail string
	}{
		{"current", &usual, nil, 30 * time.Second, held, admin.OK, "last tick 30s ago"},
		{"overdue", &usual, nil, 5 * time.Minute, held, admin.Failed, "last tick 5m0s ago, overdue"},
		{"a slow tick", &api.TickRecord{Every: time.Minute, Took: 4 * time.Minute}, nil, 5 * time.Minute, held, admin.OK, "last tick 5m0s ago"},
		{"ended early", &api.TickRecord{Every: time.Minute, Failed: "no groups"}, nil, 0, held, admin.Failed, "last tick 0s ago: no groups"},
		{"not recorded", &usual, errors.New("disk full"), 0, held, admin.Failed, "not in the ledger: disk full"},
		{"first tick", nil, nil, 10 * time.Second, held, admin.Unknown, "no tick yet"},
		{"never", nil, nil, time.Hour, held, admin.Failed, "no tick since "},
		{"standby", nil, nil, time.Hour, standby, admin.Standby, "held by b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				terms := &terms{scaling: newMetrics(nil)}
				began := time.Now()
				if tt.record != nil {
					terms.ticked(*tt.record, tt.lost)
				}
				<-time.After(tt.age)
				if r := terms.tickNow(tt.lease, began, time.Minute); r.State != tt.state || !strings.Contains(r.Detail, tt.detail) {
					t.Errorf("tickNow = %+v, want %v %q", r, tt.state, tt.detail)
				}
			})
		})
	}
}

// An app that another signal serves is degraded, with the reason.
func TestFallbackIsDegraded(t *testing.T) {
	terms := &terms{pulse: &admin.Pulse{}, scaling: newMetrics(nil)}
	terms.ticked(api.TickRecord{Detail: &api.TickDetail{Apps: []api.ResolvedRequest{
		{App: "api"}, {App: "web", Fallback: true, Why: "its window is stale"},
	}}}, nil)
	got := terms.tick.Load().degraded
	if len(got) != 1 || !strings.Contains(got[0], "app web is served by ") || !strings.Contains(got[0], "its window is stale") {
		t.Errorf("degraded = %q", got)
	}
}

// Each call of the loop to its directory is a sign of life.
func TestDirectoryCountsSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pulse admin.Pulse
		check := pulse.Check("loop", time.Minute)
		d := pulsing{staticDirectory{}, &pulse}
		for _, beat := range []func(){d.Alive, func() { d.Report(ask.Report{}) }} {
			<-time.After(2 * time.Minute)
			if r := check.Read(t.Context()); r.State != admin.Failed || !r.Dead {
				t.Errorf("a silent loop is %+v", r)
			}
			beat()
			if r := check.Read(t.Context()); r.State != admin.OK {
				t.Errorf("a loop with a sign of life is %+v", r)
			}
		}
	})
}
