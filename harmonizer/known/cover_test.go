package known

import "testing"

// TestCoveredIsReportedOnce waits for an absent copy to return, which adds no other change.
func TestCoveredIsReportedOnce(t *testing.T) {
	s := New(config())
	covered := func(seconds float64, beats ...string) (n int) {
		sendHeartbeat(t, s, at(seconds), "n1", beats...)
		for _, c := range s.Changes() {
			if c.Kind == Covered {
				n++
			}
		}
		return n
	}
	const web = "web/0 a v1 RUNNING"
	covered(0, web)
	id := s.App("web")
	s.Hold(id)
	s.Want(id, 1)
	if got := s.Uncovered(id); got != 0 {
		t.Fatalf("Uncovered = %d, want 0", got)
	}
	covered(10)
	if got := s.Uncovered(id); got != 1 {
		t.Fatalf("Uncovered = %d while the only copy is absent, want 1", got)
	}
	s.AwaitCovered(id)
	if got := covered(20, web); got != 1 {
		t.Fatalf("%d changes of kind covered when the copy is listed again, want 1", got)
	}
	covered(30)
	if got := covered(40, web); got != 0 {
		t.Fatalf("%d changes of kind covered without AwaitCovered, want 0", got)
	}
}
