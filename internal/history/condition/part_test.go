package condition

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// A part of the pool that is unknown or gone is one condition, with the time since when, although the problems name it too.
func TestPartsAreConditions(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	unread := api.Part{Kind: api.PartGroup, Name: "a", State: api.PartUnknown, Since: now.Add(-time.Minute), Why: "throttled"}
	gone := api.Part{Kind: api.PartGroup, Name: "b", State: api.PartGone, Since: now}
	marks := api.Part{Kind: api.PartFact, Name: "marks of instances", State: api.PartUnknown, Since: now, Why: "ec2:DescribeTags on tags: no"}
	s := api.Summary{At: now, Every: time.Minute, Parts: []api.Part{unread, gone, marks}, Problems: []string{unread.String(), gone.String(), marks.String(), "other"}}
	var got []string
	for _, c := range Of(now, &s, Facts{}) {
		got = append(got, c.Word+" "+c.Key+" "+Duration(now.Sub(c.Since)))
	}
	want := []string{"Part unknown part/group a 60 s", "Part gone part/group b 0 s", "Part unknown part/marks of instances 0 s", "Problem problem/3 "}
	if len(got) != len(want) || !slices.Equal(got[:3], want[:3]) || got[3][:len(want[3])] != want[3] {
		t.Errorf("conditions %q, want %q", got, want)
	}
}
