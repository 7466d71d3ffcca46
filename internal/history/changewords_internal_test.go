package history

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// The event of a tick that failed has the cause in a sentence.
func TestEventNamesAFailedTick(t *testing.T) {
	for c, want := range map[api.Change]string{
		{What: failureEntry, To: "read groups: timeout"}:   "the tick failed: read groups: timeout",
		{What: failureEntry, From: "read groups: timeout"}: "the tick succeeded again",
		{What: "target", From: "6", To: "9"}:               "target 6 -> 9",
	} {
		if got := changeWords(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
