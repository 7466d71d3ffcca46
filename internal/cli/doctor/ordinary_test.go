package doctor

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// TestOrdinaryUserHasNotes: "weir up" of an ordinary user has no users and no limits for signals, and nothing is to be done.
func TestOrdinaryUserHasNotes(t *testing.T) {
	s := Site{Ordinary: true, Status: &api.BootstrapStatus{PoolProcesses: api.PoolProcesses{
		Signals: []api.Process{{App: "web", PID: 8, SameUser: "run bootstrap as root", Unenforced: "CPUs: no cgroup v2"}},
	}}}
	for ordinary, want := range map[bool]Result{true: Note, false: Failed} {
		s.Ordinary = ordinary
		found := append(signalUsers(s), signalLimits(s)...)
		if len(found) != 2 || found[0].Result != want || found[1].Result != want || Healthy(found) != ordinary {
			t.Errorf("ordinary user %t: %+v, want two of %s", ordinary, found, want)
		}
	}
}
