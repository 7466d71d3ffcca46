package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// decidedTick is the record of a tick that decided.
func decidedTick(pool string, at time.Time) api.TickRecord {
	c := api.Case{Nodes: []api.Candidate{
		{ID: "i-old", Group: "red", Node: api.NodeIdle, Uptime: time.Hour}, {ID: "i-new", Group: "red", Node: api.NodeOrphaned, Uptime: time.Minute},
		{ID: "i-blue", Group: "blue", Node: api.NodeIdle, Uptime: time.Hour},
	}}
	c.Input.Now = at
	c.Input.Policy.Limits = api.TargetLimits{Min: 1, Max: 9}
	c.Input.Apps = []api.AppInput{{Name: "web", Opinion: api.Opinion{Signal: "shop/rps", Version: "v1.0.0", Verdict: api.VerdictValue}}}
	return api.TickRecord{
		Schema: resolve.Schema, At: at, Every: time.Hour, Cluster: "local", Pool: pool, Case: &c, Result: &api.CaseResult{Target: 3},
		Snapshot: api.Snapshot{Target: 3, Joined: 2, Fulfilled: 2, Groups: []api.GroupSnapshot{{ID: "red"}, {ID: "blue"}}},
	}
}

// storeTick writes a record, or an invalid text, to the ledger of a pool.
func storeTick(t *testing.T, b *bus.Bus, pool string, record any) {
	t.Helper()
	data, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, b.JetStream(), "local", 1, pool)
	ledger, err := state.OpenLedger(t.Context(), b.JetStream(), "local", pool)
	if err == nil {
		err = ledger.Append(t.Context(), data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// "weir decide" with a policy is "weir pool decide".
func TestDecideWithAnotherPolicy(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	r := decidedTick("web", time.Now().UTC())
	r.Case.Nodes, r.Case.Input.Default.Verdict = nil, api.VerdictNoOpinion
	r.Case.Input.Apps, r.Case.Input.Pinned = nil, new(8.0)
	r.Case.Input.Capacity = api.PoolCapacity{Target: 8, Joined: 8}
	r.Case.Groups = []api.GroupTarget{{ID: "blue", Target: 8, Max: 100}}
	r.Case.Input.Policy = api.DecisionPolicy{Setpoint: 0.5, Period: time.Minute, Limits: api.TargetLimits{Min: 1, Max: 9, MaxAdd: 100, MaxRemove: 100}}
	r.Result = new(resolve.Resolve(*r.Case).Result())
	storeTick(t, b, "web", r)
	run := inData(data)
	for _, command := range []string{"decide web", "pool decide web"} {
		r := run(append(strings.Fields(command), "--set", "scaling_limits.max_capacity=5", "--since", "1h")...)
		if r.code != 0 || !strings.Contains(r.stdout, "1 of 1 ticks would have decided otherwise") {
			t.Errorf("weir %s: %+v", command, r)
		}
	}
}

// The worst pool is first, and a pool whose data cannot be read does not hide the others.
func TestPoolList(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	now := time.Now().UTC()
	storeTick(t, b, "good", decidedTick("good", now))
	storeTick(t, b, "late", decidedTick("late", now.Add(-48*time.Hour)))
	storeTick(t, b, "broken", "no record")
	failed := decidedTick("failed", now)
	failed.Case, failed.Result, failed.Failed = nil, nil, "read group red: access denied"
	storeTick(t, b, "failed", failed)
	paused := decidedTick("paused", now)
	paused.Case, paused.Result, paused.Paused = nil, nil, &api.Note{By: "me@host", Why: "network", At: now}
	storeTick(t, b, "paused", decidedTick("paused", now.Add(-30*time.Second)))
	storeTick(t, b, "paused", paused)
	flags := []string{"--data", data, "--config-dir", muteConfig(t)} // has a file of pool "default"
	r := weir(append(flags, "pool", "list", "--output", "json")...)
	var rows []struct {
		Pool, State    string
		Target, Joined *float64
		Age            float64 `json:"age_seconds"`
		Old            bool
		Problems       []string
	}
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil || r.code != 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	var states []string
	for _, row := range rows {
		states = append(states, row.Pool+" "+row.State)
		if row.State != "ok" && len(row.Problems) == 0 {
			t.Errorf("pool %s is %s without a problem", row.Pool, row.State)
		}
		if known := row.Target != nil && *row.Target == 3 && *row.Joined == 2; known != (row.Pool == "good" || row.Pool == "late" || row.Pool == "paused") {
			t.Errorf("pool %s: target %v, want it if a tick decided", row.Pool, row.Target)
		}
		if row.Old != (row.Pool == "late") {
			t.Errorf("pool %s: old is %t", row.Pool, row.Old)
		}
		if row.Pool == "late" && (row.Age < 48*3600 || row.Age > 49*3600) {
			t.Errorf("age of the last tick of pool late = %v s, want 48 hours", row.Age)
		}
	}
	want := []string{"broken unreadable", "late silent", "failed failed", "default no tick", "paused paused", "good ok"}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("pool list (-want +got):\n%s\n%s", diff, r.stdout)
	}
	r = weir(append(flags, "pool", "list")...)
	for _, want := range []string{"access denied", "No tick: last tick", "was 3", "was 2", "paused by me@host: network", "1 to 9"} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("weir pool list: %+v, want %q", r, want)
		}
	}
	if r := weir(append(flags, "pool", "list", "--output", "name")...); r.stdout != "broken\nlate\nfailed\ndefault\npaused\ngood\n" {
		t.Errorf("weir pool list --output name: %+v", r)
	}
}

// Of pools whose bootstrap does not answer, the last tick shows what they run.
func TestSignalWhere(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	storeTick(t, b, "one", decidedTick("one", time.Now().UTC()))
	storeTick(t, b, "broken", "no record")
	flags := []string{"--data", data, "--config-dir", muteConfig(t)}
	for line, want := range map[string]string{
		"shop/rps": "one web shop/rps@v1.0.0 answered at", "shop/rps@v1.0.0": "one web shop/rps@v1.0.0", "shop/rps@v2": "No resources found", "shop/other": "No resources found",
	} {
		r := weir(append(flags, "signal", "where", line, "--timeout", "3s")...)
		if text := strings.Join(strings.Fields(r.stdout), " "); r.code != 0 || !strings.Contains(text, want) || !strings.Contains(r.stderr, "the releases of pool broken are unknown") {
			t.Errorf("weir signal where %s: %+v, want %q", line, r, want)
		}
	}
}

// A rotation is ordered by a condition, shown, stopped and resumed.
func TestPoolRotate(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	storeTick(t, b, "web", decidedTick("web", time.Now().UTC().Add(-time.Minute)))
	run := inData(data)
	for _, step := range []struct {
		line string
		code int
		want string
	}{
		{"pool rotate web --status", 0, "no machine of pool local/web is to be replaced"},
		{"pool rotate web --stop", 0, "No resources found: no operator ordered a rotation"},
		{"pool rotate web --where age>20d,zone=a --why kernel", 0, "the machines that match age>20d,zone=a now are replaced from the next tick on"},
		{"pool rotate web --status", 0, "rotation of age>20d,zone=a, ordered by "},
		{"pool rotate web --status --output json", 0, `"waits": "waits for the next tick"`},
		{"pool roll web --status", 0, "No resources found"},
		{"pool rotate web --where image!=ami-2", 0, "in place of the rotation of age>20d,zone=a by "},
		{"pool rotate web --resume --why corrected", 0, "the rotations go on at the next tick"},
		{"pool rotate web --stop", 0, "the rotation of image!=ami-2 is stopped"},
		{"pool rotate web --where image!=ami-2 --dry-run", 1, "no autoscaler"},
		{"pool rotate web --where age=3", 2, "want age> and a duration"},
		{"pool rotate web --where age>3d --status", 2, "give one of them"},
	} {
		r := run(strings.Fields(step.line)...)
		if r.code != step.code || !strings.Contains(r.stdout+r.stderr, step.want) {
			t.Errorf("weir %s: %+v, want code %d and %q", step.line, r, step.code, step.want)
		}
	}
}

// A roll marks groups, shows the rest of it, and can be stopped.
func TestPoolRoll(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	at := time.Now().UTC().Add(30 * time.Minute) // i-old is launched before the mark, and i-new after it
	storeTick(t, b, "web", decidedTick("web", at))
	storeTick(t, b, "default", decidedTick("default", at))
	run := inData(data)
	for _, step := range []struct {
		line string
		code int
		want string
	}{
		{"pool roll web --status", 0, "No resources found"},
		{"pool roll web --dry-run", 0, "would replace 2 of 2 machines of red"},
		{"pool roll web --group rde", 2, "did you mean red?"},
		{"pool roll web --group red --why kernel", 0, "the machines that red has now are replaced"},
		{"pool roll web --status", 0, "red: 1 of 2 machines are from before"},
		{"pool roll --status", 0, "No resources found"},
		{"pool roll web --status --output json", 0, `"left": 1`},
		{"pool roll web --stop", 0, "red: the roll is stopped"},
		{"pool roll web --stop", 0, "No resources found"},
		{"pool roll web", 0, "the machines that blue has now are replaced"},
		{"pool roll web --status", 0, "blue: 1 of 1 machines are from before"},
	} {
		r := run(strings.Fields(step.line)...)
		if r.code != step.code || !strings.Contains(r.stdout+r.stderr, step.want) {
			t.Errorf("weir %s: %+v, want code %d and %q", step.line, r, step.code, step.want)
		}
	}
}
