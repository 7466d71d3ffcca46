package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
)

func TestEpochs(t *testing.T) {
	var e epochs
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		epoch, code string
	}{
		{"", ""}, {"3", ""}, {"3", ""}, {"2", wire.CodeStale}, {"", ""}, {"x", call.CodeInvalid}, {"-1", call.CodeInvalid}, {"4", ""}, {"3", wire.CodeStale},
	} {
		h := nats.Header{}
		if test.epoch != "" {
			h.Set(wire.HeaderEpoch, test.epoch)
		}
		code := ""
		if refusal, ok := errors.AsType[*call.Error](e.check(now, h)); ok {
			code = refusal.Code
		}
		if code != test.code {
			t.Errorf("epoch %q: code %q, want %q", test.epoch, code, test.code)
		}
	}
	e.announced(now, nats.Header{wire.HeaderEpoch: {"9"}, wire.HeaderPool: {"other"}}, "p")
	if e.latest != 4 {
		t.Errorf("after the announcement of another pool: %d, want 4", e.latest)
	}
	e.announced(now, nats.Header{wire.HeaderEpoch: {"9"}, wire.HeaderPool: {"p"}}, "p")
	if e.latest != 9 {
		t.Errorf("after an announcement: %d, want 9", e.latest)
	}
	if err := e.check(now.Add(lateFor), nats.Header{wire.HeaderEpoch: {"1"}}); err != nil {
		t.Errorf("the epoch of a bus that has lost its state: %v", err)
	}
}
