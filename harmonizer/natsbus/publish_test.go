package natsbus

import (
	"encoding/json"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// If only the first form of a nudge was sent, a repeated nudge is sent only in the second
// form. If both were sent, a repeated nudge is a new one.
func TestHalfSentNudgeIsRepeatedInOtherForm(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	client := connect(t, url)
	received, err := client.SubscribeSync(">")
	if err != nil || client.Flush() != nil {
		t.Fatal(err)
	}
	nc := connect(t, url)
	bus, err := NewBus(nc, Config{Cluster: cluster, Dialect: DialectBoth}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	start := api.Start{App: "web", Version: "v1", Indices: []int{0, 2}, Running: map[string]int{"v1": 1}}
	second, err := json.Marshal(start.Request())
	if err != nil {
		t.Fatal(err)
	}
	requests := message.RequestsSubject(message.Partition)
	for _, tt := range []struct {
		name string
		half bool
		want []string
	}{
		{"whole", false, []string{message.SubjectStart, requests}},
		{"half", true, []string{requests}},
		{"and whole again", false, []string{message.SubjectStart, requests}},
	} {
		if tt.half { // the second form could not be sent before
			bus.half.set(string(second), true)
		}
		start.Running = map[string]int{"v1": len(tt.name)} // may have changed by then
		if err := bus.Nudge(apps.Nudge{Start: &start}); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			m, err := received.NextMsg(deadline)
			if err != nil || m.Subject != want {
				t.Fatalf("%s: received %v, %v, want %s", tt.name, m, err, want)
			}
		}
	}
	nc.Close()
	if err := bus.Nudge(apps.Nudge{Start: &start}); err == nil || bus.half.has(string(second)) {
		t.Errorf("on a closed connection: %v; the first form counts as sent: %v", err, bus.half.has(string(second)))
	}
	for i := range 2 * maxHalves {
		bus.half.set(string(rune(i)), true)
	}
	if n := len(bus.half.sent); n > maxHalves {
		t.Errorf("%d halves are remembered", n)
	}
}
