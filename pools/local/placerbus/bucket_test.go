package placerbus_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/placer"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
)

// A placer creates no bucket. It starts before the bucket of apps exists, and waits.
func TestListenWaitsForTheBucketOfApps(t *testing.T) {
	bus := localtest.NewBus(t)
	js, err := jetstream.New(bus.Conn)
	if err != nil {
		t.Fatal(err)
	}
	b := placerbus.New(placerbus.Config{Cluster: "c", Pool: "p"}, bus.Conn, localtest.Log(t))
	loaded, began := make(chan struct{}), make(chan struct{})
	stop := localtest.Run(t, func(ctx context.Context) error {
		close(began)
		return b.Listen(ctx, 1, func(_ context.Context, e placer.Event) error {
			if _, ok := e.(placer.RowsLoaded); ok {
				close(loaded)
			}
			return nil
		})
	})
	<-began
	bustest.Streams(t, js, "c", 1)
	localtest.Until(t, "the rows are loaded", func() bool {
		select {
		case <-loaded:
			return true
		default:
			return false
		}
	})
	stop()
}

func TestListenEndsWhileItWaits(t *testing.T) {
	bus := localtest.NewBus(t)
	b := placerbus.New(placerbus.Config{Cluster: "c", Pool: "p"}, bus.Conn, localtest.Log(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Listen(ctx, 1, nil); err != nil {
		t.Errorf("Listen = %v with an ended context, want nil", err)
	}
}

// A placer runs rows, and reports so: it ends what was known of another scheduler of the pool.
func TestPlacerReportsThatItRunsRows(t *testing.T) {
	bus := localtest.NewBus(t)
	sub := bustest.SubscribeSync(t, bus.Conn, message.StateSubject("c", "p"))
	if err := placerbus.New(placerbus.Config{Cluster: "c", Pool: "p"}, bus.Conn, localtest.Log(t)).Running(10*time.Second, 3); err != nil {
		t.Fatal(err)
	}
	m, err := sub.NextMsg(await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	s, err := message.DecodeState("p", m.Data)
	if want := (api.SchedulerState{Pool: "p", Kind: "weir", Rows: true, Fresh: true, Period: 10 * time.Second, Nodes: 3}); err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("state %+v, error %v, want %+v", s, err, want)
	}
}
