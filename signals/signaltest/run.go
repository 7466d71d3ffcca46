package signaltest

import "context"

// TB is the part of a test that [Run] uses; *testing.T implements it. This package does not import testing, so programs
// can use it.
type TB interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Run runs all checks on a program. Each failed check is an error of the test. The requests contain metrics that the
// program may not use; [RunTarget] can send better ones.
func Run(t TB, binary string) {
	t.Helper()
	RunTarget(t, Target{Path: binary})
}

// RunTarget is Run for a target with its own arguments, parameters or request.
func RunTarget(t TB, target Target) {
	t.Helper()
	reports, err := Test(t.Context(), target)
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	var answers Answers
	for r := range reports {
		answers = answers.Merge(r.Answers)
		switch r.Result {
		case Passed:
			t.Logf("%s passed in %v", r.Name, r.Duration)
		case Failed:
			t.Errorf("%s failed: %s\nwant: %s\nwhat to do: %s", r.Name, r.Problem, r.What, r.Fix)
		case NotRun:
			t.Logf("%s was not run: %s", r.Name, r.Problem)
		}
	}
	t.Logf("%d answers had a value, %d had none", answers.Values, answers.None)
}
