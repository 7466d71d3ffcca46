package explain

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

func TestProblems(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 5, 30, 0, time.Local)
	at := now.Add(-90 * time.Second)
	tests := map[string]struct{ got, want string }{
		"running": {Process(now, bootstrap.Process{State: "running"}), ""},
		"backoff": {Process(now, bootstrap.Process{App: "web", Signal: "shop/rps", State: "backoff", Since: at, Restarts: 1, Why: "exit status 3"}),
			`web (shop/rps) is backoff since 12:04:00, 1m30s ago: exit status 3; bootstrap starts it again after a delay (1 restart so far); "weir signal logs web" shows its last output`},
		"fatal": {Process(now, bootstrap.Process{App: "web", Signal: "shop/rps", State: "fatal", Since: at, Why: "exit status 3"}),
			`web (shop/rps) is fatal since 12:04:00, 1m30s ago: exit status 3; bootstrap does not start it again by itself: "weir signal restart web" does; "weir signal logs web" shows its last output`},
		"autoscaler, never started": {Process(now, bootstrap.Process{Signal: "autoscaler", State: "starting"}), "autoscaler is starting"},
		"not fetched": {Process(now, bootstrap.Process{App: "web", Signal: "shop/rps", State: "not fetched", Why: "no such release"}),
			`web (shop/rps) is not fetched: no such release; bootstrap repeats the download until it succeeds; "weir signal logs web" shows its last output`},
		"runs with a problem": {Process(now, bootstrap.Process{App: "web", Signal: "shop/rps", State: "running", Since: at, Why: "release is from the cache"}),
			"web (shop/rps) is running since 12:04:00, 1m30s ago: release is from the cache"},
		"group": {Group(now, plan.Backoff{Group: "blue", Why: "InsufficientInstanceCapacity", Since: at, Until: now.Add(5 * time.Minute), Failures: 2}),
			"group blue is in backoff since 12:04:00, 1m30s ago, after 2 failures in a row: InsufficientInstanceCapacity; it is tried again at 12:10:30, in 5m00s, and other groups take its share until then"},
		"group that keeps its target": {Group(now, plan.Backoff{Group: "blue", Why: "AccessDenied", Since: at, Until: now.Add(5 * time.Minute), Failures: 1, KeepsTarget: true}),
			"group blue is in backoff since 12:04:00, 1m30s ago, after 1 failure in a row: AccessDenied; it is tried again at 12:10:30, in 5m00s, and its target stays as it is until then"},
		"crashes": {Crashes("web", message.AppCount{Expected: 4, Flapping: 1}),
			`application web: 1 of 4 instances crash repeatedly; each restart waits longer; "weir app crashes web" lists the crashes, "weir app logs web" shows the last output`},
		"breaker": {Breaker(now, judge.Breaker{Pool: true, Since: at, Why: "6 of 6 nodes", CloseAt: 1, CloseAfter: 5 * time.Minute}),
			`breaker of the pool is open since 12:04:00, 1m30s ago: 6 of 6 nodes; repairs resume 5m0s after at most 1 node is unhealthy; "weir node release" resumes them now`},
		"breaker until a release": {Breaker(now, judge.Breaker{Pool: true, Since: at, Why: "6 of 6 nodes", Manual: true}),
			`breaker of the pool is open since 12:04:00, 1m30s ago: 6 of 6 nodes; repairs resume only after "weir node release"`},
		"zone": {Breaker(now, judge.Breaker{Zone: "a", Since: at, Why: "3 of 3 nodes", CloseAt: 2, CloseAfter: time.Minute}),
			`zone a is frozen since 12:04:00, 1m30s ago: 3 of 3 nodes; repairs resume 1m0s after at most 2 nodes are unhealthy; "weir node release" resumes them now`},
		"zone without a name": {Breaker(now, judge.Breaker{Why: "3 of 3 nodes", CloseAfter: time.Minute}),
			`the zone without a name is frozen: 3 of 3 nodes; repairs resume 1m0s after at most 0 nodes are unhealthy; "weir node release" resumes them now`},
	}
	for name, test := range tests {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
}
