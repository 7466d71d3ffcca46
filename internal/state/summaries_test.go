package state_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/state"
)

// Summaries have a stream of their own, which the first one creates, with bounds of its own. More than one batch of
// them is read in order.
func TestSummaries(t *testing.T) {
	js := js(t)
	reader, err := state.OpenSummaries(t.Context(), js, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	wantLast(t, reader, "")
	wantRecorded(t, reader)
	l, err := state.NewSummaries(js, state.LedgerConfig{Cluster: "here", Pool: "web", SummaryAge: 48 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 1030 {
		want = append(want, fmt.Sprintf(`{"n":%d}`, i))
	}
	appendRecords(t, l, want...)
	appendRecords(t, openLedger(t, js, "web"), "a record")
	wantLast(t, reader, want[1029])
	wantRecorded(t, reader, want...)
	age, bytes, err := l.Kept(t.Context())
	if err != nil || age != 48*time.Hour || bytes != state.DefaultSummaryBytes {
		t.Errorf("Kept() = %v, %d, %v, want 48 h and the default", age, bytes, err)
	}
	stream, err := js.Stream(t.Context(), "weir-summaries:here:web")
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.Compression != jetstream.S2Compression || !c.DenyPurge || !c.DenyDelete || len(c.Subjects) != 1 {
		t.Errorf("the stream is %+v, want it compressed and locked, with one subject", c)
	}
	if pools, err := state.Pools(t.Context(), js, "here"); err != nil || strings.Join(pools, " ") != "web" {
		t.Errorf("Pools() = %v, %v, want web once", pools, err)
	}
}

// The stream is created although a subscriber hides that it is missing. The append that finds out fails.
func TestSummariesWithASubscriber(t *testing.T) {
	js := js(t)
	if _, err := js.Conn().SubscribeSync(state.SummarySubject("here", "web")); err != nil {
		t.Fatal(err)
	}
	l, err := state.NewSummaries(js, state.LedgerConfig{Cluster: "here", Pool: "web"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := l.Append(ctx, []byte("lost")); err == nil {
		t.Error("Append without a stream succeeds, want an error")
	}
	appendRecords(t, l, "kept")
	wantRecorded(t, l, "kept")
}
