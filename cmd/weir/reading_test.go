package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// A command that only reads creates no stream and no bucket on an empty bus, also where it ends with an error.
func TestReadingCommandsCreateNothing(t *testing.T) {
	t.Parallel()
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	js, err := jetstream.New(bustest.Connect(t, s.ClientURL()))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"status", "explain", "explain --since 1h", "plan", "pool target", "pool groups", "app get web", "app list", "app status",
		"app explain web", "app crashes web", "doctor", "state check", "signal ps", "signal logs web", "signal shadow",
		"node status", "node history", "node evidence n1", "pool list", "signal where shop/rps", "events --since 1h", "diff last last",
		"app logs web", "node list", "pool decide --set scaling_limits.max_capacity=40 --since 1h", "metrics get --app web load",
	} {
		weir(slices.Concat(strings.Fields(path), []string{"--nats", s.ClientURL(), "--data", t.TempDir(), "--config-dir", muteConfig(t)})...)
		streams := js.StreamNames(t.Context())
		for name := range streams.Name() {
			t.Errorf("weir %s: stream %s exists", path, name)
		}
		if err := streams.Err(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
}

// "weir status" reads what the pool's processes know. It publishes nothing that makes the nodes send a heartbeat.
func TestStatusSendsNothingToNodes(t *testing.T) {
	t.Parallel()
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	nc := bustest.Connect(t, s.ClientURL())
	toNodes, err := nc.SubscribeSync(">")
	if err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	weir("status", "--nats", s.ClientURL(), "--data", t.TempDir(), "--config-dir", muteConfig(t))
	if err := nc.Publish("end", nil); err != nil { // after everything that the command sent
		t.Fatal(err)
	}
	for {
		m, err := toNodes.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject == "end" {
			return
		}
		if m.Subject == cloudfoundry.SubjectManagerStart || strings.HasSuffix(m.Subject, ".announce") || strings.Contains(m.Subject, ".agent.") {
			t.Errorf("weir status published %s", m.Subject)
		}
	}
}
