package bootstrap_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
)

// Answers of a shadow.
var (
	agrees     = bootstrap.Answer{Candidate: true, Verdict: "value", Compared: true}
	differs    = bootstrap.Answer{Candidate: true, Verdict: "value", Compared: true, Difference: "cpus 4, not 3"}
	alone      = bootstrap.Answer{Candidate: true, Verdict: "value"}
	stale      = bootstrap.Answer{Candidate: true, Verdict: "stale", Why: "old"}
	failed     = bootstrap.Answer{Candidate: true, Verdict: bootstrap.VerdictFailed, Why: "garbage"}
	noResponse = bootstrap.Answer{Candidate: true, Verdict: bootstrap.VerdictFailed, Silent: true}
	tomorrow   = time.Unix(1_700_086_400, 0)
)

func TestTrial(t *testing.T) {
	crash := func(t api.Trial) api.Trial { return bootstrap.TrialCrashed(t, tomorrow, "killed") }
	loop := func(t api.Trial) api.Trial { return bootstrap.TrialGivenUp(t, tomorrow, "exit status 1") }
	for _, c := range []struct {
		name         string
		answers      []bootstrap.Answer
		then         func(api.Trial) api.Trial
		promoteAfter int
		want         api.Trial
	}{
		{name: "nothing yet", promoteAfter: 2},
		{name: "agrees, not often enough", answers: []bootstrap.Answer{agrees, agrees}, promoteAfter: 3, want: api.Trial{Agreeing: 2, Compared: 2}},
		{name: "agrees often enough", answers: []bootstrap.Answer{agrees, alone, stale, agrees}, promoteAfter: 2, want: api.Trial{Outcome: api.TrialPromoted, Agreeing: 2, Compared: 2, Since: tomorrow}},
		{name: "never promoted", answers: []bootstrap.Answer{agrees, agrees, agrees}, want: api.Trial{Agreeing: 3, Compared: 3}},
		{name: "what is not compared does not count", answers: []bootstrap.Answer{alone, stale, alone}, promoteAfter: 1, want: api.Trial{}},
		{name: "differs", answers: []bootstrap.Answer{agrees, differs, agrees, agrees}, promoteAfter: 2, want: api.Trial{Outcome: api.TrialDiverged, Why: "cpus 4, not 3", Difference: "cpus 4, not 3", Compared: 2, Since: tomorrow}},
		{name: "differs, but is only compared", answers: []bootstrap.Answer{agrees, differs, agrees}, want: api.Trial{Agreeing: 1, Difference: "cpus 4, not 3", Compared: 3}},
		{name: "fails", answers: []bootstrap.Answer{failed}, promoteAfter: 1, want: api.Trial{Outcome: api.TrialDiverged, Why: "it failed: garbage", Since: tomorrow}},
		{name: "is silent", answers: []bootstrap.Answer{agrees, noResponse}, promoteAfter: 2, want: api.Trial{Outcome: api.TrialDiverged, Why: "it accepted the connection and sent no response", Agreeing: 1, Compared: 1, Since: tomorrow}},
		{name: "crashes", answers: []bootstrap.Answer{agrees}, then: crash, promoteAfter: 2, want: api.Trial{Outcome: api.TrialCrashed, Why: "killed", Agreeing: 1, Compared: 1, Since: tomorrow}},
		{name: "crashes after it was promoted", answers: []bootstrap.Answer{agrees}, then: crash, promoteAfter: 1, want: api.Trial{Outcome: api.TrialPromoted, Agreeing: 1, Compared: 1, Since: tomorrow}},
		{name: "given up after it was promoted", answers: []bootstrap.Answer{agrees}, then: loop, promoteAfter: 1, want: api.Trial{Outcome: api.TrialRolledBack, Why: "exit status 1", Agreeing: 1, Compared: 1, Since: tomorrow}},
		{name: "given up before", then: loop, promoteAfter: 1, want: api.Trial{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got api.Trial
			for _, a := range c.answers {
				got = bootstrap.Answered(got, tomorrow, a, c.promoteAfter)
			}
			if c.then != nil {
				got = c.then(got)
			}
			if got != c.want {
				t.Errorf("trial = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestTrialProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		promoteAfter := rapid.IntRange(0, 5).Draw(t, "promote after")
		answers := rapid.SliceOfN(rapid.SampledFrom([]bootstrap.Answer{agrees, agrees, agrees, alone, stale, differs, failed, noResponse}), 0, 40).Draw(t, "answers")
		var trial api.Trial
		bad := false
		for i, a := range answers {
			before := trial
			trial = bootstrap.Answered(trial, tomorrow.Add(time.Duration(i)), a, promoteAfter)
			if before.Outcome != api.TrialUndecided && trial != before {
				t.Fatalf("trial %+v became %+v after its end", before, trial)
			}
			bad = bad || a == differs && promoteAfter > 0 || a == failed || a == noResponse
			if bad && trial.Outcome == api.TrialUndecided {
				t.Fatalf("trial %+v goes on after %+v", trial, a)
			}
			if trial.Outcome == api.TrialPromoted && (promoteAfter == 0 || trial.Agreeing != promoteAfter) {
				t.Fatalf("trial %+v was promoted, want %d that agree", trial, promoteAfter)
			}
		}
	})
}
