package placerd

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric/metrictest"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
)

// The role of a placer may read the clock of the server and the bucket of state, and both are in the readiness.
func TestPlacerChecksClockAndState(t *testing.T) {
	world := localtest.NewBus(t)
	js, err := bus.JetStream(world.Conn)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "c", 1, "p")
	c := bus.Config{Name: "test", User: roles.User{Role: roles.Placer, Cluster: "c", Pool: "p"}, Log: localtest.Log(t)}
	for _, entry := range world.Env() {
		if folder, ok := strings.CutPrefix(entry, "WEIR_TEST_BUS="); ok {
			c.Data = folder
		}
	}
	b, err := bus.Find(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	one, err := Parts{Bus: b, Cluster: "c", Pool: "p", Holder: "h", Log: c.Log}.Wire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]admin.Result{}
	for _, check := range (placers{one}).checks() {
		if check.Name != "placer" { // it does not run
			found[check.Name] = check.Read(t.Context())
		}
	}
	for name, words := range map[string]string{"bus": "connected", "clock": "within", "state": "can be written"} {
		if r := found[name]; r.State != admin.OK || !strings.Contains(r.Detail, words) {
			t.Errorf("%s: %+v, want ok with %q", name, r, words)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := one.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	metrictest.Complete(t, metric.Placer(), metrictest.Series(t, (placers{one}).collector()))
	cancel()
	running.Wait()
}
