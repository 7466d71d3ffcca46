package kvbucket_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

// On a connection of a daemon a call without permission fails at once, and not at its deadline.
func TestNoPermissionFailsAtOnce(t *testing.T) {
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{{
		Username: "little", Password: "little",
		Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"other"}}},
	}}})
	b, err := bus.Open(t.Context(), bus.Config{
		NATS: bus.NATS{Servers: []string{fmt.Sprintf("nats://little:little@%s", s.Addr())}}, Name: t.Name(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	state := kvbucket.New(b.JetStream(), name)
	_, errGet := state.Get(ctx, "k")
	_, errUpdate := state.Update(ctx, "k", nil, 0)
	_, errCheck := kvbucket.Check(ctx, b.JetStream(), state.Name())
	for name, err := range map[string]error{"Get": errGet, "Update": errUpdate, "Check": errCheck} {
		if !errors.Is(err, kvbucket.ErrNoPermission) || kvbucket.Unavailable(err) {
			t.Errorf("%s = %v, want %v", name, err, kvbucket.ErrNoPermission)
		}
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the calls took %v: they waited for their deadline", took)
	}
}
