package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// away is a Fetcher whose bucket is unavailable.
type away struct{ requested atomic.Int64 }

func (f *away) Fetch(context.Context, release.Ref) (release.Installed, error) {
	f.requested.Add(1)
	return release.Installed{}, errors.New("away")
}

// appProcessOf returns an app process without processes.
func appProcessOf(t testing.TB, p SignalPlan, f Fetcher) *appProcess {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	var trial api.Trial
	if p.Shadow != nil {
		trial = newTrial(p, time.Now())
	}
	s, err := newAppProcess(dependencies{config: Config{Log: log}, log: log, releaseCache: newReleaseCache(f), stream: newStream(nil, nil, nil, log)}, p, trial)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addCandidate adds a candidate.
func (s *appProcess) addCandidate(t testing.TB, p SignalPlan, shadow bool, at place) {
	t.Helper()
	c, err := newSignal(s, p, limitedRestarts())
	if err != nil {
		t.Fatal(err)
	}
	c.setPlace(at)
	s.candidate, s.shadow, s.listed = c, shadow, true
}

func trying(shadow string) SignalPlan {
	p := NewSignalPlan("web", "ns", "n", "v1")
	p.Shadow = &ShadowPlan{Version: shadow, PromoteAfter: 1}
	return p
}

// The address of a dropped candidate stays reserved until the autoscaler has followed.
func TestAddressOfDroppedCandidateStaysReserved(t *testing.T) {
	p := NewSignalPlan("web", "ns", "n", "v2")
	s := appProcessOf(t, p, nil)
	s.reserveLocked(s.current, p.place(0))
	s.leaving[p.place(1).address] = 5
	for _, c := range []struct {
		followed int
		want     place
	}{{4, p.place(2)}, {5, p.place(1)}} {
		next, err := newSignal(s, p, limitedRestarts())
		if err != nil {
			t.Fatal(err)
		}
		if at, err := s.settleLocked(next, nil, c.followed); err != nil || at != c.want {
			t.Errorf("with revision %d followed it is placed at %+v, %v, want %+v", c.followed, at, err, c.want)
		}
		s.releaseLocked(next)
	}
}

// The documented address is for the signal, even if a shadow starts first.
func TestShadowLeavesDocumentedAddress(t *testing.T) {
	p := trying("v2")
	s := appProcessOf(t, p, nil)
	s.addCandidate(t, p.promoted(), true, place{})
	shadow, err := s.settleLocked(s.candidate, nil, 0)
	own, errOwn := s.settleLocked(s.current, nil, 0)
	if err != nil || errOwn != nil || shadow != p.place(1) || own != p.place(0) {
		t.Errorf("the shadow is placed at %+v (%v), the signal at %+v (%v), want the documented place for the signal", shadow, err, own, errOwn)
	}
}

// An answer counts only for the processes that are current.
func TestAnswerOfOtherProcessIsIgnored(t *testing.T) {
	v2, v3 := trying("v2"), trying("v3")
	at := v2.place(1)
	agrees := Answer{App: "web", Version: "v2", Address: at.address, Candidate: true, Verdict: "value", Compared: true}
	failed := Answer{App: "web", Version: "v2", Address: at.address, Candidate: true, Verdict: VerdictFailed, Why: "EOF"}
	changed := func(a Answer, change func(*Answer)) Answer { change(&a); return a }
	for _, c := range []struct {
		name          string
		plan          SignalPlan // of the app
		currentShadow SignalPlan // the shadow beside it
		answer        Answer
		want          api.TrialOutcome
	}{
		{"the shadow agrees", v2, v2, agrees, api.TrialPromoted},
		{"the shadow fails", v2, v2, failed, api.TrialDiverged},
		{"an old shadow agrees, that is still seated", v3, v2, agrees, api.TrialUndecided},
		{"an old shadow fails, that is still seated", v3, v2, failed, api.TrialUndecided},
		{"an old shadow failed, whose address the new one has", v3, v3, failed, api.TrialUndecided},
		{"another address", v2, v2, changed(failed, func(a *Answer) { a.Address += "x" }), api.TrialUndecided},
		{"the signal itself", v2, v2, changed(failed, func(a *Answer) { a.Candidate = false }), api.TrialUndecided},
		{"a group, while none runs", v2, v2, changed(agrees, func(a *Answer) { a.Group = 7 }), api.TrialPromoted},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := appProcessOf(t, c.plan, nil)
			s.addCandidate(t, c.currentShadow.promoted(), true, at)
			s.receive(c.answer)
			if s.trial.Outcome != c.want || s.trial.Shadow != c.plan.Shadow.Version {
				t.Errorf("trial %+v, want %q", s.trial, c.want)
			}
		})
	}
}

func TestAnswerOfOtherCandidateIsIgnored(t *testing.T) {
	p := NewSignalPlan("web", "ns", "n", "v2")
	s := appProcessOf(t, p, nil)
	s.addCandidate(t, p, false, p.place(1))
	a := Answer{App: "web", Version: "v1", Address: p.place(1).address, Candidate: true, Verdict: VerdictFailed}
	if s.receive(a); s.verdict != "" {
		t.Errorf("verdict %q of another version, want none", s.verdict)
	}
	a.Version = "v2"
	if s.receive(a); s.verdict != VerdictFailed {
		t.Errorf("verdict %q, want %q", s.verdict, VerdictFailed)
	}
}

// A process keeps its request configuration until the wanted version runs.
func TestRequestConfigFollowsProcess(t *testing.T) {
	requesting := func(version, requestConfig string) SignalPlan {
		p := NewSignalPlan("web", "ns", "n", version)
		p.RequestConfig = requestConfig
		return p
	}
	s := appProcessOf(t, requesting("v1", "a"), nil)
	want := func(when, own, beside string) {
		t.Helper()
		e := s.entry()
		got := ""
		if e.Candidate != nil {
			got = e.Candidate.RequestConfig
		}
		if e.RequestConfig != own || got != beside {
			t.Errorf("%s: asked with %q, and beside it %q, want %q and %q", when, e.RequestConfig, got, own, beside)
		}
	}
	want("at first", "a", "")
	s.replan(requesting("v1", "b"))
	limited := requesting("v1", "b")
	limited.TimeLimit = time.Minute
	s.replan(limited)
	want("with another question", "b", "")
	if s.plan.TimeLimit != time.Minute {
		t.Errorf("time limit %v, want that of the new plan", s.plan.TimeLimit)
	}
	if s.next() != taskNone {
		t.Error("another question and time limit are another process, want none")
	}
	s.replan(requesting("v2", "c"))
	want("while another version is wanted", "b", "")
	if s.next() != taskSwap {
		t.Error("another version is no other process, want one")
	}
	s.addCandidate(t, s.wantedLocked(), false, s.plan.place(1))
	want("with a candidate", "b", "c")
	s.replan(requesting("v2", "d"))
	want("with another question for the candidate", "b", "d")
	before := s.candidate
	limited = requesting("v2", "d")
	limited.Limits.OpenFiles = 100
	s.replan(limited)
	want("with another candidate wanted", "b", "d")
	s.replan(requesting("v1", "e"))
	want("back again", "e", "d")
	s.candidate = nil
	s.replan(requesting("v2", "f"))
	s.candidate = before
	s.setRequestsLocked()
	s.current, s.candidate = s.candidate, nil
	want("after the switch", "f", "")
}

func TestRequestConfigOfShadow(t *testing.T) {
	p := trying("v2")
	p.RequestConfig = "a"
	s := appProcessOf(t, p, nil)
	s.addCandidate(t, p.promoted(), true, p.place(1))
	other := trying("v2")
	other.RequestConfig = "b"
	s.replan(other)
	if e := s.entry(); e.RequestConfig != "b" || e.Candidate.RequestConfig != "b" {
		t.Errorf("asked with %q, the shadow %q, want both with b", e.RequestConfig, e.Candidate.RequestConfig)
	}
	elsewhere := other
	elsewhere.Version, elsewhere.RequestConfig = "v0", "c"
	s.replan(elsewhere)
	if e := s.entry(); e.RequestConfig != "b" || e.Candidate.RequestConfig != "b" {
		t.Errorf("while another version is wanted asked with %q, the shadow %q, want both with b", e.RequestConfig, e.Candidate.RequestConfig)
	}
}

// The largest directory fits into a line.
func TestDirectoryFitsItsLine(t *testing.T) {
	long := strings.Repeat("\x01", 3*maxRemark)
	endpoint := Endpoint{Address: long[:maxAddress], Group: 1 << 22, Version: long[:128], Down: prose.Marked(long, maxRemark)}
	yanked := endpoint
	yanked.Yanked = prose.Marked(long, maxRemark)
	d := Directory{Revision: 1 << 40, Config: make([]byte, MaxPlanConfig)}
	for range maxSignals {
		d.Signals = append(d.Signals, Entry{App: long[:maxAddress], Endpoint: yanked, Candidate: &Candidate{Endpoint: endpoint, Tolerance: 1e-100}})
	}
	line, n := lineOf(t, d), 2*MaxRequestConfigs
	if got := line + n + 2*maxSignals*len(`,"question":`); got >= maxDirectory {
		t.Errorf("the largest line has %d bytes, at most %d", got, maxDirectory)
	}
}

// The autoscaler learns with the next revision that a running release is yanked, and nothing without a change.
func TestDirectoryHasYanks(t *testing.T) {
	s := appProcessOf(t, NewSignalPlan("web", "ns", "n", "v1"), &away{})
	b := &Bootstrap{appProcesses: []*appProcess{s}}
	b.stream = newStream(b.directory, b.receive, func(string) {}, s.log)
	running := s.running(b.directory().Signals[0].Version)
	for _, why := range []map[release.Ref]string{{running: "it leaks"}, {running: "it leaks"}, {}} {
		b.SetYanked(why)
		if got := b.directory().Signals[0].Yanked; got != why[running] {
			t.Errorf("the directory has %q, want %q", got, why[running])
		}
	}
}

func TestFetchPauseEndsOnRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &away{}
		s := appProcessOf(t, NewSignalPlan("web", "ns", "n", "v1"), f)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { ended <- s.current.awaitRelease(ctx) }()
		<-time.After(10 * time.Minute) // time in the synctest bubble
		synctest.Wait()
		before, now := f.requested.Load(), time.Now()
		s.current.restart("requested")
		synctest.Wait()
		if n := f.requested.Load(); n != before+1 || time.Since(now) != 0 {
			t.Errorf("%d fetches %v after a restart was asked for, want another at once", n-before, time.Since(now))
		}
		<-time.After(time.Second)
		if f.requested.Load() == before+1 {
			t.Error("no fetch in the second after that, want the pauses to begin anew")
		}
		stop()
		if <-ended {
			t.Error("the release is here, want it not")
		}
	})
}

func TestSignalWithoutResponseIsHung(t *testing.T) {
	const silent, answers = true, false
	type received struct {
		at     time.Duration
		silent bool
	}
	for _, c := range []struct {
		name     string
		limit    time.Duration
		received []received
		dead     bool
	}{
		{"nothing", 0, nil, false},
		{"once", 0, []received{{0, silent}}, false},
		{"twice, soon", 0, []received{{0, silent}, {29 * time.Second, silent}}, false},
		{"twice, long apart", 0, []received{{0, silent}, {30 * time.Second, silent}}, true},
		{"twice, each after its time limit", time.Minute, []received{{0, silent}, {time.Minute, silent}}, false},
		{"twice, longer apart than its time limit", time.Minute, []received{{0, silent}, {90 * time.Second, silent}}, true},
		{"three times, each after its time limit", time.Minute, []received{{0, silent}, {time.Minute, silent}, {2 * time.Minute, silent}}, true},
		{"twice, with an answer between", 0, []received{{0, silent}, {10 * time.Minute, answers}, {20 * time.Minute, silent}}, false},
		{"three times, soon", 0, []received{{0, silent}, {1, silent}, {2, silent}}, true},
		{"three times, with an answer between", 0, []received{{0, silent}, {1, silent}, {2, answers}, {3, silent}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s silence
			now := time.Unix(1_700_000_000, 0)
			for _, h := range c.received {
				if _, dead := s.dead(now, c.limit); dead {
					t.Fatal("dead too early")
				}
				now = time.Unix(1_700_000_000, 0).Add(h.at)
				s = s.after(h.silent, now)
			}
			if why, dead := s.dead(now, c.limit); dead != c.dead {
				t.Errorf("dead = %v (%s), want %v", dead, why, c.dead)
			}
		})
	}
}

func lineOf(t testing.TB, d Directory) int {
	t.Helper()
	line, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return len(line)
}
