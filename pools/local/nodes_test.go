package local_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/localtest"
)

func TestNodesLogBadFactsOnceAMinute(t *testing.T) {
	bus := localtest.NewBus(t)
	var out bytes.Buffer // written by Run's goroutine, read after its end
	nodes := local.NewNodes(bus.Conn, "c", "p", time.Hour, slog.New(slog.NewTextHandler(&out, nil)))
	stop := localtest.Run(t, nodes.Run)
	publish := func(id string, data []byte) {
		if err := bus.Publish(message.NodeSubject("c", id), data); err != nil {
			t.Fatal(err)
		}
	}
	heard := func(id string) {
		data, err := json.Marshal(pools.NodeFacts{ID: id, Pool: "p"})
		if err != nil {
			t.Fatal(err)
		}
		localtest.Until(t, "facts of "+id, func() bool {
			publish(id, data)
			return slices.ContainsFunc(nodes.Facts(time.Now()), func(f pools.NodeFacts) bool { return f.ID == id })
		})
	}
	heard("first") // it listens
	for range 100 {
		publish("bad", []byte("not json"))
	}
	heard("last") // in order, so the bad ones were taken before
	stop()
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, " dropped=1 ") {
		t.Errorf("logged %q, want one line of the first", got)
	}
}
