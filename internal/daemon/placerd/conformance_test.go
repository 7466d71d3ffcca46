package placerd_test

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/daemon/placerd"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/placer/schedulertest"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
)

func TestPlacerKeepsTheSchedulerProtocol(t *testing.T) {
	schedulertest.Run(t, func(t *testing.T) schedulertest.Site {
		w := newWorld(t)
		b, err := bus.Find(t.Context(), bus.Config{Data: w.folder, Name: "placer", User: roles.User{Role: roles.Placer, Cluster: cluster, Pool: "p"}, Log: localtest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		one, err := placerd.Parts{Bus: b, Cluster: cluster, Pool: "p", Holder: "only", Heartbeat: heartbeat, LeaseTTL: leaseTTL, Log: localtest.Log(t)}.Wire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		localtest.Run(t, one.Run)
		w.own("p", 2)
		return schedulertest.Site{Conn: w.bus.Conn, Cluster: cluster, Pool: "p"}
	})
}
