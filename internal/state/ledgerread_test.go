package state_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/state"
)

// Since reads more records than one batch, with parts between them, and none that is written while it reads.
func TestSinceReadsInBatches(t *testing.T) {
	js := js(t)
	l := openLedger(t, js, "web")
	var want []string
	for n := range 150 {
		want = append(want, fmt.Sprintf("record %d", n))
	}
	want[70] = incompressible(3 << 20) // of several parts, longer than the bound of a batch with its neighbours
	appendRecords(t, l, want...)
	var got []string
	err := l.Since(t.Context(), time.Now().Add(-time.Hour), func(r []byte) error {
		got = append(got, string(r))
		return l.Append(t.Context(), []byte("later"))
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Since visits %d records, %v, want the %d that existed at the call", len(got), err, len(want))
	}
}

// A stream that an operator created without direct gets is an error with a remedy, not an empty ledger.
func TestSinceWithoutDirectGets(t *testing.T) {
	js := js(t)
	c := state.LedgerConfig{Cluster: "here", Pool: "web"}.Stream()
	c.AllowDirect = false
	if _, err := js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l := openLedger(t, js, "web")
	appendRecords(t, l, "one")
	err := l.Since(t.Context(), time.Now().Add(-time.Hour), func([]byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "allows direct gets") {
		t.Errorf("Since = %v, want an error that names direct gets", err)
	}
}
