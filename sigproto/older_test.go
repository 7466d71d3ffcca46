package sigproto

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// olderHello is the hello as signals from before the setpoint read it.
type olderHello struct {
	Parameters map[string]any `json:"parameters"`
	Cluster    string         `json:"cluster"`
	Pool       string         `json:"pool"`
}

// TestOlderSignals: signals from before the setpoint work with the hello of today. Those of Clusterman read the parameters
// only, with one read of at most 4096 bytes. Those of the SDK read three keys and report others as unknown.
func TestOlderSignals(t *testing.T) {
	want := olderHello{map[string]any{"headroom": 1.2, "cluster": "everywhere-prod", "pool": "default"}, "everywhere-prod", "default"}
	for name, read := range map[string]func(peer) []byte{
		"one read": func(p peer) []byte {
			buffer := make([]byte, 4096)
			n, _ := p.conn.Read(buffer)
			return buffer[:n]
		},
		"the JSON value": func(p peer) []byte { return p.hello() },
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan []byte, 1)
			address := startSignal(t, func(p peer) {
				seen <- read(p)
				for range 2 {
					p.evaluation()
					p.send(goldenAnswer)
				}
				p.hangUp()
			})
			hello := sampleHello
			hello.Launch = 4 * time.Minute
			c := newTestClient(t, ClientConfig{Address: address, Hello: hello})
			for range 2 {
				if _, err := c.Evaluate(within(t, 10*time.Second), sample); err != nil {
					t.Fatal(err)
				}
			}
			var got olderHello
			if err := json.Unmarshal(<-seen, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("hello (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOlderAutoscaler: a signal of today gets no setpoint and no time of launch from an autoscaler of before, and evaluates as always.
func TestOlderAutoscaler(t *testing.T) {
	s, raw := pair(t, ServerConfig{})
	data, err := json.Marshal(olderHello{map[string]any{"headroom": 1.2}, "everywhere-prod", "default"})
	if err != nil {
		t.Fatal(err)
	}
	send(t, raw, string(data)+framed(goldenBody))
	hello, err := s.ReadHello()
	want := sampleHello
	want.Setpoint = 0
	if diff := cmp.Diff(want, hello); diff != "" || err != nil {
		t.Errorf("hello %v (-want +got):\n%s", err, diff)
	}
	if e, err := s.Next(); err != nil || !cmp.Equal(sample, e) {
		t.Errorf("evaluation %+v, %v", e, err)
	}
}
