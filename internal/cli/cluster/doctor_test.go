package cluster

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/cli/doctor"
)

// The last line of doctor counts what its lines say, and names each failed check once.
func TestLastLineOfDoctorCountsItsLines(t *testing.T) {
	all := []doctor.Finding{
		{Check: "configuration", Result: doctor.OK}, {Check: "streams", Result: doctor.Failed}, {Check: "streams", Result: doctor.Failed},
		{Check: "scheduler", Result: doctor.Warned}, {Check: "bootstrap", Result: doctor.Failed}, {Check: "signal users", Result: doctor.Unknown},
	}
	if got := failedChecks(all).Error(); got != "1 ok, 1 warning, 1 unknown, 3 failed: streams, bootstrap" {
		t.Errorf("%q", got)
	}
}
