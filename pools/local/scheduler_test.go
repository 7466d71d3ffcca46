package local_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
)

// A scheduler without rows speaks for all nodes of the pool from its first state on, also for a process that has received none. It is
// current while a fresh state is at most two periods old. A state of another pool, and one that is not readable, changes nothing.
func TestNodeScheduler(t *testing.T) {
	bus := localtest.NewBus(t)
	nodes := local.NewNodes(bus.Conn, "c", "p", time.Minute, localtest.Log(t))
	localtest.Run(t, nodes.Run)
	if s := nodes.Scheduler(time.Now()); s.Kind != "" || s.Why != "" {
		t.Errorf("without a state: %+v, want nothing", s)
	}
	nodes.ExpectScheduler("kubernetes")
	if s := nodes.Scheduler(time.Now()); s.Kind != "kubernetes" || !strings.Contains(s.Why, "has reported nothing since this process began") {
		t.Errorf("after a restart: %+v, want why it is unknown", s)
	}
	publish := func(s any) {
		t.Helper()
		data, err := json.Marshal(s)
		if err == nil {
			err = bus.Publish(message.StateSubject("c", "p"), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	state := api.SchedulerState{Pool: "p", Kind: "kubernetes", Fresh: true, Period: 10 * time.Second, Accepts: []string{api.AcceptsReason}}
	await := func(what string, ok func(pools.NodeScheduler) bool) {
		t.Helper()
		localtest.Until(t, what, func() bool { publish(state); return ok(nodes.Scheduler(time.Now())) })
	}
	await("it is current", func(s pools.NodeScheduler) bool {
		return s.Kind == "kubernetes" && s.Why == "" && s.Period == 10*time.Second && len(s.Accepts) == 1
	})
	for _, bad := range []any{
		7, map[string]any{"pool": "p"}, api.SchedulerState{Pool: "q", Kind: "x", Period: time.Second}, api.SchedulerState{Pool: "p", Kind: "x"},
		api.SchedulerState{Pool: "p", Kind: "x\n", Period: time.Second}, api.SchedulerState{Pool: "p", Kind: "x", Period: -1},
	} {
		publish(bad)
	}
	if s := nodes.Scheduler(time.Now().Add(time.Minute)); !strings.HasPrefix(s.Why, "the scheduler (kubernetes) is silent since ") {
		t.Errorf("after a minute without a state: %+v", s)
	}
	state.Fresh, state.Why = false, "the API server does not respond"
	await("it is not current", func(s pools.NodeScheduler) bool {
		return s.Why == "the scheduler (kubernetes) does not know the state of its nodes: the API server does not respond"
	})
	state.Rows = true
	await("the nodes speak for themselves", func(s pools.NodeScheduler) bool { return s.Kind == "" && s.Why == "" })
	if nodes.ExpectScheduler("kubernetes"); nodes.Scheduler(time.Now()).Kind != "" {
		t.Error("the state of an earlier term replaces the one that this process has received")
	}
}
