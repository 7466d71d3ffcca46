package explain

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// A closed window is shown while work waits for it.
func TestWindowLines(t *testing.T) {
	const roll, scaleIn = "roll waits for window nights", "scale_in waits for window nights"
	kept := []api.KeptNode{{Why: api.KeptNoScaleIn, Nodes: 2}}
	rolls := &api.Rotation{Rules: []api.RotationRule{{Left: 1, Waits: roll}}}
	for _, c := range []struct {
		name string
		edit func(*api.TickRecord)
		want []string
	}{
		{"nothing to do", func(*api.TickRecord) {}, nil},
		{"a machine too many", func(r *api.TickRecord) { r.Detail.Kept, r.Detail.Excess = kept, 1 }, []string{scaleIn}},
		{"a replacement of a marked machine", func(r *api.TickRecord) {
			r.Detail.Kept, r.Detail.Excess, r.Case.Rotation = kept, 1, rolls
			r.Case.State.Groups = map[string]api.GroupState{"a": {Surge: 1}}
		}, []string{roll}},
		{"refused for another cause", func(r *api.TickRecord) {
			r.Detail.Kept, r.Detail.Excess, r.Detail.Refused = kept, 1, "a node is silent"
		}, nil},
		{"both", func(r *api.TickRecord) {
			r.Detail.Kept, r.Detail.Excess, r.Case.Rotation = kept, 1, rolls
		}, []string{roll, scaleIn}},
		{"no decision", func(r *api.TickRecord) { r.Detail = nil }, nil},
	} {
		r := api.TickRecord{Case: &api.Case{Closed: map[api.Work]string{api.WorkRoll: roll, api.WorkScaleIn: scaleIn}}, Detail: &api.TickDetail{}}
		if c.edit(&r); !slices.Equal(WindowLines(r), c.want) {
			t.Errorf("%s: %q, want %q", c.name, WindowLines(r), c.want)
		}
	}
}

// A group whose machines never join has one line: during the backoff for it, that of the backoff.
func TestOneLineForMachinesThatNeverJoin(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	why := api.Boots{Failed: 3, Last: "i-1"}.FailedText()
	stuck := "group a does not grow: " + why
	r := api.TickRecord{Case: &api.Case{Stuck: map[string]string{"a": stuck}}, Result: &api.CaseResult{}, Detail: &api.TickDetail{}}
	r.State.Clock = noon
	for _, c := range []struct {
		backoff string // its cause
		until   time.Time
		want    int
	}{{"", noon, 1}, {why, noon.Add(time.Minute), 0}, {why, noon, 1}, {"no capacity", noon.Add(time.Minute), 1}} {
		r.State.Backoffs = []api.GroupBackoff{{Group: "a", Why: c.backoff, Until: c.until, Failures: 1}}
		if got := neverJoin(r); len(got) != c.want {
			t.Errorf("backoff for %q until %v: %q, want %d lines", c.backoff, c.until, got, c.want)
		}
		var text bytes.Buffer
		if writeGroups(&text, r); strings.Count(text.String(), why) != 1 {
			t.Errorf("backoff for %q until %v: %q", c.backoff, c.until, &text)
		}
	}
}
