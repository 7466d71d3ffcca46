package known

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// A copy is ready if it is RUNNING and its node does not call it unready. Each change of that is reported once.
func TestReady(t *testing.T) {
	s := New(Config{DropletLost: 30 * time.Second, HeartbeatPeriod: 10 * time.Second})
	now := time.Unix(1_700_000_000, 0)
	s.Connected(now)
	for _, step := range []struct {
		state, more string
		ready       bool
		change      ChangeKind // 0: none
	}{
		{"RUNNING", `,"unready":true`, false, Appeared},
		{"RUNNING", `,"unready":true`, false, 0},
		{"RUNNING", ``, true, BecameState},
		{"RUNNING", `,"unready":false`, true, 0},
		{"RUNNING", `,"unready":true,"later":1`, false, BecameState},
		{"STARTING", `,"unready":true`, false, BecameState},
		{"STARTING", ``, false, 0},
		{"RUNNING", ``, true, BecameState},
		{"EVACUATING", ``, false, BecameState},
	} {
		now = now.Add(time.Second)
		data := fmt.Sprintf(`{"dea":"n","droplets":[{"droplet":"web","version":"v","instance":"i","index":0,"state":%q,"state_timestamp":1%s}]}`, step.state, step.more)
		if err := s.Heartbeat(now, message.Node{Pool: "p", Name: "n"}, []byte(data)); err != nil {
			t.Fatal(err)
		}
		var kinds []ChangeKind
		for _, c := range s.Changes() {
			if c.Kind != NodeAppeared {
				kinds = append(kinds, c.Kind)
			}
		}
		c, found := s.Find("i")
		if !found || c.Ready() != step.ready || len(kinds) > 1 || (len(kinds) == 1) != (step.change != 0) || len(kinds) == 1 && kinds[0] != step.change {
			t.Errorf("%s%s: ready %v, changes %v; want %v and %v", step.state, step.more, found && c.Ready(), kinds, step.ready, step.change)
		}
	}
}
