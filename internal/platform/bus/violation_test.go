package bus_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// limited runs a server where user "all" may do everything, and user "some" only the permitted acts.
func limited(t *testing.T, allowed server.Permissions) (all, some *bus.Bus) {
	t.Helper()
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{
		{Username: "all", Password: "p"}, {Username: "some", Password: "p", Permissions: &allowed},
	}})
	open := func(user string) *bus.Bus {
		return connectTo(t, bus.NATS{Servers: []string{s.ClientURL()}, User: user, PasswordFile: secret(t, "p")}, io.Discard)
	}
	return open("all"), open("some")
}

// Each call has a minute. A call that waits for its deadline returns no violation.
func TestForbiddenCallsFailAtOnce(t *testing.T) {
	all, some := limited(t, server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.KV_open", "$JS.API.DIRECT.GET.KV_open.$KV.open.mine", "$KV.open.mine", "free"}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := all.JetStream().CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "open"}); err != nil {
		t.Fatal(err)
	}
	js := some.JetStream()
	raw := js.(interface {
		Request(ctx context.Context, subject string, data []byte) (*nats.Msg, error)
	})
	stream, err := js.Stream(ctx, "KV_open")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "$KV.open.mine", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		call func() error
		want string
	}{
		"request":           {func() error { _, err := bus.Request(ctx, some.Conn(), "forbidden.x", nil); return err }, "publish to forbidden.x"},
		"account":           {func() error { _, err := js.AccountInfo(ctx); return err }, "publish to $JS.API.INFO"},
		"open a stream":     {func() error { _, err := js.Stream(ctx, "closed"); return err }, "publish to $JS.API.STREAM.INFO.closed"},
		"create a stream":   {func() error { _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "closed"}); return err }, "publish to $JS.API.STREAM.CREATE.closed"},
		"publish":           {func() error { _, err := js.Publish(ctx, "$KV.open.other", nil); return err }, "publish to $KV.open.other"},
		"read by sequence":  {func() error { _, err := stream.GetMsg(ctx, 1); return err }, "publish to $JS.API.DIRECT.GET.KV_open"},
		"delete a stream":   {func() error { return js.DeleteStream(ctx, "KV_open") }, "publish to $JS.API.STREAM.DELETE.KV_open"},
		"read last message": {func() error { _, err := stream.GetLastMsgForSubject(ctx, "$KV.open.no"); return err }, "publish to $JS.API.DIRECT.GET.KV_open.$KV.open.no"},
		"list streams": {func() error {
			names := js.StreamNames(ctx)
			for range names.Name() {
			}
			return names.Err()
		}, "publish to $JS.API.STREAM.NAMES"},
		"raw request": {func() error { _, err := raw.Request(ctx, "$JS.API.DIRECT.GET.KV_open.$KV.open.no", nil); return err }, "publish to $JS.API.DIRECT.GET.KV_open.$KV.open.no"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.call()
			v, ok := errors.AsType[*bus.Violation](err)
			if !ok || !errors.Is(err, nats.ErrPermissionViolation) {
				t.Fatalf("err = %v, want a violation", err)
			}
			if text := v.Error(); !strings.HasPrefix(text, tc.want) || !strings.Contains(text, `user "some" of nats.user`) || !strings.Contains(text, "weir doctor") {
				t.Errorf("error %q, want the subject, the user and the remedy", text)
			}
		})
	}
	if m, err := raw.Request(ctx, "$JS.API.DIRECT.GET.KV_open.$KV.open.mine", nil); err != nil || string(m.Data) != "x" {
		t.Errorf("allowed read: %v, %v", m, err)
	}
	if _, err := bus.Request(ctx, some.Conn(), "free", nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("allowed request without a responder: %v, want %v", err, nats.ErrNoResponders)
	}
}

// While a request is under way, a violation of another request does not end it.
func TestViolationEndsOnlyItsCall(t *testing.T) {
	all, some := limited(t, server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{"slow"}}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	})
	received := make(chan *nats.Msg, 1)
	if _, err := all.Conn().ChanSubscribe("slow", received); err != nil {
		t.Fatal(err)
	}
	if err := all.Conn().FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := bus.Request(ctx, some.Conn(), "slow", nil)
		answered <- err
	}()
	m := <-received
	if _, err := bus.Request(ctx, some.Conn(), "forbidden", nil); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("forbidden request: %v, want a violation", err)
	}
	if err := m.Respond(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("allowed request: %v", err)
	}
}

// Without a subscription for its responses, a request fails at once, the second one too.
func TestForbiddenInboxFailsEveryRequest(t *testing.T) {
	all, some := limited(t, server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{">"}}, Subscribe: &server.SubjectPermission{Allow: []string{"x"}},
	})
	if _, err := all.Conn().Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := all.Conn().FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 2 {
		_, err := bus.Request(ctx, some.Conn(), "echo", nil)
		if v, ok := errors.AsType[*bus.Violation](err); !ok || v.Op != "subscribe" {
			t.Errorf("err = %v, want a violation of the subscription", err)
		}
	}
}

func TestServerWithoutJetStreamIsNamed(t *testing.T) {
	s := bustest.Serve(t, server.Options{})
	b := connectTo(t, bus.NATS{Servers: []string{s.ClientURL()}}, io.Discard)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := b.JetStream().AccountInfo(ctx)
	if err == nil || !strings.Contains(err.Error(), "enable JetStream on the NATS servers") {
		t.Errorf("err = %v, want the remedy", err)
	}
}
