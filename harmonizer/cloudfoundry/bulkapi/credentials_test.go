package bulkapi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

func TestBusCredentials(t *testing.T) {
	url := bustest.Serve(t, server.Options{Port: -1}).ClientURL()
	cc := bustest.Connect(t, url)
	request := func(timeout time.Duration) (Login, error) {
		return BusCredentials(cc, "cf", timeout)(t.Context())
	}
	if _, err := request(patience); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without an answer: %v", err)
	}
	answers := make(chan string, 1)
	_, err := cc.Subscribe("cloudcontroller.bulk.credentials.cf", func(m *nats.Msg) {
		if len(m.Data) > 0 {
			t.Errorf("asked with %q, want nothing", m.Data)
		}
		if a := <-answers; a != "" {
			_ = m.Respond([]byte(a))
		}
	})
	if err != nil || cc.Flush() != nil {
		t.Fatal(err)
	}
	answers <- `{"user":"u","password":"p"}`
	if c, err := request(patience); err != nil || c != (Login{User: "u", Password: "p"}) {
		t.Errorf("BusCredentials = %v", err)
	}
	answers <- `{"user":"u"}`
	if _, err := request(patience); err == nil {
		t.Error("credentials without a password are taken")
	}
	answers <- ""
	if _, err := request(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
}

func TestDecodeLogin(t *testing.T) {
	got, err := decodeLogin([]byte(`{"user":"bulk","password":"s3cret"}`))
	if err != nil || got != (Login{"bulk", "s3cret"}) {
		t.Errorf("decodeLogin = %v, %v", got, err)
	}
	for _, bad := range []string{`{"user":"s3cret"}`, `{"password":"s3cret"}`, `{"user":7,"password":"s3cret"}`,
		`{"user":"u","password":"` + strings.Repeat("s3cret", 200) + `"}`, `s3cret`} {
		if _, err := decodeLogin([]byte(bad)); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("decodeLogin(%.40s) = %v", bad, err)
		}
	}
}

func FuzzDecodeLogin(f *testing.F) {
	f.Add([]byte(`{"user":"u","password":"p"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, err := decodeLogin(data); err == nil && (l.User == "" || len(l.Password) > maxSecret) {
			t.Errorf("decodeLogin(%q) = %+v", data, l)
		}
	})
}
