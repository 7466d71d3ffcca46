package explain

import (
	"regexp"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// dated replaces each time of the clock in a text by that time of the day of now, with date and zone.
func dated(now time.Time, text string) string {
	return regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`).ReplaceAllStringFunc(text, func(clock string) string {
		at, err := time.ParseInLocation(time.DateTime, now.Format(time.DateOnly)+" "+clock, now.Location())
		if err != nil {
			panic(err)
		}
		return at.Format(time.RFC3339)
	})
}

// A time has its zone, and beside it how far it is from now.
func TestTimes(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 5, 30, 0, time.Local)
	for ago, want := range map[time.Duration]string{
		90 * time.Second: "12:04:00, 1m30s ago", 0: "12:05:30, 0s ago", -30 * time.Second: "12:06:00, in 30s",
	} {
		if got := When(now, now.Add(-ago)); got != dated(now, want) {
			t.Errorf("%v ago: %q, want %q", ago, got, dated(now, want))
		}
	}
}

func TestProblems(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 5, 30, 0, time.Local)
	at := now.Add(-90 * time.Second)
	tests := map[string]struct{ got, want string }{
		"running": {Process(now, api.Process{State: "running"}), ""},
		"backoff": {Process(now, api.Process{App: "web", Signal: "shop/rps", State: "backoff", Since: at, Restarts: 1, Why: "exit status 3"}),
			`signal of app web (shop/rps) is in backoff since 12:04:00, 1m30s ago: exit status 3; bootstrap starts it again after a delay (1 restart so far); "weir signal logs web" shows its last output`},
		"fatal": {Process(now, api.Process{App: "web", Signal: "shop/rps", State: "fatal", Since: at, Why: "exit status 3"}),
			`signal of app web (shop/rps) is fatal since 12:04:00, 1m30s ago: exit status 3; bootstrap does not start it again by itself: "weir signal restart web" does; "weir signal logs web" shows its last output`},
		"autoscaler, never started": {Process(now, api.Process{Signal: "autoscaler", State: "starting"}), "autoscaler is starting"},
		"not fetched": {Process(now, api.Process{App: "web", Signal: "shop/rps", State: "not fetched", Why: "no such release"}),
			`signal of app web (shop/rps) is not fetched: no such release; bootstrap repeats the download until it succeeds; "weir signal logs web" shows its last output`},
		"runs with a problem": {Process(now, api.Process{App: "web", Signal: "shop/rps", State: "running", Since: at, Why: "release is from the cache"}),
			"signal of app web (shop/rps) is running since 12:04:00, 1m30s ago: release is from the cache"},
		"group": {groupBackoff(now, api.GroupBackoff{Group: "blue", Why: "InsufficientInstanceCapacity", Since: at, Until: now.Add(5 * time.Minute), Failures: 2}),
			"group blue is in backoff since 12:04:00, 1m30s ago, after 2 failures in a row: InsufficientInstanceCapacity; it is tried again at 12:10:30, in 5m, and other groups take its share until then"},
		"group, after its backoff": {groupBackoff(now, api.GroupBackoff{Group: "blue", Why: "AccessDenied", Since: at, Until: now.Add(-11 * time.Second), Failures: 1}),
			"group blue is in backoff since 12:04:00, 1m30s ago, after 1 failure in a row: AccessDenied; it is tried again with the next tick, and other groups take its share until then"},
		"group that keeps its target": {groupBackoff(now, api.GroupBackoff{Group: "blue", Why: "AccessDenied", Since: at, Until: now.Add(5 * time.Minute), Failures: 1, KeepsTarget: true}),
			"group blue is in backoff since 12:04:00, 1m30s ago, after 1 failure in a row: AccessDenied; it is tried again at 12:10:30, in 5m, and its target stays as it is until then"},
		"terminations in backoff": {removalBackoff(now, api.GroupBackoff{Group: "blue", Why: "AccessDenied", Since: at, Until: now.Add(5 * time.Minute), Failures: 1}),
			"no node of group blue is terminated since 12:04:00, 1m30s ago, after 1 failure in a row: AccessDenied; the next one is tried at 12:10:30, in 5m"},
		"crashes with a cause": {Crashes(now, "web", api.AppCount{Expected: 4, Flapping: 1}, 0,
			[]api.AppCrash{{At: now, Description: "sh: run-web: not found"}, {At: at, Description: "killed"}}),
			`application web: 1 of 4 instances crash repeatedly since 12:04:00, 1m30s ago: sh: run-web: not found; each restart waits longer; "weir app crashes web" lists the crashes, "weir app logs web" shows the last output`},
		"crashes with a status": {Crashes(now, "web", api.AppCount{Expected: 1, Flapping: 1}, 0, []api.AppCrash{{At: at, Status: new(127)}}),
			`application web: 1 of 1 instances crash repeatedly since 12:04:00, 1m30s ago: exit status 127; each restart waits longer; "weir app crashes web" lists the crashes, "weir app logs web" shows the last output`},
		"crashes, release not started": {Crashes(now, "web", api.AppCount{Expected: 1, Flapping: 1}, 0, []api.AppCrash{{At: at, Description: "release shop/web@v1 not started: " +
			"fetch shop/web@v1: release is signed by a key that is not trusted: signed by key 1111111111111111, trusted: 2222222222222222 (https://storage.example.com/releases/signals/shop/web/v1/linux-amd64/manifest.json)"}}),
			`application web: 1 of 1 instances crash repeatedly since 12:04:00, 1m30s ago: release shop/web@v1 not started: fetch shop/web@v1: release is signed by a key that is not trusted: signed by key 1111111111111111, trusted: 2222222222222222 ...; run "weir release verify shop/web@v1", or publish a new version; each restart waits longer; "weir app crashes web" lists the crashes, "weir app logs web" shows the last output`},
		"crashes, some given up": {Crashes(now, "web", api.AppCount{Expected: 4, Flapping: 3}, 1, nil),
			`application web: 3 of 4 instances crash repeatedly; each restart waits longer; 1 instance is given up and not started again: correct the cause, then run "weir app retry web"; "weir app crashes web" lists the crashes, "weir app logs web" shows the last output`},
		"crashes, all given up": {Crashes(now, "web", api.AppCount{Expected: 4, Flapping: 2}, 2, nil),
			`application web: 2 of 4 instances crash repeatedly; 2 instances are given up and not started again: correct the cause, then run "weir app retry web"; "weir app crashes web" lists the crashes, "weir app logs web" shows the last output`},
		"fallback": {Fallback(now, at, api.ResolvedRequest{App: "web", Source: api.FromDefault, Why: "no response"}),
			`app web is served by the default signal since the tick of 12:04:00, 1m30s ago, or before: no response; the pool does not shrink until its own signal responds; "weir signal logs web" shows the output of the signal`},
		"tick": {tickFailed(now, at, "read the groups: no answer"),
			`the last tick ended early at 12:04:00, 1m30s ago: read the groups: no answer; targets stay as they are, and the next tick tries again; "weir explain" shows the tick`},
		"drift": {Drift(now, at, api.Drift{Group: "blue", Found: 5, LastTarget: 3}),
			`another program set the target of blue to 5, after weir set 3, found at 12:04:00, 1m30s ago; autoscaling.drift decides what follows: weir accepts it (obey) or sets its own target again (correct); stop the other program, or exclude the group from that program`},
		"action": {failedAction(now, at, api.Action{Op: "raise", Group: "blue", Error: "AccessDenied"}),
			`raise blue failed at 12:04:00, 1m30s ago: AccessDenied; a later tick tries again if it still needs the change; "weir explain" shows the tick`},
		"action on a node": {failedAction(now, at, api.Action{Op: api.OpDrain, Group: "green", Node: "i-1", Error: "no agent responds"}),
			`drain green i-1 failed at 12:04:00, 1m30s ago: no agent responds; a later tick tries again if it still needs the change; "weir explain" shows the tick`},
		"labels and zone": {
			Waits(now, api.PendingCopy{App: "shop", Since: at, Why: "no node matches", Labels: map[string]string{"disk": "ssd", "arch": "arm64"}, Zone: "eu-1a"}, 0, "the next tick counts it"),
			"shop/0 waits since 12:04:00, 1m30s ago: no node matches (it wants a node with arch=arm64 disk=ssd in zone eu-1a); the next tick counts it",
		},
		"no room": {Waits(now, api.PendingCopy{App: "web", Index: 3, Since: at, Why: "no node has room: not enough cpus on 2 of 2 nodes"}, 2, "the next tick counts it"),
			"web/3 waits since 12:04:00, 1m30s ago: no node has room: not enough cpus on 2 of 2 nodes (and 2 more instances); the next tick counts it"},
		"crashes": {Crashes(now, "web", api.AppCount{Expected: 4, Flapping: 1}, 0, nil),
			`application web: 1 of 4 instances crash repeatedly; each restart waits longer; "weir app crashes web" lists the crashes, "weir app logs web" shows the last output`},
		"breaker": {Breaker(now, api.Breaker{Pool: true, Since: at, Why: "6 of 6 nodes", CloseAt: 1, CloseAfter: 5 * time.Minute}),
			`breaker of the pool is open since 12:04:00, 1m30s ago: 6 of 6 nodes; repairs resume 5m after at most 1 node is unhealthy; "weir node release" resumes them now`},
		"breaker until a release": {Breaker(now, api.Breaker{Pool: true, Since: at, Why: "6 of 6 nodes", Manual: true}),
			`breaker of the pool is open since 12:04:00, 1m30s ago: 6 of 6 nodes; repairs resume only after "weir node release"`},
		"zone": {Breaker(now, api.Breaker{Zone: "a", Since: at, Why: "3 of 3 nodes", CloseAt: 2, CloseAfter: time.Minute}),
			`zone a is frozen since 12:04:00, 1m30s ago: 3 of 3 nodes; repairs resume 1m after at most 2 nodes are unhealthy; "weir node release" resumes them now`},
		"zone without a name": {Breaker(now, api.Breaker{Why: "3 of 3 nodes", CloseAfter: time.Minute}),
			`the zone without a name is frozen: 3 of 3 nodes; repairs resume 1m after at most 0 nodes are unhealthy; "weir node release" resumes them now`},
	}
	for name, test := range tests {
		if want := dated(now, test.want); test.got != want {
			t.Errorf("%s: %q, want %q", name, test.got, want)
		}
	}
}

// What happens next for an instance that waits is what the last tick shows.
func TestNextOfAWait(t *testing.T) {
	at := time.Now()
	c := api.PendingCopy{App: "web", Since: at.Add(-time.Minute)}
	record := func(f func(*api.TickRecord)) *api.TickRecord {
		r := &api.TickRecord{At: at, Case: &api.Case{}, Result: &api.CaseResult{Target: 4}, Snapshot: api.Snapshot{Joined: 4}}
		r.Case.Input.Policy.Limits.Max = 20
		f(r)
		return r
	}
	for want, r := range map[string]*api.TickRecord{
		"no tick of the pool is known, so nothing is known to add machines": nil,
		`the pool is paused, so no machine is added until "weir resume"`:    record(func(r *api.TickRecord) { r.Paused, r.Case = &api.Note{}, nil }),
		"the last tick did not decide: no groups":                           record(func(r *api.TickRecord) { r.Failed, r.Case = "no groups", nil }),
		"machines are added: target 6, 4 joined":                            record(func(r *api.TickRecord) { r.Result.Target = 6 }),
		"no machine is added for it now: group a is at its maximum": record(func(r *api.TickRecord) {
			r.Case.Places = &api.CasePlaces{Places: api.Places{Short: []api.PlacesApp{{App: "web", Why: "group a is at its maximum"}}}}
		}),
		"the next tick counts it": record(func(r *api.TickRecord) { r.At = at.Add(-time.Hour) }),
		"the pool is at its maximum of 4: raise scaling_limits.max_capacity": record(func(r *api.TickRecord) { r.Case.Input.Policy.Limits.Max = 4 }),
		`"weir explain --why-not up" shows what holds the pool`:              record(func(*api.TickRecord) {}),
	} {
		if got := NextOfWait(c, r); got != want {
			t.Errorf("next is %q, want %q", got, want)
		}
	}
}
