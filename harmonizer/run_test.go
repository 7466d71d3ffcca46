package harmonizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/report"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// repeatedStarts returns the index starts that were repeated within the keep-alive.
func (w *world) repeatedStarts(keepAlive time.Duration) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	last := map[string]sentStart{}
	for _, s := range w.starts {
		key := fmt.Sprintf("%s/%d", s.app, s.index)
		if before, ok := last[key]; ok && s.at.Sub(before.at) < keepAlive {
			out = append(out, fmt.Sprintf("%s by %s, and after %v by %s", key, before.by, s.at.Sub(before.at), s.by))
		}
		last[key] = s
	}
	return out
}

func (w *world) startsBySender() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, s := range w.starts {
		if !slices.Contains(out, s.by) {
			out = append(out, s.by)
		}
	}
	return out
}

// TestStandbyTakesOver: one of two harmonizers leads. The other receives the same events, and
// takes over within the lease after the first ends.
func TestStandbyTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.rows["web"] = web(2)
		a := w.join("a").start(t, settings(), true)
		pass(t, time.Second)
		b := w.join("b").start(t, settings(), true)
		pass(t, 20*time.Second)
		if got := w.startsBySender(); !slices.Equal(got, []string{"a"}) || w.started() != 2 {
			t.Fatalf("%d starts by %v, want 2 by a", w.started(), got)
		}
		if !a.Leading() || b.Leading() {
			t.Errorf("a leads: %v, b leads: %v", a.Leading(), b.Leading())
		}
		st, err := b.Status(t.Context(), api.HarmonizerQuery{App: "web"})
		if err != nil || st.Leading || st.Leader != "a" || st.App == nil || st.App.Count.Running != 2 {
			t.Errorf("standby's Status = %+v, %v", st, err)
		}
		if err := b.Release(t.Context()); !errors.Is(err, ErrNotLeading) || !strings.Contains(err.Error(), "the leader is a") {
			t.Errorf("standby's Release = %v", err)
		}
		if answers, err := b.Report(t.Context(), report.SubjectHealth, []byte(`{"droplets":[{"droplet":"web"}]}`)); err != nil || answers != nil {
			t.Errorf("standby's Report = %s, %v, want none", answers, err)
		}
		a.stop(t)
		pass(t, 500*time.Millisecond) // it released the lease
		if !b.Leading() {
			t.Error("b does not lead after a ended")
		}
		pass(t, 30*time.Second) // the keep-alive of what a sent
		w.crash()
		pass(t, 3*time.Second)
		if got := w.startsBySender(); !slices.Equal(got, []string{"a", "b"}) || w.started() != 4 {
			t.Errorf("%d starts by %v, want 4 by a and b", w.started(), got)
		}
		b.stop(t)
	})
}

// TestKilledAtAnyWrite kills a harmonizer at each of its writes, before or after the write
// takes effect. The second harmonizer was a standby, or starts only then.
func TestKilledAtAnyWrite(t *testing.T) {
	for _, warm := range []bool{true, false} {
		for _, after := range []bool{false, true} {
			for name, scenario := range map[string]func(*testing.T, int, bool, bool) bool{"obeyed": killedObeyed, "not obeyed": killedNotObeyed} {
				for at := 1; ; at++ {
					died := false
					name := fmt.Sprintf("%s/warm=%v/after=%v/write %d", name, warm, after, at)
					if !t.Run(name, func(t *testing.T) { died = scenario(t, at, after, warm) }) || !died {
						break
					}
				}
			}
		}
	}
}

// killedObeyed: the node obeys nudges. The index is started once, and again after one more
// crash. The saved crash is not lost.
func killedObeyed(t *testing.T, at int, after, warm bool) (died bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.rows["web"] = web(1)
		p := w.pair(t, at, after, warm)
		pass(t, 14*time.Second)
		w.crash()
		pass(t, 5*time.Second)
		died = p.killFirst(t)
		saved := w.savedCrashes()
		pass(t, 90*time.Second)
		if n := len(w.running()); n != 1 {
			t.Errorf("%d copies run, want 1", n)
		}
		if n := w.started(); n > 2 {
			t.Errorf("%d starts, want 2 at most: one, and one after the crash", n)
		}
		if now := w.savedCrashes(); now < saved {
			t.Errorf("%d crashes are remembered, %d were saved", now, saved)
		}
		p.second.stop(t)
	})
	return died
}

// killedNotObeyed: the node ignores nudges. Each nudge is repeated, but never within its
// keep-alive.
func killedNotObeyed(t *testing.T, at int, after, warm bool) (died bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.ignoresNudges = true
		w.rows["web"] = web(2)
		p := w.pair(t, at, after, warm)
		pass(t, 14*time.Second)
		died = p.killFirst(t)
		pass(t, 80*time.Second)
		if again := w.repeatedStarts(30 * time.Second); len(again) > 0 {
			t.Errorf("started twice within the keep-alive: %v", again)
		}
		if n := w.started(); n < 4 {
			t.Errorf("%d starts, want them repeated after the keep-alive", n)
		}
		p.second.stop(t)
	})
	return died
}

// pair is a harmonizer that is killed, and the one that takes over.
type pair struct {
	w             *world
	first, second *running
}

// pair starts the first harmonizer, which dies at that write. If warm is set, it also starts
// the second.
func (w *world) pair(t *testing.T, at int, after, warm bool) *pair {
	t.Helper()
	m := w.join("a")
	m.killAt, m.after = at, after
	p := &pair{w: w, first: m.start(t, settings(), true)}
	pass(t, time.Second)
	if warm {
		p.second = w.join("b").start(t, settings(), true)
	}
	return p
}

// killFirst kills the first harmonizer, and reports whether it was dead already. It starts the
// second if needed.
func (p *pair) killFirst(t *testing.T) (died bool) {
	t.Helper()
	died = p.first.m.isDead()
	p.first.m.kill()
	p.first.stop(t)
	if p.second == nil {
		p.second = p.w.join("b").start(t, settings(), true)
	}
	return died
}

func (w *world) running() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for id := range w.runs {
		ids = append(ids, id)
	}
	return ids
}

func (w *world) savedCrashes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, m := range w.apps {
		for _, i := range m.Indices {
			n += i.Crashes
		}
	}
	return n
}

// TestRestartDoesNotRepeatStop: an ignored stop is repeated after its keep-alive. A harmonizer
// that starts after the first was killed does not repeat it earlier.
func TestRestartDoesNotRepeatStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.ignoresNudges = true
		w.rows["web"] = web(1)
		for i := range 2 {
			id := fmt.Sprintf("web-%d", i)
			w.runs[id] = api.Beat{App: "web", Version: "v1", Instance: id, Index: i, State: api.CopyRunning}
		}
		a := w.join("a").start(t, settings(), true)
		pass(t, 15*time.Second)
		if n := w.stopped(); n != 1 {
			t.Fatalf("%d stops, want 1: of index 1", n)
		}
		a.m.kill()
		a.stop(t)
		b := w.join("b").start(t, settings(), true)
		pass(t, 20*time.Second)
		if st, err := b.Status(t.Context(), api.HarmonizerQuery{}); err != nil || !st.Complete || w.stopped() != 1 {
			t.Errorf("%d stops within the keep-alive, want 1; complete %v, %v", w.stopped(), st.Complete, err)
		}
		pass(t, 15*time.Second)
		if n := w.stopped(); n != 2 {
			t.Errorf("%d stops after the keep-alive, want 2", n)
		}
		b.stop(t)
	})
}

// TestStartsSentWhileSaveFails: while the memory cannot be saved, starts are sent, stops wait,
// and an alarm is on.
func TestStartsSentWhileSaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.rows["web"] = web(2)
		for _, index := range []int{0, 7} { // 7 is extra, 1 is missing
			id := fmt.Sprintf("web-%d", index)
			w.runs[id] = api.Beat{App: "web", Version: "v1", Instance: id, Index: index, State: api.CopyRunning}
		}
		m := w.join("a")
		m.saveFail = 1 << 30
		a := m.start(t, settings(), true)
		pass(t, 60*time.Second)
		if w.started() != 1 || w.stopped() != 0 {
			t.Fatalf("%d starts and %d stops with a memory that cannot be saved, want 1 and 0", w.started(), w.stopped())
		}
		st, err := a.Status(t.Context(), api.HarmonizerQuery{})
		if err != nil || st.Counters["saves_failed"] == 0 || st.Counters["nudges_not_sent"] == 0 || st.Unwritten.IsZero() {
			t.Errorf("Status = %+v, %v, want failures to be counted, and an alarm", st, err)
		}
		w.mu.Lock()
		m.saveFail = 0
		w.mu.Unlock()
		pass(t, 10*time.Second)
		if st, err = a.Status(t.Context(), api.HarmonizerQuery{}); err != nil || !st.Unwritten.IsZero() || w.stopped() != 1 {
			t.Errorf("Status = %+v, %v, and %d stops, want no alarm and 1 stop once it can", st, err, w.stopped())
		}
		a.stop(t)
	})
}

// TestNoLeaderIsAnAlarm: while no harmonizer holds the lease, a standby reports since when. The alarm starts after two
// lengths of the lease, because a takeover on a cluster takes longer than one on a single server.
func TestNoLeaderIsAnAlarm(t *testing.T) {
	for _, c := range []struct{ lease, quiet time.Duration }{{0, 20 * time.Second}, {30 * time.Second, 50 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.rows["web"] = web(1)
			began := time.Now()
			w.until = began.Add(2 * time.Minute) // held by a process without a name
			cfg := settings()
			cfg.LeaseTTL = c.lease
			a := w.join("a").start(t, cfg, true)
			pass(t, c.quiet)
			if st, err := a.Status(t.Context(), api.HarmonizerQuery{}); err != nil || !st.NoLeader.IsZero() {
				t.Errorf("lease %v: no leader since %v after %v, %v, want no alarm yet", c.lease, st.NoLeader, c.quiet, err)
			}
			pass(t, 20*time.Second)
			if st, err := a.Status(t.Context(), api.HarmonizerQuery{}); err != nil || st.NoLeader.Sub(began) > time.Second || st.NoLeader.IsZero() {
				t.Errorf("lease %v: no leader since %v 20 s later, %v, want since the start", c.lease, st.NoLeader, err)
			}
			pass(t, 2*time.Minute)
			if st, err := a.Status(t.Context(), api.HarmonizerQuery{}); err != nil || !st.NoLeader.IsZero() || !st.Leading {
				t.Errorf("lease %v: no leader since %v, leading %v, %v, want no alarm while it leads", c.lease, st.NoLeader, st.Leading, err)
			}
			a.stop(t)
		})
	}
}

// TestFailedNudgeIsRetried: a nudge that could not be sent is sent again soon, before its
// keep-alive passes.
func TestFailedNudgeIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.rows["web"] = web(2)
		m := w.join("a")
		m.busFail = 3
		a := m.start(t, settings(), true)
		pass(t, 20*time.Second)
		if w.started() != 2 {
			t.Errorf("%d starts, want 2", w.started())
		}
		a.stop(t)
	})
}

// TestLeaseRunsOut: after the lease expires nothing is sent, although the harmonizer still
// leads in its own state.
func TestLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.rows["web"] = web(1)
		a := w.join("a").start(t, settings(), true)
		pass(t, 15*time.Second)
		w.mu.Lock()
		w.holder, w.until = "somebody", time.Now().Add(20*time.Second)
		w.mu.Unlock()
		w.crash()
		pass(t, 10*time.Second)
		if w.started() != 1 || a.Leading() {
			t.Errorf("%d starts, leading %v, want 1 and not", w.started(), a.Leading())
		}
		w.mu.Lock()
		if n := w.counts[len(w.counts)-1]; time.Since(n.At) < 5*time.Second {
			t.Error("counts published while another one leads")
		}
		w.mu.Unlock()
		pass(t, 20*time.Second)
		if w.started() != 2 || !a.Leading() {
			t.Errorf("%d starts, leading %v, want 2 and leading again", w.started(), a.Leading())
		}
		a.stop(t)
	})
}

// TestShutdownSavesPendingMemories: when a harmonizer ends, it saves what waits in the outbox.
func TestShutdownSavesPendingMemories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.rows["web"] = web(1)
		a := w.join("a").start(t, settings(), true)
		pass(t, 75*time.Second)
		w.crash()
		synctest.Wait()
		a.stop(t)
		if n := w.savedCrashes(); n != 1 {
			t.Errorf("%d crashes saved, want 1", n)
		}
		if w.nodes[message.Node{Name: "n1"}] == 0 {
			t.Errorf("nodes saved: %v, want n1", w.nodes)
		}
		if w.holder == "a" && time.Now().Before(w.until) {
			t.Error("the lease was not given back")
		}
	})
}

func TestOutboxIsBounded(t *testing.T) {
	h, err := New(settings(), Ports{}, discard)
	if err != nil {
		t.Fatal(err)
	}
	h.outbox.begin(1)
	nudges := make([]apps.Nudge, outboxLimit+7)
	if refused := h.outbox.queueNudges(nil, nudges); len(refused) != 7 {
		t.Errorf("put refused %d, want 7", len(refused))
	}
	if refused := h.outbox.queueNudges(nil, nudges[:2]); len(refused) != 2 {
		t.Errorf("put refused %d, want 2", len(refused))
	}
	if unsent := h.outbox.begin(0); len(unsent) != outboxLimit {
		t.Errorf("clear returned %d, want %d", len(unsent), outboxLimit)
	}
}
