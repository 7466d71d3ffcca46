package call

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	return bustest.Connect(t, bustest.Serve(t, server.Options{}).ClientURL())
}

type value struct {
	N int `json:"n"`
}

func TestRequest(t *testing.T) {
	nc := connect(t)
	serve := func(subject string, body any, err error) {
		if _, subErr := nc.Subscribe(subject, func(m *nats.Msg) {
			if err := Respond(m, 4096, body, err); err != nil {
				t.Error(err)
			}
		}); subErr != nil {
			t.Fatal(subErr)
		}
	}
	serve("ok", value{7}, nil)
	serve("refused", nil, &Error{"taken", "it is taken"})
	serve("broken", nil, errors.New("disk full"))
	serve("large", strings.Repeat("x", 5000), nil)
	if _, err := nc.Subscribe("garbage", func(m *nats.Msg) { _ = m.Respond([]byte("{")) }); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("silent", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}

	var got value
	if err := Request(t.Context(), nc, "ok", value{1}, &got); err != nil || got.N != 7 {
		t.Errorf("ok = %+v, %v", got, err)
	}
	if err := Request(t.Context(), nc, "ok", value{1}, nil); err != nil {
		t.Errorf("ok, not decoded: %v", err)
	}
	for subject, code := range map[string]string{"refused": "taken", "broken": codeInternal, "large": codeTooLarge} {
		err := Request(t.Context(), nc, subject, value{}, nil)
		if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Code != code {
			t.Errorf("%s: %v, want code %s", subject, err, code)
		}
	}
	if err := Request(t.Context(), nc, "garbage", value{}, nil); err == nil {
		t.Error("garbage: no error")
	}
	if err := Request(t.Context(), nc, "nobody", value{}, nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without a server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := Request(ctx, nc, "silent", value{}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silent: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"n":1}`))
	f.Add([]byte(`{"n":1}{`))
	f.Add([]byte(`{"m":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v value
		err := Decode(data, 64, &v)
		if len(data) > 64 && err == nil {
			t.Error("longer than the limit, and no error")
		}
		if refusal, ok := errors.AsType[*Error](err); err != nil && (!ok || refusal.Code != CodeInvalid) {
			t.Errorf("Decode(%q) = %v, want a refusal", data, err)
		}
	})
}
