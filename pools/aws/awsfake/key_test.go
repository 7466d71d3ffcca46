package awsfake_test

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// The log of requests has the access key that signed each one.
func TestCallsHaveTheirKey(t *testing.T) {
	w := newWorld(t, awsfake.Config{})
	answered(t, w.describe(t), "")
	if calls := w.Calls(); len(calls) != 1 || calls[0].Key != "AKID" {
		t.Errorf("calls %+v, want one with the key AKID", calls)
	}
}
