package apps

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/weirkeeper/weirkeeper/api"
)

// stepped returns now as time.Now would return it after the wall clock was set by by. The
// monotonic reading stays. The only way to make such a value is to change the seconds in its
// first word, from bit 30 on.
func stepped(t *testing.T, now time.Time, by time.Duration) time.Time {
	t.Helper()
	set := now
	*(*uint64)(unsafe.Pointer(&set)) += uint64(by/time.Second) << 30
	if set.Sub(now) != 0 || set.Round(0).Sub(now.Round(0)) != by {
		t.Fatalf("time.Time has another layout: %v became %v", now, set)
	}
	return set
}

// TestClocksMayBeSet: if our clock or a node's clock is set, no copy becomes missing. A node
// that is silent later is lost at the right time.
func TestClocksMayBeSet(t *testing.T) {
	for _, ours := range []time.Duration{-time.Hour, 0, time.Hour} {
		for _, theirs := range []time.Duration{-time.Hour, 0, time.Hour} {
			t.Run(fmt.Sprintf("ours by %v, a node's by %v", ours, theirs), func(t *testing.T) {
				m, now := NewMachine(steady()), time.Now()
				node := now // the node's clock
				apply := func(ev Event) []Nudge { return settle(m, now, ev) }
				apply(BusUp{})
				apply(Lead{})
				apply(ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 8}}})
				apply(ExpectedComplete{ValidFor: 3 * time.Minute})
				run := func(d time.Duration, beats bool) (started []time.Duration) {
					for at := time.Duration(0); at < d; at += time.Second {
						if beats && at%(10*time.Second) == 0 {
							apply(nodeBeat(node, 8))
						}
						now, node = now.Add(time.Second), node.Add(time.Second)
						if len(apply(Tick{})) > 0 {
							started = append(started, at+time.Second)
						}
					}
					return started
				}
				if got := run(30*time.Second, true); got != nil {
					t.Fatalf("nudged before at %v", got)
				}
				now, node = stepped(t, now, ours), node.Add(theirs)
				if got := run(60*time.Second, true); got != nil || m.apps.total.Missing+m.apps.total.Extra > 0 {
					t.Errorf("nudged after it at %v, totals %+v", got, m.apps.total)
				}
				if complete, why := m.View().Complete(); !complete {
					t.Errorf("incomplete: %s", why)
				}
				if got := run(25*time.Second, false); len(got) != 1 || got[0] != 21*time.Second {
					t.Errorf("nudged %v after the last beat but 10 s, want it once, at 21 s", got)
				}
				apply(Exit{Exited: api.Exited{App: "web", Version: "v1", Instance: "i7", Index: 7, Reason: api.ExitCrashed, CrashedAt: node.Unix()}})
				if c := m.View().Crashes("web"); len(c) != 1 || !c[0].At.Equal(now) {
					t.Errorf("Crashes = %+v, want one, now", c)
				}
			})
		}
	}
}

func nodeBeat(now time.Time, n int) Heartbeat {
	beats := make([]api.Beat, n)
	for i := range beats {
		beats[i] = api.Beat{App: "web", Version: "v1", Instance: fmt.Sprint("i", i), Index: i, State: api.CopyRunning,
			Since: float64(now.Unix())}
	}
	return beat("n1", beats...)
}

// TestMemoryOfAnotherClock: the new leader may have another clock than the old one. A nudge is
// not repeated at once, and not delayed beyond its keep-alive.
func TestMemoryOfAnotherClock(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			now := start()
			boot := func(m *Machine, lead Lead) {
				settle(m, now, BusUp{})
				settle(m, now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 1}}})
				settle(m, now, ExpectedComplete{})
				settle(m, now, lead)
			}
			first, second := NewMachine(steady()), NewMachine(steady())
			boot(first, Lead{})
			now = now.Add(12 * time.Second)
			if n := settle(first, now, Tick{}); len(n) != 1 {
				t.Fatalf("nudged %v", n)
			}
			memories := first.Memories()
			now = now.Add(by)
			boot(second, Lead{Memories: memories})
			from := now
			for len(settle(second, now, Tick{})) == 0 {
				if now = now.Add(time.Second); now.Sub(from) > time.Minute {
					t.Fatal("nothing is nudged within a minute")
				}
			}
			if took := now.Sub(from); took < 11*time.Second {
				t.Errorf("nudged after %v, before both states can be whole", took)
			}
		})
	}
}
