package placerbus_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

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
