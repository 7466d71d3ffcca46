package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/resource"
)

// advised returns the record of a tick whose app needs one node, and whose advisor has an opinion.
func advised(o api.Opinion, held ...api.HeldRequest) api.TickRecord {
	c := steady(0.7)
	c.Input.Default.Verdict = api.VerdictNoOpinion
	c.Input.Apps[0].Raise = []api.AdvisorInput{{Name: "web~calendar", Opinion: o, HoldFor: time.Minute}}
	c.State.Held = held
	c.Input.State = c.State.DecisionState
	return record(c)
}

// TestSummaryOfAdvisors: an advisor has an entry of its own below its app, whose request includes the advice.
func TestSummaryOfAdvisors(t *testing.T) {
	raise := api.Opinion{Signal: "weir/calendar", Verdict: api.VerdictValue, Request: cpus(4.2), At: noon, Latency: time.Millisecond}
	s := SummaryOf(advised(raise))
	want := []api.AppSummaryTick{{
		Name: "web", Request: *list(4.2), Version: "v1",
		Raise: []api.AppSummaryTick{{Name: "web~calendar", Request: *list(4.2), Latency: time.Millisecond}},
	}}
	if diff := cmp.Diff(want, s.Apps); diff != "" {
		t.Errorf("apps (-want +got):\n%s", diff)
	}
	if s.Rule != api.RuleTarget && s.Rule != api.RuleAdvisors {
		t.Errorf("rule %q, why %q", s.Rule, s.Why)
	}
	if i := slices.IndexFunc(s.Holds, func(h api.Hold) bool { return h.Name == string(api.RuleAdvisors) }); i < 0 ||
		s.Holds[i].Direction != api.DirectionDown || !strings.HasPrefix(s.Holds[i].Why, "web~calendar raises web to 4.2 cpus") {
		t.Errorf("holds %+v, want that of the advisor", s.Holds)
	}

	last := []api.HeldRequest{{App: "web~calendar", Kind: resource.CPUs, Value: 4.2, At: noon.Add(-time.Minute)}}
	failed := api.Opinion{Signal: "weir/calendar", Verdict: api.VerdictFailed, Why: "no answer", At: noon}
	for _, c := range []struct {
		record api.TickRecord
		source api.RequestSource
		word   string
	}{
		{advised(failed, last...), api.FromHeld, "advisor web~calendar failed; its last value counts"},
		{advised(failed), "", "advisor web~calendar failed; it raises nothing"},
	} {
		s := SummaryOf(c.record)
		if a := s.Apps[0].Raise[0]; a.Source != c.source || a.Verdict != api.VerdictFailed || s.Apps[0].Verdict != "" {
			t.Errorf("advisor %+v, of the app %+v, want source %q", a, s.Apps[0], c.source)
		}
		all := condition.Of(noon, &s, condition.Facts{})
		if all[0].Key != "signal/web~calendar" || all[0].Word != "Advisor failed" || all[0].Why != c.word {
			t.Errorf("conditions %+v, want %q", all, c.word)
		}
	}
	s = SummaryOf(advised(api.Opinion{Verdict: api.VerdictNoOpinion, Why: "next is office hours"}))
	for _, h := range s.Holds {
		if h.Name == string(api.RuleAdvisors) {
			t.Errorf("an advisor without an opinion holds: %+v", h)
		}
	}
}
