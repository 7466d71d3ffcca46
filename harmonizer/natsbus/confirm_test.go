package natsbus

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestNudgeRequestsAConfirmation(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	client := connect(t, url)
	received, err := client.SubscribeSync("health.>")
	if err != nil || client.Flush() != nil {
		t.Fatal(err)
	}
	b, err := NewBus(connect(t, url), Config{Cluster: cluster, KeepAlive: 30 * time.Second}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Nudge(apps.Nudge{ID: "n1", Start: &api.Start{App: "web", Indices: []int{0}}}); err != nil {
		t.Fatal(err)
	}
	m, err := received.NextMsg(deadline)
	if err != nil {
		t.Fatal(err)
	}
	if id, keep := m.Header.Get(message.HeaderNudge), m.Header.Get(message.HeaderKeepAlive); id != "n1" || keep != "30" {
		t.Errorf("headers %v, want nudge n1 with a keep-alive of 30", m.Header)
	}
}

func TestConfirmationOfAnotherPoolIsRefused(t *testing.T) {
	b := &Bus{cfg: Config{Cluster: cluster}, tally: newTally(logger(t))}
	for _, tt := range []struct {
		name, data string
		want       apps.Event
	}{
		{"own", `{"pool": "p", "epoch": 2, "nudges": ["a", "b"], "later": 1}`, apps.Confirmed{Pool: "p", Nudges: []string{"a", "b"}}},
		{"waiting starts", `{"pool": "p", "nudges": [], "waiting": [{"app": "web", "version": "v1", "indices": [0, 2], "later": 1}]}`,
			apps.Confirmed{Pool: "p", Nudges: []string{}, Waiting: []api.WaitingStart{{App: "web", Version: "v1", Indices: []int{0, 2}}}}},
		{"an index outside", `{"pool": "p", "nudges": [], "waiting": [{"app": "web", "version": "v1", "indices": [-1]}]}`, nil},
		{"another pool", `{"pool": "q", "nudges": ["a"]}`, nil},
		{"malformed", `{`, nil},
		{"no id", `{"pool": "p", "nudges": ["a b"]}`, nil},
	} {
		got := b.event(&nats.Msg{Subject: message.ConfirmedSubject(cluster, "p"), Data: []byte(tt.data)})
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestNeverOfAnotherPoolIsRefused(t *testing.T) {
	b := &Bus{cfg: Config{Cluster: cluster}, tally: newTally(logger(t))}
	list := api.NeverPlaced{Pool: "p", Apps: []api.PlacesApp{{App: "web", Copies: 2, Footprint: resource.Vector{50}}}}
	for _, tt := range []struct {
		name, data string
		want       apps.Event
	}{
		{"own", `{"pool": "p", "apps": [{"app": "web", "copies": 2, "footprint": {"cpus": 50}}], "later": 1}`, apps.Never{NeverPlaced: list}},
		{"another pool", `{"pool": "q", "apps": []}`, nil},
		{"malformed", `{`, nil},
		{"negative", `{"pool": "p", "apps": [{"app": "web", "copies": -2}]}`, nil},
	} {
		got := b.event(&nats.Msg{Subject: message.NeverSubject(cluster, "p"), Data: []byte(tt.data)})
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestStateOfAnotherPoolIsRefused(t *testing.T) {
	b := &Bus{cfg: Config{Cluster: cluster}, tally: newTally(logger(t))}
	for _, tt := range []struct {
		name, data string
		want       apps.Event
	}{
		{"own", `{"pool": "p", "kind": "k", "rows": false, "fresh": true, "period": 1000000000, "later": 1}`,
			apps.Scheduler{SchedulerState: api.SchedulerState{Pool: "p", Kind: "k", Fresh: true, Period: time.Second}}},
		{"another pool", `{"pool": "q", "kind": "k", "rows": false, "fresh": true, "period": 1}`, nil},
		{"malformed", `{`, nil},
		{"without rows", `{"pool": "p", "kind": "k", "fresh": true, "period": 1}`, nil},
		{"given twice", `{"pool": "p", "kind": "k", "rows": true, "rows": false, "fresh": true, "period": 1}`, nil},
	} {
		got := b.event(&nats.Msg{Subject: message.StateSubject(cluster, "p"), Data: []byte(tt.data)})
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// A daemon of a pool reports loud nodes of its own pool only, and the metrics store reports writers only.
func TestLimitedSendersOfAnotherPoolAreRefused(t *testing.T) {
	b := &Bus{cfg: Config{Cluster: cluster}, tally: newTally(logger(t))}
	for _, tt := range []struct {
		name, pool, data string
		want             apps.Event
	}{
		{"own", "p", `{"pool": "p", "node": "n", "lost": 3, "later": 1}`, apps.SenderLimited{Node: message.Node{Pool: "p", Name: "n"}, Lost: 3}},
		{"another pool", "p", `{"pool": "q", "node": "n", "lost": 3}`, nil},
		{"a writer", "p", `{"pool": "p", "writer": "placer_p", "lost": 3}`, nil},
		{"no node", "p", `{"pool": "p", "lost": 3}`, nil},
		{"malformed", "p", `{`, nil},
		{"too long", "p", `{"pool": "p", "node": "n", "later": "` + strings.Repeat("x", 2000) + `"}`, nil},
		{"the store", "", `{"writer": "placer_p", "node": "n", "lost": 3}`, apps.SenderLimited{Node: message.Node{Pool: "p"}, Writer: "placer_p", Lost: 3}},
		{"no writer", "", `{"pool": "p", "node": "n", "lost": 3}`, nil},
	} {
		got := b.event(&nats.Msg{Subject: message.LimitedSubject(cluster, tt.pool), Data: []byte(tt.data)})
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
