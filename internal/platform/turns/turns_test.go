package turns

import (
	"sync/atomic"
	"testing"
	"time"
)

// Never more tests have a turn than there are turns, over two binaries too: each has its own Turns.
func TestTurnsAreBounded(t *testing.T) {
	folder := t.TempDir()
	binaries := []*Turns{{folder: folder, count: 2}, {folder: folder, count: 2}}
	var now, most, ran atomic.Int64
	t.Run("all", func(t *testing.T) {
		for i := range 12 {
			t.Run("test", func(t *testing.T) {
				t.Parallel()
				binaries[i%2].Take(t)
				n := now.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					continue
				}
				<-time.After(5 * time.Millisecond)
				ran.Add(1)
				now.Add(-1)
			})
		}
	})
	if most.Load() > 2 || ran.Load() != 12 {
		t.Errorf("%d tests at the same time, and %d ran; want at most 2, and 12", most.Load(), ran.Load())
	}
}

// A test takes one turn, however many installations it and its subtests start.
func TestSubtestsShareTheTurn(t *testing.T) {
	turns := &Turns{folder: t.TempDir(), count: 1}
	t.Run("parent", func(t *testing.T) {
		turns.Take(t)
		turns.Take(t)
		t.Run("child", func(t *testing.T) { turns.Take(t) })
	})
	turns.Take(t) // it was given back
}
