package view

import (
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// The table of nodes is of now: a node has the tasks and the uptime of now, also if the tick is a minute old. Without facts it has the tasks of the tick.
func TestNodesAreOfOneMoment(t *testing.T) {
	now := time.Now()
	r := api.TickRecord{At: now.Add(-time.Minute), Every: time.Minute, Case: &api.Case{Nodes: []api.Candidate{
		{ID: "i-1", Instance: api.InstanceRunning, Node: api.NodeRunning, Tasks: 3, Uptime: time.Hour},
		{ID: "i-2", Instance: api.InstanceRunning, Node: api.NodeRunning, Tasks: 3, Uptime: time.Hour},
	}}}
	got := Nodes(r, []api.NodeFacts{{ID: "i-1"}}, nil, now)
	uptime := (time.Hour + time.Minute).Seconds()
	want := []api.Node{{Node: "i-1", State: "idle", Uptime: uptime, Facts: &api.NodeFacts{ID: "i-1"}}, {Node: "i-2", State: "running", Tasks: 3, Uptime: uptime}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	r.At = now.Add(-21 * time.Minute)
	want[0].Uptime, want[1].State, want[1].Uptime = (time.Hour + 21*time.Minute).Seconds(), "was running", 0
	if diff := cmp.Diff(want, Nodes(r, []api.NodeFacts{{ID: "i-1"}}, nil, now)); diff != "" {
		t.Errorf("nodes of an old tick (-want +got):\n%s", diff)
	}
}

// Before the first tick of a pool, the nodes are those that report to the harmonizer.
func TestNodesBeforeTheFirstTick(t *testing.T) {
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	bustest.Streams(t, b.JetStream(), "c", 1, "web")
	p := Pool{Bus: b, Cluster: "c", Name: "web"}
	if rows, err := p.Nodes(t.Context()); !errors.Is(err, state.ErrNoRecord) {
		t.Errorf("without any daemon: %+v, %v", rows, err)
	}
	bustest.Subscribe(t, b.Conn(), message.StatusSubject("c"), func(m *nats.Msg) {
		var q api.HarmonizerQuery
		if err := json.Unmarshal(m.Data, &q); err != nil || q.Nodes != "web" {
			t.Errorf("request %s, %v", m.Data, err)
		}
		data, err := json.Marshal(api.HarmonizerStatus{Nodes: []api.HarmonizerNode{{Node: "i-1"}, {Node: "i-2", Copies: 3}}})
		if err := errors.Join(err, m.Respond(data)); err != nil {
			t.Error(err)
		}
	})
	rows, err := p.Nodes(t.Context())
	if diff := cmp.Diff([]api.Node{{Node: "i-1", State: "idle"}, {Node: "i-2", State: "running", Tasks: 3}}, rows); diff != "" || err != nil {
		t.Errorf("nodes: %v, -want +got:\n%s", err, diff)
	}
	if ids, err := p.Agents(t.Context()); err != nil || !cmp.Equal(ids, []string{"i-1", "i-2"}) {
		t.Errorf("agents: %q, %v", ids, err)
	}
}
