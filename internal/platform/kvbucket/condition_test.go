package kvbucket_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

// Each state of the bus has its own line: the problem, what follows and what to do.
func TestConditions(t *testing.T) {
	const offline = `{"name":"n1","offline":true},{"name":"n2","offline":true}`
	for condition, c := range map[string]struct {
		answer string // to the request for the stream's info
		err    error
		text   []string
	}{
		"well": {answer: `{"config":{"name":"KV_weir-apps_here"},"created":"2026-03-01T12:00:00Z"}`},
		"missing": {answer: `{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`, err: kvbucket.ErrMissing,
			text: []string{"does not exist", "no pool shrinks at first"}},
		"no leader": {answer: `{"config":{"name":"KV_weir-apps_here"},"cluster":{"replicas":[{"name":"n1"},{"name":"n2"}]}}`, err: kvbucket.ErrNoQuorum,
			text: []string{"no quorum", "nothing is scaled", "start its other servers", "may be old"}},
		"no quorum": {answer: `{"config":{"name":"KV_weir-apps_here"},"state":{"last_ts":"2026-03-02T12:00:00Z"},"cluster":{"leader":"n0","replicas":[` + offline + `]}}`, err: kvbucket.ErrNoQuorum,
			text: []string{"1 of 3 replicas are up", "the last write was at 2026-03-02T12:00:00Z;", "start its other servers"}},
	} {
		t.Run(condition, func(t *testing.T) {
			nc := bustest.Connect(t, bustest.Serve(t, server.Options{}).ClientURL())
			if _, err := nc.Subscribe("$JS.API.STREAM.INFO.KV_weir-apps_here", func(m *nats.Msg) {
				m.Respond([]byte(`{"type":"io.nats.jetstream.api.v1.stream_info_response",` + c.answer[1:])) //nolint:errcheck // the test fails without it
			}); err != nil {
				t.Fatal(err)
			}
			got := kvbucket.Observe(within(t), streams(t, nc), name)
			if !errors.Is(got.Err, c.err) || (got.String() == "") != (c.err == nil) {
				t.Fatalf("Observe = %v, want %v", got, c.err)
			}
			for _, part := range c.text {
				if !strings.Contains(got.String(), part) {
					t.Errorf("Observe = %q, want %q in it", got, part)
				}
			}
		})
	}
}

// A process without a connection reports it, and does not wait for an answer.
func TestConditionWithoutAConnection(t *testing.T) {
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	lost := make(chan struct{}, 1)
	nc := bustest.Connect(t, s.ClientURL(), nats.DisconnectErrHandler(func(*nats.Conn, error) { lost <- struct{}{} }), nats.ReconnectBufSize(-1))
	s.Shutdown()
	<-lost
	if got := kvbucket.Observe(within(t), streams(t, nc), name); !errors.Is(got.Err, kvbucket.ErrUnreachable) || !strings.Contains(got.String(), "run on") {
		t.Errorf("Observe = %v, want %v", got, kvbucket.ErrUnreachable)
	}
}
