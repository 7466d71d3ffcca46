package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// Summaries have a stream of their own. More than one batch of them is read in order.
func TestSummaries(t *testing.T) {
	js := js(t)
	l, err := state.OpenSummaries(t.Context(), js, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	wantLast(t, l, "")
	wantRecorded(t, l)
	var want []string
	for i := range 1030 {
		want = append(want, fmt.Sprintf(`{"n":%d}`, i))
	}
	appendRecords(t, l, want...)
	appendRecords(t, openLedger(t, js, "web"), "a record")
	wantLast(t, l, want[1029])
	wantRecorded(t, l, want...)
	age, bytes, err := l.Kept(t.Context())
	if err != nil || age != streams.SummaryAge || bytes != streams.SummaryBytes {
		t.Errorf("Kept() = %v, %d, %v, want the defaults", age, bytes, err)
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
