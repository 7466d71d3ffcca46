package kvbucket_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

// Check distinguishes what a cluster answers in its states. The answers are those of real servers.
func TestAnswersOfACluster(t *testing.T) {
	info := func(cluster string) string {
		return `{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"KV_b","max_msgs_per_subject":1},` +
			`"created":"2026-03-01T12:00:00Z","state":{"last_seq":7},"cluster":` + cluster + `}`
	}
	for name, c := range map[string]struct {
		answer string // "": none
		want   error
	}{
		"single server": {info("null"), nil},
		"healthy":       {info(`{"leader":"n0","replicas":[{"name":"n1"},{"name":"n2"}]}`), nil},
		"one replica offline": {
			info(`{"leader":"n0","replicas":[{"name":"n1","offline":true},{"name":"n2"}]}`), nil},
		"two replicas offline": {
			info(`{"leader":"n0","replicas":[{"name":"n1","offline":true},{"name":"n2","offline":true}]}`), kvbucket.ErrNoQuorum},
		"no leader":        {info(`{"replicas":[{"name":"n1"},{"name":"n2"}]}`), kvbucket.ErrNoQuorum},
		"no leader at all": {`{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`, kvbucket.ErrNoQuorum},
		"stream offline":   {`{"error":{"code":500,"err_code":10118,"description":"stream is offline"}}`, kvbucket.ErrNoQuorum},
		"missing":          {`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`, kvbucket.ErrMissing},
		"election":         {"", kvbucket.ErrNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			nc := bustest.Connect(t, bustest.Serve(t, server.Options{}).ClientURL())
			if _, err := nc.Subscribe("$JS.API.STREAM.INFO.KV_b", func(m *nats.Msg) {
				if c.answer != "" {
					m.Respond([]byte(c.answer)) //nolint:errcheck // the test fails without the answer
				}
			}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
			defer cancel()
			if c.answer == "" {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
			}
			js := streams(t, nc)
			if _, err := kvbucket.Check(ctx, js, "b"); !errors.Is(err, c.want) || kvbucket.Unavailable(err) != (c.want != nil) {
				t.Errorf("Check = %v, want %v", err, c.want)
			}
		})
	}
}
