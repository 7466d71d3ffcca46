package local_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
)

// Two machines with one id are found when a boot id comes back. A restart of a machine is not a second machine. The clock
// of a node is compared with that of the receiver.
func TestReceiptsShowTwinsAndClocks(t *testing.T) {
	bus := localtest.NewBus(t)
	nodes := local.NewNodes(bus.Conn, "c", "p", 30*time.Second, localtest.Log(t))
	localtest.Run(t, nodes.Run)
	tasks := 0
	receive := func(id, boot string, ahead time.Duration) api.NodeReceipt {
		t.Helper()
		tasks++
		var got api.NodeReceipt
		localtest.Until(t, "facts of "+id, func() bool {
			data, err := json.Marshal(api.NodeFacts{ID: id, Pool: "p", BootID: boot, Tasks: tasks, At: time.Now().Add(ahead)})
			if err == nil {
				err = bus.Publish(message.FactsSubject("c", message.Node{Pool: "p", Name: id}), data)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range nodes.Facts(time.Now()) {
				if f.ID == id && f.Tasks == tasks {
					got = nodes.Receipts(time.Now())[i]
					return true
				}
			}
			return false
		})
		return got
	}
	for i, step := range []struct {
		boot  string
		twins bool
	}{{"a", false}, {"a", false}, {"b", false}, {"b", false}, {"a", true}, {"c", true}} {
		if got := receive("n1", step.boot, 0); got.Node != "n1" || got.Twins.IsZero() == step.twins || got.Silent {
			t.Errorf("step %d, boot %s: %+v, want two machines: %v", i, step.boot, got, step.twins)
		}
	}
	if got := receive("n2", "d", 5*time.Minute); got.Ahead > 5*time.Minute || got.Ahead < 4*time.Minute || !got.Twins.IsZero() {
		t.Errorf("a clock 5 minutes ahead: %+v", got)
	}
	if got := nodes.Receipts(time.Now().Add(28 * time.Second)); len(got) != 2 || !got[0].Silent {
		t.Errorf("after 28 s without facts: %+v, want silent nodes", got)
	}
	if got := nodes.Receipts(time.Now().Add(time.Minute)); len(got) != 0 {
		t.Errorf("receipts of nodes that are gone: %+v", got)
	}
}
