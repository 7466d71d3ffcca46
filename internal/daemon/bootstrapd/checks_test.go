package bootstrapd

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
)

// Bootstrap is ready while its autoscaler gives signs of life. A failed signal is degraded only.
func TestChildrenAreReported(t *testing.T) {
	now := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, tt := range []struct {
		name string
		p    api.Process
		want admin.State
		text string
	}{
		{"alive", api.Process{State: "running", PID: 7, Alive: &api.Alive{At: now.Add(-3 * time.Second)}}, admin.OK, "process 7, last sign of life 3s ago"},
		{"starting", api.Process{State: "running", PID: 7}, admin.Unknown, "starting"},
		{"silent", api.Process{State: "running", PID: 7, Alive: &api.Alive{At: now.Add(-time.Hour), Overdue: true}}, admin.Failed, ""},
		{"down", api.Process{State: "backoff", Why: "exit status 1"}, admin.Failed, "the process is backoff: exit status 1"},
	} {
		if r := autoscalerResult(now, tt.p); r.State != tt.want || !strings.Contains(r.Detail, tt.text) {
			t.Errorf("%s: %+v, want %v %q", tt.name, r, tt.want, tt.text)
		}
	}
	good := api.Process{App: "api", State: "running"}
	for name, tt := range map[string]struct {
		list []api.Process
		want admin.State
	}{
		"none":    {nil, admin.OK},
		"running": {[]api.Process{good}, admin.OK},
		"failed":  {[]api.Process{good, {App: "web", State: "fatal", Why: "exit status 1"}}, admin.Degraded},
		"yanked":  {[]api.Process{good, {App: "web", State: "running", Version: "1", Yanked: "leaks"}}, admin.Degraded},
	} {
		if r := signalsResult(now, tt.list); r.State != tt.want {
			t.Errorf("signals %s: %+v, want %v", name, r, tt.want)
		}
	}
}
