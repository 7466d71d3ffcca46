package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
)

// A ledger that is not read up to its end has no last decision: the last record that was
// read is an old one.
func TestLastDecisionOfALedgerReadInPart(t *testing.T) {
	t.Parallel()
	decided, err := json.Marshal(autoscaler.Record{Schema: resolve.Schema, Case: &resolve.Case{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{{"read to its end", nil, true}, {"read in part", context.DeadlineExceeded, false}} {
		got := newestDecided(time.Now(), func(_ time.Time, visit func([]byte) error) error {
			if err := visit(decided); err != nil {
				return err
			}
			return tc.err
		})
		if (got != nil) != tc.want {
			t.Errorf("%s: last decision %v, want one: %t", tc.name, got, tc.want)
		}
	}
}
