package wheel

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Unix(1_400_000_000, 0)

func due[T any](w *Wheel[T], now time.Time) []T {
	var out []T
	w.Due(now, func(v T) { out = append(out, v) })
	return out
}

func TestDueIsExact(t *testing.T) {
	tests := []struct {
		name string
		wait time.Duration
	}{
		{"now", 0}, {"a nanosecond", 1}, {"within a tick", 50 * time.Millisecond}, {"a tick", 100 * time.Millisecond},
		{"30 seconds and one nanosecond", 30*time.Second + 1}, {"a turn", 512 * 100 * time.Millisecond},
		{"many turns", 10*512*100*time.Millisecond + 7}, {"a day", 24 * time.Hour},
	}
	for _, tt := range tests {
		for _, step := range []time.Duration{tt.wait, time.Second} {
			t.Run(tt.name, func(t *testing.T) {
				w := New[int](0)
				due(w, start)
				w.Add(start.Add(tt.wait), 1)
				for at := step; at < tt.wait; at += max(step, tt.wait/1000) {
					if got := due(w, start.Add(at)); got != nil {
						t.Fatalf("due %v after %v", got, at)
					}
				}
				if got := due(w, start.Add(tt.wait-1)); got != nil {
					t.Errorf("due %v a nanosecond early", got)
				}
				if got := due(w, start.Add(tt.wait)); !slices.Equal(got, []int{1}) || w.Len() != 0 {
					t.Errorf("due %v in time, %d left", got, w.Len())
				}
			})
		}
	}
}

func TestItemAddedInDueIsDueNextTime(t *testing.T) {
	w := New[int](0)
	w.Add(start, 1)
	w.Add(start, 2)
	var got []int
	w.Due(start, func(v int) {
		got = append(got, v)
		w.Add(start, v+10)
		w.Add(start.Add(time.Hour), v+100)
	})
	if want := []int{1, 2}; !slices.Equal(got, want) || w.Len() != 4 {
		t.Fatalf("due %v, want %v; %d left", got, want, w.Len())
	}
	if got, want := due(w, start), []int{11, 12}; !slices.Equal(got, want) {
		t.Errorf("then due %v, want %v", got, want)
	}
	if got, want := due(w, start.Add(10*time.Hour)), []int{101, 102}; !slices.Equal(got, want) {
		t.Errorf("at last due %v, want %v", got, want)
	}
}

func TestItemDueBeforeFirstDueCall(t *testing.T) {
	w := New[int](time.Second)
	w.Add(start, 1)
	w.Add(start.Add(-time.Hour), 2)
	if got := due(w, start.Add(-time.Minute)); !slices.Equal(got, []int{2}) {
		t.Errorf("due %v, want 2", got)
	}
	if got := due(w, start); !slices.Equal(got, []int{1}) {
		t.Errorf("due %v, want 1", got)
	}
}

// TestWheelIsAList compares a wheel with a list that is searched.
func TestWheelIsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := New[int](rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, time.Hour}).Draw(t, "tick"))
		list := map[int]time.Time{}
		now := start
		steps := rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, 99 * time.Millisecond, time.Second, time.Minute, time.Hour, 1e4 * time.Hour})
		for i := range rapid.IntRange(1, 100).Draw(t, "operations") {
			if rapid.Bool().Draw(t, "add") {
				list[i] = now.Add(steps.Draw(t, "wait")).Add(-rapid.SampledFrom([]time.Duration{0, 0, time.Minute}).Draw(t, "ago"))
				w.Add(list[i], i)
				continue
			}
			now = now.Add(steps.Draw(t, "step"))
			var want []int
			for v, at := range list {
				if !at.After(now) {
					want = append(want, v)
					delete(list, v)
				}
			}
			got := due(w, now)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || w.Len() != len(list) {
				t.Fatalf("due %v, want %v; %d left, want %d", got, want, w.Len(), len(list))
			}
		}
	})
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	w, now := New[int](0), start
	for i := range 100 {
		w.Add(start.Add(time.Duration(i)*300*time.Millisecond), i)
	}
	turn := func() {
		now = now.Add(100 * time.Millisecond)
		w.Due(now, func(v int) { w.Add(now.Add(30*time.Second), v) })
	}
	for range 5000 {
		turn()
	}
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations a turn", n)
	}
}

func BenchmarkDue(b *testing.B) {
	b.Run("nothing of a million", func(b *testing.B) {
		w, now := New[uint64](0), start
		for i := range uint64(1_000_000) {
			w.Add(start.Add(time.Hour), i)
		}
		for b.Loop() {
			now = now.Add(time.Microsecond)
			w.Due(now, func(uint64) {})
		}
	})
	b.Run("add and due", func(b *testing.B) {
		w, now := New[uint64](0), start
		for b.Loop() {
			now = now.Add(100 * time.Millisecond)
			w.Add(now.Add(30*time.Second), 1)
			w.Due(now, func(uint64) {})
		}
	})
}
