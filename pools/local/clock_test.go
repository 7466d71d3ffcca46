package local_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
)

// TestNodesWithWrongClocksCountByArrival: the facts of a node whose clock is an hour off are as fresh as others, and
// name the difference. A difference that the node itself publishes does not count.
func TestNodesWithWrongClocksCountByArrival(t *testing.T) {
	bus := localtest.NewBus(t)
	nodes := local.NewNodes(bus.Conn, "c", "p", 30*time.Second, localtest.Log(t))
	localtest.Run(t, nodes.Run)
	for id, ahead := range map[string]time.Duration{"right": 0, "fast": time.Hour, "slow": -time.Hour} {
		var got api.NodeFacts
		localtest.Until(t, "facts of "+id, func() bool {
			data, err := json.Marshal(api.NodeFacts{ID: id, Pool: "p", At: time.Now().Add(ahead), ClockAhead: time.Minute})
			if err == nil {
				err = bus.Publish(message.FactsSubject("c", message.Node{Pool: "p", Name: id}), data)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range nodes.Received(time.Now().Add(10 * time.Second)) {
				if f.ID == id {
					got = f
				}
			}
			return got.ID == id
		})
		if (got.ClockAhead-ahead).Abs() > pools.ClockTolerance || ahead == 0 && got.ClockAhead != 0 || time.Since(got.At).Abs() > 20*time.Second {
			t.Errorf("%s: clock ahead by %v, received at %v, want %v, and now", id, got.ClockAhead, got.At, ahead)
		}
	}
}
