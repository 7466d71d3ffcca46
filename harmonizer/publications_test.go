package harmonizer

import (
	"testing"
	"time"
)

func TestPublicationsDue(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	for _, tt := range []struct {
		name       string
		apps       int
		after      time.Duration // the first publication
		revision   uint64        // the first publication had revision 1
		due, whole bool
	}{
		{"nothing changed", 1, 9 * time.Second, 1, false, false},
		{"period has passed", 1, 10 * time.Second, 1, true, true},
		{"small pool changed", 200, 200 * time.Millisecond, 2, true, false},
		{"medium pool changed, gap has not passed", 201, 999 * time.Millisecond, 2, false, false},
		{"medium pool changed, gap has passed", 201, time.Second, 2, true, false},
		{"large pool changed, gap has not passed", 30_000, 2999 * time.Millisecond, 2, false, false},
		{"large pool changed, gap has passed", 30_000, 3 * time.Second, 2, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := publications{period: 10 * time.Second, last: map[string]publication{}}
			if due, whole := p.due(start, "p", 1); !due || !whole {
				t.Fatalf("first: due %v, whole %v", due, whole)
			}
			p.record(start, "p", 1, tt.apps, true)
			if due, whole := p.due(start.Add(tt.after), "p", tt.revision); due != tt.due || whole != tt.whole {
				t.Errorf("due %v, whole %v; want %v, %v", due, whole, tt.due, tt.whole)
			}
		})
	}
}
