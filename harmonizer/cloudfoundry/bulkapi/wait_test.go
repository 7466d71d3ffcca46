package bulkapi

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/bulkapi/bulktest"
)

func TestGivesUpAfterTenErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{BatchSize: 2}, 3, 0)
		w.api.Break(bulktest.Trouble{Fault: bulktest.Gone})
		passes, stop := w.watch(t)
		defer stop()
		p := nextPass(passes)
		wantFailed(t, p)
		if n := w.api.Count(); n != 10 {
			t.Errorf("%d requests, want exactly 10", n)
		}
		// 0.25, 0.5, 1, 2, 4, 8, 8, 8, 8 s, each by up to a half more or less.
		if took := p.ended.Sub(p.began); took < 19*time.Second || took > 61*time.Second {
			t.Errorf("gave up after %v, want about 40 s", took)
		}
		w.api.ClearFault()
		p = nextPass(passes)
		wantWhole(t, p, fleetIDs(3))
		if requested := w.credentialsServer.requested.Load(); requested != 2 {
			t.Errorf("asked for credentials %d times, want again after giving up", requested)
		}
	})
}

// TestErrorsInARow: the count of errors restarts with each answer.
func TestErrorsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{BatchSize: 2}, 3, 0)
		w.api.Break(bulktest.Trouble{Fault: bulktest.Status, Status: 503, Times: 9})
		passes, stop := w.watch(t)
		defer stop()
		if err := w.api.Await(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		w.api.Break(bulktest.Trouble{Fault: bulktest.Status, Times: 9})
		wantWhole(t, nextPass(passes), fleetIDs(3))
		if n := w.api.Count(); n > 3+18 {
			t.Errorf("%d requests, want at most 21", n)
		}
	})
}

func TestRetryAfterIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		least, most  time.Duration
	}{
		{"seconds", "7", 7 * time.Second, 7 * time.Second},
		{"a day", "86400", 30 * time.Second, 30 * time.Second},
		{"a date far away", "Fri, 31 Dec 9999 23:59:59 GMT", 30 * time.Second, 30 * time.Second},
		{"a date in the past", "Fri, 31 Dec 1999 23:59:59 GMT", 125 * time.Millisecond, 375 * time.Millisecond},
		{"now", "0", 125 * time.Millisecond, 375 * time.Millisecond},
		{"negative", "-7", 125 * time.Millisecond, 375 * time.Millisecond},
		{"nonsense", "soon", 125 * time.Millisecond, 375 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inProcess(t, Config{}, 3, 0)
				w.api.Break(bulktest.Trouble{Fault: bulktest.Status, Status: 503, RetryAfter: tt.header, Times: 1})
				p, err := w.passOnce(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				wantWhole(t, p, fleetIDs(3))
				if took := p.ended.Sub(p.began); took < tt.least || took > tt.most {
					t.Errorf("took %v, want %v to %v", took, tt.least, tt.most)
				}
			})
		})
	}
}

func TestPassesEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{}, 3, time.Second)
		passes, stop := w.watch(t)
		defer stop()
		began := time.Now()
		for i := range 5 {
			p := nextPass(passes)
			if at := p.began.Sub(began); at != time.Duration(i)*time.Minute {
				t.Errorf("pass %d began at %v, want every minute", i, at)
			}
			if p.validFor != 178*time.Second { // two pages, each takes a second
				t.Errorf("valid for %v, want 180 s from its begin", p.validFor)
			}
		}
	})
}

// TestRefreshes: a hundred updates in a second do not make a hundred passes, and none waits
// long.
func TestRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{}, 3, time.Second)
		passes, stop := w.watch(t)
		defer stop()
		nextPass(passes)
		began := time.Now()
		storm := time.NewTicker(10 * time.Millisecond)
		defer storm.Stop()
		n := 0
		for time.Since(began) < time.Minute {
			select {
			case <-storm.C:
				w.source.Refresh()
			case p := <-passes:
				n++
				if !p.complete {
					t.Errorf("pass failed: %s", p.why)
				}
			}
		}
		if n < 7 || n > 9 { // 5 s of pause, 2 s for two pages
			t.Errorf("%d passes in a minute of updates, want 8", n)
		}
	})
}

func TestRefreshBeginsSoon(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration // since the pass ended
		want  time.Duration // from then to the next pass
	}{
		{"long after a pass", 20 * time.Second, 500 * time.Millisecond},
		{"soon after a pass", time.Second, 4 * time.Second},
		{"just before the next pass", 59900 * time.Millisecond, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inProcess(t, Config{}, 3, 0)
				passes, stop := w.watch(t)
				defer stop()
				nextPass(passes)
				wait(tt.after)
				requested := time.Now()
				w.source.Refresh()
				w.source.Refresh()
				if got := nextPass(passes).began.Sub(requested); got != tt.want {
					t.Errorf("next pass began after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestRefreshDuringAPass: an update during a pass needs a pass that begins later.
func TestRefreshDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{}, 3, time.Second)
		passes, stop := w.watch(t)
		defer stop()
		wait(1500 * time.Millisecond)
		w.source.Refresh()
		first, second := nextPass(passes), nextPass(passes)
		if pause := second.began.Sub(first.ended); pause != 5*time.Second {
			t.Errorf("the next pass began %v after the end of the first, want 5 s", pause)
		}
		if third := nextPass(passes); third.began.Sub(second.began) != time.Minute {
			t.Errorf("the third pass began %v after the second, want a minute", third.began.Sub(second.began))
		}
	})
}

// TestPassTakesTooLong: a pass that takes longer than its validity fails with an error.
func TestPassTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{BatchSize: 1}, 30, 9*time.Second)
		p, err := w.passOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantFailed(t, p)
		if took := p.ended.Sub(p.began); took != 3*time.Minute || !strings.Contains(p.why, "expected_state_lost (3m0s)") {
			t.Errorf("failed after %v: %s; want after 3 min, with that reason", took, p.why)
		}
	})
}

func TestSlowAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{}, 30, 11*time.Second)
		p, err := w.passOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantFailed(t, p)
		if !strings.Contains(p.why, "no complete answer within 10s; lower batch_size") {
			t.Errorf("why = %q, want it to name the setting to change", p.why)
		}
	})
}

// TestReportedTooLate: late rows are valid only for a moment.
func TestReportedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{}, 3, 0)
		h, err := w.source.fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p := passResult{began: time.Now()}
		err = w.source.report(t.Context(), h, time.Now().Add(-time.Hour), func(_ context.Context, ev apps.Event) error {
			_, err := p.add(ev)
			return err
		})
		if err != nil || p.validFor <= 0 || p.validFor > time.Microsecond {
			t.Errorf("valid for %v (%v), want the shortest time above 0", p.validFor, err)
		}
	})
}

func TestNoCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{}, 3, 0)
		w.credentialsServer.set(Login{}, errAway)
		passes, stop := w.watch(t)
		defer stop()
		p := nextPass(passes)
		wantFailed(t, p)
		if !strings.Contains(p.why, errAway.Error()) || w.api.Count() != 0 || w.credentialsServer.requested.Load() != 10 {
			t.Errorf("why %q, %d requests, %d credential requests; want no answer, none, 10", p.why, w.api.Count(), w.credentialsServer.requested.Load())
		}
		w.credentialsServer.set(Login{User: "bulk", Password: "secret"}, nil)
		wantWhole(t, nextPass(passes), fleetIDs(3))
	})
}

func TestUsersDoNotAffectRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inProcess(t, Config{}, 3, 0)
		w.api.Break(bulktest.Trouble{Fault: bulktest.Status})
		if n, err := w.source.Users(t.Context()); err == nil {
			t.Errorf("Users() = %d, want an error", n)
		}
		w.api.ClearFault()
		if p, err := w.passOnce(t.Context()); err != nil || !p.complete {
			t.Errorf("pass = %+v, %v, want it whole", p, err)
		}
		if requested := w.credentialsServer.requested.Load(); requested != 2 {
			t.Errorf("asked for credentials %d times, want again after the errors", requested)
		}
	})
}

// TestAllOrNothing: with any trouble, a pass reports all rows once, or none.
func TestAllOrNothing(t *testing.T) {
	faults := []bulktest.Fault{
		bulktest.NoFault, bulktest.Status, bulktest.Cut, bulktest.Truncated, bulktest.Held, bulktest.Garbage,
		bulktest.Foreign, bulktest.Gone, bulktest.Redirect, bulktest.Loop,
	}
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(r, "apps")
		cfg := Config{BatchSize: rapid.IntRange(1, 25).Draw(r, "batch_size")}
		trouble := bulktest.Trouble{
			Fault:  rapid.SampledFrom(faults).Draw(r, "fault"),
			After:  rapid.IntRange(0, 22).Draw(r, "after"),
			Times:  rapid.IntRange(0, 12).Draw(r, "times"),
			Status: rapid.SampledFrom([]int{200, 201, 204, 302, 401, 403, 404, 429, 500, 503}).Draw(r, "status"),
		}
		var p passResult
		var err error
		synctest.Test(t, func(t *testing.T) {
			w := inProcess(t, cfg, n, 0)
			w.api.Break(trouble)
			p, err = w.passOnce(t.Context())
		})
		switch {
		case err != nil:
			r.Fatal(err)
		case p.complete:
			wantWhole(r, p, fleetIDs(n))
		default:
			wantFailed(r, p)
		}
	})
}

// await returns the next pass, in virtual time.
func nextPass(passes <-chan passResult) passResult { return <-passes }

// wait passes virtual time.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
