package bustest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

const deadline = await.Patience

func TestMain(m *testing.M) {
	if bustest.RunServer() {
		return
	}
	m.Run()
}

// until calls act until it succeeds: a cluster elects leaders without an event for clients.
func until(t *testing.T, what string, act func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		attempt, end := context.WithTimeout(ctx, 2*time.Second)
		err := act(attempt)
		end()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// A stream survives kill -9 and a hanging server. It is missing after all servers lost their stores.
func TestProcessesFailAndReturn(t *testing.T) {
	t.Parallel()
	p := bustest.StartProcesses(t, false, natsconf.Cluster{Name: "prod", Pools: []natsconf.Pool{{Name: "web"}}})
	js, err := jetstream.New(p.Connect(t, roles.User{Role: roles.Admin, Cluster: "prod"}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	config := jetstream.StreamConfig{Name: "s", Subjects: []string{"weir.prod.decision.*"}, Replicas: 3}
	if _, err := js.CreateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	publish := func(ctx context.Context) error {
		_, err := js.Publish(ctx, "weir.prod.decision.web", nil)
		return err
	}
	if err := publish(ctx); err != nil {
		t.Fatal(err)
	}
	p.Kill(t, 0)
	until(t, "publish with two of three servers", publish)
	p.Restart(t, 0)
	p.Suspend(t, 1)
	p.Resume(t, 1)
	until(t, "publish with a resumed server", publish)
	p.Terminate(t, 2)
	for range 3 { // a reload that no test waits for, as when the terminal is closed
		if err := syscall.Kill(p.PID(t, 0), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		p.Reload(t, 0)
	}
	p.Kill(t, 0)
	p.Kill(t, 1)
	for i := range 3 {
		p.Empty(t, i)
	}
	p.Restart(t, 0, 1, 2)
	until(t, "read a stream of empty servers", func(ctx context.Context) error {
		_, err := js.Stream(ctx, "s")
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return errors.Join(err, errors.New("the stream is not missing"))
	})
}

// No two tests get the same port, and a server can listen on its port again.
func TestPortsAreReserved(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for _, port := range append(bustest.Ports(t, 20), bustest.Ports(t, 20)...) {
		if seen[port] || port >= 32768 {
			t.Errorf("port %d: given before %v", port, seen[port])
		}
		seen[port] = true
		for range 2 {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
	}
}
