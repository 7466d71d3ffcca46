package placerbus_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
)

// A second program that answers where the copies fit is noticed with the next question, also if it is the slower one. From then on no
// answer counts, until one program answers alone.
func TestSecondSchedulerIsNoticed(t *testing.T) {
	t.Parallel()
	bus := localtest.NewBus(t)
	q := placerbus.NewQuestions(bus.Conn, "c", "p")
	get := func() error {
		_, err := q.Get(t.Context(), api.PlacesQuestion{})
		return err
	}
	if err := get(); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without a scheduler: %v, want nats.ErrNoResponders", err)
	}
	subject, answer := message.PlacesSubject("c", "p"), []byte(`{"body": {"nodes": 0, "waiting": 0}}`)
	bustest.Subscribe(t, bus.Conn, subject, func(m *nats.Msg) {
		if err := m.Respond(answer); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		if err := get(); err != nil {
			t.Errorf("with one scheduler: %v", err)
		}
	}
	second := bustest.SubscribeSync(t, bus.Conn, subject)
	for i := range 3 {
		if err := get(); (err != nil) != (i > 0) || i > 0 && !errors.Is(err, placerbus.ErrSeveralSchedulers) {
			t.Errorf("question %d to two programs: %v, want ErrSeveralSchedulers after the first", i, err)
		}
		m, err := second.NextMsg(await.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(m.Respond(answer), bus.Conn.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(second.Unsubscribe(), bus.Conn.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := get(); !errors.Is(err, placerbus.ErrSeveralSchedulers) {
		t.Errorf("the question before was answered twice: %v", err)
	}
	if err := get(); err != nil {
		t.Errorf("with one scheduler again: %v", err)
	}
}
