package disruption

import "testing"

func TestBudget(t *testing.T) {
	out := map[string]Kind{"n1": Quarantine, "n2": Repair}
	for _, test := range []struct {
		name   string
		budget Budget
		node   string
		others int
		room   bool
		text   string
	}{
		{"nothing is out", Budget{Limit: 1}, "n0", 0, true, ""},
		{"two are out, two may be", Budget{2, out}, "n0", 2, false, "1 by quarantine, 1 by repair"},
		{"its own place does not count", Budget{2, out}, "n1", 1, true, "1 by quarantine, 1 by repair"},
		{"three may be", Budget{3, out}, "n0", 2, true, "1 by quarantine, 1 by repair"},
		{"without a budget", Budget{0, out}, "n0", 2, true, "1 by quarantine, 1 by repair"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := test.budget
			if others, room, text := b.Others(test.node), b.Room(test.node), b.String(); others != test.others || room != test.room || text != test.text {
				t.Errorf("%d others are out, room: %t, %q, want %d, %t, %q", others, room, text, test.others, test.room, test.text)
			}
		})
	}
}
