package ask

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func beside(shadow bool) map[string]Candidate {
	return map[string]Candidate{"web": {Endpoint: Endpoint{Address: "beside", Version: "v2"}, Shadow: shadow}}
}

// A shadow has the time limit of its signal. It delays neither the tick nor the signal,
// and it is compared as soon as both have responded.
func TestShadowOfASlowSignal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		own        time.Duration
		shadow     time.Duration
		first      time.Duration // how long the first tick takes
		adopted    time.Duration // the tick that adopts the signal's own response
		compared   time.Duration // the tick that compares
		difference string
		verdict    api.Verdict
	}{
		{"the shadow is slower", 25 * time.Second, 50 * time.Second, 10 * time.Second, 40 * time.Second, 60 * time.Second,
			"cpus 25 -> 50 (+100 %, tolerance 0 %)", api.VerdictValue},
		{"the signal is slower", 50 * time.Second, 25 * time.Second, 10 * time.Second, 60 * time.Second, 60 * time.Second,
			"cpus 50 -> 25 (-50 %, tolerance 0 %)", api.VerdictValue},
		{"the signal is quick", 5 * time.Second, 25 * time.Second, 10 * time.Second, 0, 40 * time.Second,
			"cpus 5 -> 25 (+400 %, tolerance 0 %)", api.VerdictValue},
		{"the shadow is silent", 25 * time.Second, time.Hour, 10 * time.Second, 40 * time.Second, 60 * time.Second, "", api.VerdictFailed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			takes := map[string]time.Duration{"web": test.own, "beside": test.shadow, "mail": 0, "default": 0}
			underVirtualTime(t, takes, func(w *pool) {
				w.directory.set(web, beside(true))
				for after := time.Duration(0); after <= 80*time.Second; after += 20 * time.Second {
					takes := time.Duration(0)
					if after == 0 {
						takes = test.first
					}
					records := w.tick(after, takes)
					if after < test.adopted {
						w.want(api.VerdictNotRequested, 0, firstUnderWay)
					} else {
						w.want(api.VerdictValue, test.own.Seconds(), "")
					}
					if after != test.compared {
						if len(records) != 0 {
							t.Errorf("after %v: %+v, want no comparison", after, records)
						}
						continue
					}
					if len(records) != 1 || records[0].Difference != test.difference || records[0].Verdict != test.verdict {
						t.Errorf("after %v: %+v, want one that is %s, %q", after, records, test.verdict, test.difference)
					}
				}
				var got []Result
				for _, r := range w.results() {
					if r.Candidate {
						got = append(got, r)
					}
				}
				if len(got) != 1 || got[0].Difference != test.difference || got[0].Silent != (test.verdict == api.VerdictFailed) {
					t.Errorf("results of the shadow %+v, want one, %q", got, test.difference)
				}
				if requests, open := w.clients.count("beside"); requests != 1 || open != 1 {
					t.Errorf("%d requests over %d connections to the shadow, want 1 over 1", requests, open)
				}
			})
		})
	}
}

// A shadow that is no longer listed gets no more requests, and its request in progress ends.
func TestShadowIsUnlistedDuringItsRequest(t *testing.T) {
	t.Parallel()
	takes := map[string]time.Duration{"web": 25 * time.Second, "beside": 50 * time.Second, "mail": 0, "default": 0}
	underVirtualTime(t, takes, func(w *pool) {
		w.directory.set(web, beside(true))
		w.tick(0, 10*time.Second)
		w.until(15 * time.Second)
		w.directory.set(web, nil)
		w.Follow(w.t.Context(), time.Now())
		w.wantNothingOpen("beside")
		if records := w.tick(60*time.Second, 0); len(records) != 0 {
			t.Errorf("%+v, want no comparison", records)
		}
		w.want(api.VerdictValue, 25, "")
	})
}

// A candidate that is to replace a process has the time limit of its signal, and delays nothing.
// Probed receives when its result arrives.
func TestProbeOfASlowSignal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		takes   time.Duration
		ends    time.Duration
		verdict api.Verdict
	}{
		{"it answers", 45 * time.Second, 45 * time.Second, api.VerdictValue},
		{"it is silent", time.Hour, time.Minute, api.VerdictFailed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			takes := map[string]time.Duration{"web": 0, "beside": test.takes, "mail": 0, "default": 0}
			underVirtualTime(t, takes, func(w *pool) {
				w.tick(0, 0)
				w.results()
				w.directory.set(web, beside(false))
				w.Follow(w.t.Context(), time.Now())
				if took := time.Since(w.began); took != 10*time.Second {
					t.Errorf("following took %v, want 10s", took)
				}
				w.Follow(w.t.Context(), time.Now()) // nothing to wait for
				w.until(test.ends - time.Second)
				select {
				case <-w.Probed():
					t.Error("probed too early")
				default:
				}
				<-w.Probed()
				if took := time.Since(w.began); took != test.ends {
					t.Errorf("probed after %v, want %v", took, test.ends)
				}
				w.Follow(w.t.Context(), time.Now())
				got := w.results()
				if len(got) != 1 || !got[0].Candidate || got[0].Verdict != test.verdict || got[0].Silent != (test.verdict == api.VerdictFailed) {
					t.Errorf("results %+v, want one of the candidate, %s", got, test.verdict)
				}
				w.Follow(w.t.Context(), time.Now())
				if requests, _ := w.clients.count("beside"); requests != 1 {
					t.Errorf("%d requests, want 1", requests)
				}
				w.directory.set(Endpoint{Address: "beside", Version: "v2"}, nil) // it replaces the process
				w.Follow(w.t.Context(), time.Now())
				if _, open := w.clients.count("beside"); open != 1 {
					t.Errorf("%d connections, want the same one", open)
				}
				w.wantNothingOpen("web")
			})
		})
	}
}

// A probe in progress ends with its candidate, and with the panel.
func TestProbeUnderWayEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*pool){
		"closed": func(w *pool) { w.Close() },
		"unlisted": func(w *pool) {
			w.directory.set(web, nil)
			w.Follow(w.t.Context(), time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			underVirtualTime(t, map[string]time.Duration{"web": 0, "beside": 45 * time.Second, "mail": 0, "default": 0}, func(w *pool) {
				w.directory.set(web, beside(false))
				w.Follow(w.t.Context(), time.Now())
				end(w)
				synctest.Wait()
				w.wantNothingOpen("beside")
				if got := w.results(); len(got) != 0 {
					t.Errorf("results %+v, want none", got)
				}
			})
		})
	}
}
