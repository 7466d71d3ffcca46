package ask

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// A process that replaces another in the middle of an evaluation has the whole time limit.
func TestProcessIsReplacedDuringItsEvaluation(t *testing.T) {
	t.Parallel()
	next := Endpoint{Address: "next", Version: "v2"}
	tests := []struct {
		name    string
		replace func(*pool)
		results string // versions and verdicts
	}{
		{"listed beside it, and it ends", func(w *pool) {
			w.directory.set(next, nil)
			w.Follow(w.t.Context(), time.Now())
			close(w.clients.dead["web"])
		}, "v1 failed, v2 value"},
		{"it dies, and another is listed", func(w *pool) {
			close(w.clients.dead["web"])
			w.directory.set(Endpoint{Address: "web", Down: "backoff"}, nil)
			w.Follow(w.t.Context(), time.Now())
			synctest.Wait()
			w.directory.set(next, nil)
			w.Follow(w.t.Context(), time.Now())
		}, "v1 failed, v2 value"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			takes := map[string]time.Duration{"web": 5 * time.Second, "next": 45 * time.Second, "mail": 0, "default": 0}
			underVirtualTime(t, takes, func(w *pool) {
				w.tick(0, 5*time.Second)
				w.results()
				w.clients.mu.Lock()
				w.clients.takes["web"] = 50 * time.Second
				w.clients.mu.Unlock()
				w.tick(300*time.Second, 10*time.Second)
				w.until(330 * time.Second)
				test.replace(w)
				w.tick(360*time.Second, 0)
				w.want(api.VerdictValue, 5, "")
				w.tick(380*time.Second, 0)
				if o := w.want(api.VerdictValue, 45, ""); o.Version != "v2" {
					t.Errorf("opinion %+v, want it of v2", o)
				}
				var got []string
				for _, r := range w.results() {
					got = append(got, r.Version+" "+string(r.Verdict))
				}
				if s := strings.Join(got, ", "); s != test.results {
					t.Errorf("results %s, want %s", s, test.results)
				}
				w.tick(400*time.Second, 0)
				if requests, open := w.clients.count("next"); requests != 1 || open != 1 {
					t.Errorf("%d requests over %d connections to the new process, want 1 over 1", requests, open)
				}
				if _, open := w.clients.count("web"); open != 0 {
					t.Errorf("%d connections to the old process, want none", open)
				}
			})
		})
	}
}

// Whatever ends an evaluation in progress ends its requests and closes its connections, and it has
// no effect. underVirtualTime checks that nothing is left.
func TestEvaluationUnderWayEnds(t *testing.T) {
	t.Parallel()
	slowly := map[string]time.Duration{"web": 45 * time.Second, "beside": 50 * time.Second, "mail": 0, "default": 0}
	change := func(do func(*Signal)) func(*pool) {
		return func(w *pool) {
			w.config.Signals = slices.Clone(w.config.Signals)
			do(&w.config.Signals[2])
			w.Reconfigure(w.config)
		}
	}
	tests := []struct {
		name string
		end  func(*pool)
		ends bool
	}{
		{"closed", func(w *pool) { w.Close() }, true},
		{"another signal", change(func(s *Signal) { s.Name = "Other" }), true},
		{"another time limit", change(func(s *Signal) { s.TimeLimit = 2 * time.Minute }), true},
		{"other parameters", change(func(s *Signal) { s.Parameters = map[string]any{"headroom": 2} }), true},
		{"another request of the process", func(w *pool) {
			other := web
			other.Request = &RequestSpec{Parameters: map[string]any{"headroom": 2}}
			w.directory.set(other, w.directory.listing.Candidates)
		}, true},
		{"another process, which the evaluation follows", func(w *pool) {
			w.directory.set(Endpoint{Address: "mail", Version: "v3"}, w.directory.listing.Candidates)
		}, false},
		{"the signal is gone", func(w *pool) {
			w.config.Signals = w.config.Signals[:2]
			w.Reconfigure(w.config)
		}, true},
		{"held for longer", change(func(s *Signal) { s.HoldFor = time.Hour }), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			underVirtualTime(t, slowly, func(w *pool) {
				w.directory.set(web, map[string]Candidate{"web": {Endpoint: Endpoint{Address: "beside", Version: "v2"}, Shadow: true}})
				w.tick(0, 10*time.Second)
				w.until(15 * time.Second)
				test.end(w)
				if took := time.Since(w.began); took != 15*time.Second {
					t.Errorf("the end took %v", took-15*time.Second)
				}
				w.Follow(w.t.Context(), time.Now())
				if got := !slices.ContainsFunc(w.signals, func(s *signalState) bool { return s.inProgress != nil }); got != test.ends {
					t.Errorf("ended: %t, want %t", got, test.ends)
				}
				if test.ends {
					w.wantNothingOpen("web", "beside")
				}
				w.Report()
				if got := w.results(); len(got) != 0 {
					t.Errorf("results %+v, want none", got)
				}
			})
		})
	}
}

// A tick that is cancelled waits for no signal.
func TestCancelledTickWaitsForNoSignal(t *testing.T) {
	t.Parallel()
	underVirtualTime(t, map[string]time.Duration{"web": 45 * time.Second, "mail": 40 * time.Second, "default": 0}, func(w *pool) {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		w.Sync()
		w.Compare(ctx, w.Evaluate(ctx, time.Now()))
		if took := time.Since(w.began); took != time.Second {
			t.Errorf("the tick took %v, want 1s", took)
		}
		w.Report()
		if got := w.directory.take(); len(got) != 0 {
			t.Errorf("results %+v, want none: the processes are not to blame", got)
		}
	})
}

// A response older than the maximum time between two responses does not count while the next
// evaluation is in progress, for example after a pause of the pool.
func TestOldOpinionDoesNotCountWhileTheNextIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]time.Duration{
		"adopted before the pause": 5 * time.Second,
		"adopted after the pause":  45 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			underVirtualTime(t, map[string]time.Duration{"web": first, "mail": 0, "default": 0}, func(w *pool) {
				w.tick(0, min(first, 10*time.Second))
				w.until(time.Minute)
				w.clients.mu.Lock()
				w.clients.takes["web"] = 50 * time.Second
				w.clients.mu.Unlock()
				w.tick(3*time.Hour, 10*time.Second)
				if o := w.want(api.VerdictStale, 0, "its last response is 3h0m0s old, and the next evaluation is in progress"); !o.At.Equal(w.began) {
					t.Errorf("opinion %+v, want the time of the last answer", o)
				}
				w.tick(3*time.Hour+time.Minute, 0)
				w.want(api.VerdictValue, 50, "")
			})
		})
	}
}

// The oldest opinion that counts is one whose next evaluation takes its whole time limit twice.
func TestOpinionCountsUntilTheNextAnswer(t *testing.T) {
	t.Parallel()
	underVirtualTime(t, map[string]time.Duration{"web": 0, "next": time.Hour, "mail": 0, "default": 0}, func(w *pool) {
		w.tick(0, 0)
		w.clients.mu.Lock()
		w.clients.takes["web"] = time.Hour
		w.clients.mu.Unlock()
		w.tick(300*time.Second, 10*time.Second)
		w.until(359 * time.Second)
		w.directory.set(Endpoint{Address: "next", Version: "v2"}, nil)
		for after := 360 * time.Second; after < 419*time.Second; after += 20 * time.Second {
			w.tick(after, 0)
			w.want(api.VerdictValue, 0, "")
		}
		w.tick(420*time.Second, 10*time.Second)
		w.want(api.VerdictFailed, 0, "no answer within 1m0s")
	})
}

// A candidate that replaces the process during an evaluation then has one connection: a signal that
// serves one at a time would not respond over a second one.
func TestCandidateIsPromotedDuringAnEvaluation(t *testing.T) {
	t.Parallel()
	underVirtualTime(t, map[string]time.Duration{"web": 50 * time.Second, "beside": 5 * time.Second, "mail": 0, "default": 0}, func(w *pool) {
		w.directory.set(web, beside(false))
		w.Follow(w.t.Context(), time.Now()) // probes it
		w.tick(20*time.Second, 10*time.Second)
		w.clients.mu.Lock()
		w.clients.takes["beside"] = 25 * time.Second
		w.clients.mu.Unlock()
		w.until(35 * time.Second)
		w.directory.set(Endpoint{Address: "beside", Version: "v2"}, nil)
		w.Follow(w.t.Context(), time.Now())
		close(w.clients.dead["web"])
		synctest.Wait()
		if requests, open := w.clients.count("beside"); requests != 2 || open != 1 {
			t.Errorf("%d requests, %d connections open: want that of the probe and of the evaluation, over 1", requests, open)
		}
		w.tick(60*time.Second, 0)
		if o := w.want(api.VerdictValue, 25, ""); o.Version != "v2" {
			t.Errorf("opinion %+v, want it of v2", o)
		}
		w.tick(80*time.Second, 0)
		if requests, open := w.clients.count("beside"); requests != 2 || open != 1 {
			t.Errorf("%d requests over %d connections, want 2 over 1", requests, open)
		}
	})
}
