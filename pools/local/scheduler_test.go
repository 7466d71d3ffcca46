package local_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
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
		return s.Why == "the scheduler (kubernetes) has no current state of its nodes: the API server does not respond"
	})
	state.Rows = true
	await("the nodes speak for themselves", func(s pools.NodeScheduler) bool { return s.Kind == "" && s.Why == "" })
	if nodes.ExpectScheduler("kubernetes"); nodes.Scheduler(time.Now()).Kind != "" {
		t.Error("the state of an earlier term replaces the one that this process has received")
	}
}

// The reason and the deadline of a drain go to a scheduler that accepts them. A node of an earlier version gets neither.
func TestCordonWithWhatTheSchedulerAccepts(t *testing.T) {
	bus := localtest.NewBus(t)
	nodes := local.NewNodes(bus.Conn, "c", "p", time.Minute, localtest.Log(t))
	localtest.Run(t, nodes.Run)
	requests := make(chan wire.CordonRequest, 10)
	sub, err := bus.Conn.Subscribe(wire.Subject("c", "p", "n", wire.OpCordon), func(m *nats.Msg) {
		var r wire.CordonRequest
		err := json.Unmarshal(m.Data, &r)
		requests <- r
		_ = call.Respond(m, 1<<20, nil, err)
	})
	if err == nil {
		err = bus.Conn.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	deadline := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, accepts := range [][]string{nil, {"later"}, {api.AcceptsDeadline}, {api.AcceptsReason, api.AcceptsDeadline}} {
		state, err := json.Marshal(api.SchedulerState{Pool: "p", Kind: "k", Fresh: true, Period: time.Hour, Accepts: accepts})
		if err != nil {
			t.Fatal(err)
		}
		localtest.Until(t, "the state", func() bool {
			return bus.Publish(message.StateSubject("c", "p"), state) == nil && slices.Equal(nodes.Scheduler(time.Now()).Accepts, accepts) && nodes.Scheduler(time.Now()).Kind == "k"
		})
		if err := nodes.CordonFor(t.Context(), "n", api.DrainSpot, deadline); err != nil {
			t.Fatal(err)
		}
		want := wire.CordonRequest{On: true}
		if slices.Contains(accepts, api.AcceptsReason) {
			want.Reason = api.DrainSpot
		}
		if slices.Contains(accepts, api.AcceptsDeadline) {
			want.Deadline = deadline
		}
		if got := <-requests; got != want {
			t.Errorf("a scheduler that accepts %q receives %+v, want %+v", accepts, got, want)
		}
	}
}

func TestGoneIsReported(t *testing.T) {
	bus := localtest.NewBus(t)
	sub := bustest.SubscribeSync(t, bus.Conn, message.GoneSubject("c", message.Node{Pool: "p", Name: "*"}))
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if err := local.NewNodes(bus.Conn, "c", "p", time.Minute, localtest.Log(t)).Gone("i-1", at); err != nil {
		t.Fatal(err)
	}
	m, err := sub.NextMsg(await.Patience)
	var got api.NodeGone
	if err == nil {
		err = json.Unmarshal(m.Data, &got)
	}
	if want := (api.NodeGone{Node: "i-1", Pool: "p", At: at}); err != nil || got != want || m.Subject != "weir.c.agent.p.i-1.gone" {
		t.Errorf("gone %+v, error %v, want %+v", got, err, want)
	}
}
