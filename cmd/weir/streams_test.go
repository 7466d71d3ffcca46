package main

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// createStreams creates the streams of a cluster and these pools on a server without roles, as an admin does.
func createStreams(t *testing.T, url, cluster string, pools ...string) {
	t.Helper()
	js, err := jetstream.New(bustest.Connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, cluster, 1, pools...)
}
