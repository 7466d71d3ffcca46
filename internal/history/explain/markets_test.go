package explain

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// A pool that distributes by cost names what each group costs, and which prices are unknown or gone. Other pools do not.
func TestMarketsOfAPool(t *testing.T) {
	gone := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := api.TickRecord{Result: &api.CaseResult{}, Detail: &api.TickDetail{}, Case: &api.Case{Markets: []api.GroupMarket{
		{Group: "a", Market: "spot m5 in z", PerHour: new(0.036), Cost: new(0.0367), Interruptions: 0.0417, Hours: 611.52, Short: "no capacity", Trial: 2},
		{Group: "b", Market: "on-demand m5 in z", PerHour: new(0.1), Cost: new(0.1), Gone: gone, Why: "no price of on-demand m5 in z"},
		{Group: "c", Why: "no machine of it has run yet"},
	}}}
	if Markets(r) != nil || oldMarkets(r) != nil {
		t.Errorf("a balanced pool has lines: %q %q", Markets(r), oldMarkets(r))
	}
	r.Case.Input.Policy.Distribution = api.DistributeCheapest
	want := []string{
		"group a: spot m5 in z, 0.036 an hour for a weight of 1; 30 interruptions of a machine in 30 days (from 611.5 machine-hours), so it counts as 0.0367; " +
			"it grows by 2 as a trial while others have room, because it had no capacity: no capacity",
		"group b: on-demand m5 in z, 0.1 an hour for a weight of 1, the last known price, gone since 2026-03-01T12:00:00Z: no price of on-demand m5 in z",
		"group c: its market is unknown: no machine of it has run yet",
	}
	if got := Markets(r); !slices.Equal(got, want) {
		t.Errorf("lines\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	old := []string{
		"the prices have no price of group b since 2026-03-01T12:00:00Z, so the last known one counts: no price of on-demand m5 in z",
		"the price of group c is unknown, so it is the last to grow: no machine of it has run yet",
	}
	if got := oldMarkets(r); !slices.Equal(got, old) {
		t.Errorf("problems\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(old, "\n"))
	}
	var text bytes.Buffer
	if writeGroups(&text, r); !strings.Contains(text.String(), "  "+want[1]+"\n") {
		t.Errorf("explain has no line of group b:\n%s", &text)
	}
	if m, known := Market(r, "b"); !known || m.Group != "b" {
		t.Errorf("Market = %+v, %t", m, known)
	}
}
