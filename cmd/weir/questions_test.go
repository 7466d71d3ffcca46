package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// respond answers all requests on a subject with a value.
func respond(t *testing.T, nc *nats.Conn, subject string, value any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	answer(t, nc, subject, data)
}

// troubledWorld is a pool with a group without capacity, an open breaker, a signal that fails, a paused node, and an
// application that crashes.
func troubledWorld(t *testing.T) (data string) {
	data = t.TempDir()
	b := storedApps(t, data, map[string]string{"web": webRow})
	now := time.Now().UTC()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	r := decidedTick("default", now)
	r.Detail = &api.TickDetail{}
	r.Snapshot.Groups[1].Short = "InsufficientInstanceCapacity"
	r.State.Backoffs = []api.GroupBackoff{{Group: "blue", Why: "InsufficientInstanceCapacity", Since: ago(20 * time.Minute), Until: now.Add(10 * time.Minute), Failures: 3}}
	storeTick(t, b, "default", r)
	respond(t, b.Conn(), names.BootstrapSubject("local", "default", "status"), api.BootstrapStatus{PoolProcesses: api.PoolProcesses{
		Signals:    []api.Process{{App: "web", Signal: "shop/rps", Version: "v1.0.0", State: "backoff", Since: ago(15 * time.Minute), Restarts: 4, Why: "exit status 3"}},
		Autoscaler: api.Process{Signal: "autoscaler", State: "running"},
	}})
	respond(t, b.Conn(), events.StatusSubject("local", "default"), api.HealthStatus{
		Pool: "default", At: now, Enabled: true, Mode: api.ModeAct,
		Open:   []api.Breaker{{Pool: true, Open: true, Since: ago(12 * time.Minute), Why: "6 of 6 nodes are unhealthy", CloseAt: 1, CloseAfter: 5 * time.Minute}},
		Pauses: []api.RepairPause{{Node: "i-old", Owner: "me@host", Until: now.Add(time.Hour), Why: "disk is being looked at"}},
	})
	respond(t, b.Conn(), message.CountsRequestSubject("local", "default"), api.InstanceCounts{
		Pool: "default", Complete: true, At: now, Apps: map[string]api.AppCount{"web": {Expected: 4, Running: 3, Flapping: 1}},
	})
	respond(t, b.Conn(), message.StatusSubject("local"), api.HarmonizerStatus{
		Complete: true, Leading: true, At: now,
		Apps: []api.AppSummary{{Name: "web", Pool: "default", Expected: true, Version: "v1", Count: api.AppCount{Expected: 4, Running: 3, Flapping: 1}}},
	})
	return data
}

// TestReadersQuestions requires for each trouble of a pool: the problem and since when, and what happens next or what an
// operator can do. Four commands must answer.
func TestReadersQuestions(t *testing.T) {
	t.Parallel()
	run := inData(troubledWorld(t))
	screens := map[string]string{}
	for _, line := range []string{"status", "explain", "node status", "app status", "pool list"} {
		r := run(strings.Fields(line)...)
		if r.code != 0 {
			t.Errorf("weir %s: %+v", line, r)
		}
		screens[line] = r.stdout
		t.Logf("$ weir %s\n%s", line, r.stdout)
	}
	for _, c := range []struct{ question, screen, want string }{
		{"which group has no capacity, since when and why", "status", "group blue is in backoff since "},
		{"why has the group no capacity", "status", "after 3 failures in a row: InsufficientInstanceCapacity"},
		{"what happens to the group next, and to its share", "status", "other groups take its share until then"},
		{"which pool of the cluster has the trouble", "pool list", "default  problems"},
		{"is the breaker open, since when and why", "node status", "breaker of the pool is open since "},
		{"when do repairs resume, and how can I resume them", "node status", `repairs resume 5m after at most 1 node is unhealthy; "weir node release" resumes them now`},
		{"does the status of the pool name the breaker", "status", "breaker of the pool is open since "},
		{"which signal fails, since when and why", "status", "signal of app web (shop/rps) is in backoff since "},
		{"what happens to the signal next, and what can I read", "status", `bootstrap starts it again after a delay (4 restarts so far); "weir signal logs web" shows its last output`},
		{"which node is paused, by whom, for how long and why", "node status", "paused: i-old by me@host for "},
		{"which application crashes, and how much of it", "status", "application web: 1 of 4 instances crash repeatedly"},
		{"what happens to the application, and what can I read", "status", `each restart waits longer; "weir app crashes web" lists the crashes`},
		{"how many instances crash", "app status", "FLAPPING"},
		{"what did the last tick do", "explain", "tick of "},
	} {
		if !strings.Contains(screens[c.screen], c.want) {
			t.Errorf("%s? weir %s prints\n%s\nwant %q", c.question, c.screen, screens[c.screen], c.want)
		}
	}
}
