package signaltest

import "context"

// TB is what [Run] needs of a test; *testing.T has it. The package testing is not
// imported, so that a program can be made with this one.
type TB interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Run runs all checks over a program, an error of the test for each that fails.
// The program is asked about metrics that it may not know; [RunTarget] asks
// better questions.
func Run(t TB, binary string) {
	t.Helper()
	RunTarget(t, Target{Path: binary})
}

// RunTarget is Run for a target with arguments, parameters or a question of its
// own.
func RunTarget(t TB, target Target) {
	t.Helper()
	reports, err := Test(t.Context(), target)
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	var answers Answers
	for r := range reports {
		answers = answers.Plus(r.Answers)
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
