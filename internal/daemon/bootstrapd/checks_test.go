package bootstrapd

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
)

// Bootstrap is ready while its autoscaler gives signs of life. A failed signal is degraded only.
func TestChildrenAreReported(t *testing.T) {
	now := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, tt := range []struct {
		name string
		p    bootstrap.Process
		want admin.State
		text string
	}{
		{"alive", bootstrap.Process{State: "running", PID: 7, Alive: &bootstrap.Alive{At: now.Add(-3 * time.Second)}}, admin.OK, "process 7, last sign of life 3s ago"},
		{"starting", bootstrap.Process{State: "running", PID: 7}, admin.Unknown, "starting"},
		{"silent", bootstrap.Process{State: "running", PID: 7, Alive: &bootstrap.Alive{At: now.Add(-time.Hour), Overdue: true}}, admin.Failed, ""},
		{"down", bootstrap.Process{State: "backoff", Why: "exit status 1"}, admin.Failed, "the process is backoff: exit status 1"},
	} {
		if r := autoscalerResult(now, tt.p); r.State != tt.want || !strings.Contains(r.Detail, tt.text) {
			t.Errorf("%s: %+v, want %v %q", tt.name, r, tt.want, tt.text)
		}
	}
	good := bootstrap.Process{App: "api", State: "running"}
	for name, tt := range map[string]struct {
		list []bootstrap.Process
		want admin.State
	}{
		"none":    {nil, admin.OK},
		"running": {[]bootstrap.Process{good}, admin.OK},
		"failed":  {[]bootstrap.Process{good, {App: "web", State: "fatal", Why: "exit status 1"}}, admin.Degraded},
		"yanked":  {[]bootstrap.Process{good, {App: "web", State: "running", Version: "1", Yanked: "leaks"}}, admin.Degraded},
	} {
		if r := signalsResult(now, tt.list); r.State != tt.want {
			t.Errorf("signals %s: %+v, want %v", name, r, tt.want)
		}
	}
}
