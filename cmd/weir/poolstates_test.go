package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
)

// stateRow is what a command that reads the bus does in each state of a pool: its exit code
// and a part of what it prints. The code "?" is 0 or 1: it depends on the machine.
type stateRow struct {
	paused     string // since before its first tick; all processes of "weir up" run
	never      string // no tick, a bus with the buckets of the cluster, no process
	empty      string // no tick, a bus without a stream or a bucket, no process
	leaderless string // has ticked; the bus runs, and no process of the pool
}

const (
	noTickYet    = `1 pool local/default has not ticked yet: start it with "weir up" or "weir bootstrap"`
	noHarmonizer = `1 no harmonizer runs here: start "weir harmonizer", or "weir up"`
	noBootstrap  = `1 no bootstrap of pool local/default runs here: start "weir bootstrap", or "weir up"`
	noStore      = `1 no metrics store answers on this bus: start "weir metrics serve", or "weir up"`
	noHealth     = `1 no response from node health: the pool has no running autoscaler, or its pool file has no health block; "weir status" shows which`
	noHolder     = `1 no autoscaler runs for it: start one with "weir bootstrap", or "weir up"`
	noBucketYet  = `1 cluster "local" has no applications bucket: "weir nats streams" creates it`
	noEvidence   = `1 pool default has no evidence of machine n1`
	noSuchNode   = `2 n1: the pool has no such node (it has i-`
	ordered      = `0 from its next tick on`
)

const noData = "1 the cluster has no bucket and no stream"

// stateRows has a row for each of busCommands.
func stateRows() map[string]stateRow {
	harmonizer := func(paused string) stateRow { return stateRow{paused, noHarmonizer, noHarmonizer, noHarmonizer} }
	bootstrap := func(paused string) stateRow { return stateRow{paused, noBootstrap, noBootstrap, noBootstrap} }
	health := func(paused string) stateRow { return stateRow{paused, noHealth, noHealth, noHealth} }
	change := stateRow{"0 web: 2 instances", "0 pool local/default has not ticked yet", noBucketYet, "0 web: 2 instances"}
	order := stateRow{ordered, noTickYet, noTickYet, ordered}
	rows := map[string]stateRow{
		"app status":  harmonizer("0 web  default"),
		"app explain": harmonizer("0 web: 2 expected"), "app crashes": harmonizer("0 No resources found"), "app retry": harmonizer("0 web: no instance crashed recently"),
		"harmonizer release": harmonizer("0 nothing is held"),
		"app set":            change,
		"app restart":        change, "app rollback": change, "app scale": change, "app start": change,
		"app stop":    {"0 web: stopped (2 instances", "0 pool local/default has not ticked yet", noBucketYet, "0 web: stopped (2 instances"},
		"app apply":   {"0 1 application: ", "0 1 application: ", noBucketYet, "0 1 application: "},
		"app diff":    {"0 1 application: 0 created", "0 1 application: 0 created", "2" + noBucketYet[1:], "0 1 application: 0 created"},
		"app history": {"0 of the row", "0 of the row", noBucketYet, "0 of the row"},
		"app get":     {"0 web   default", "0 web   default", noBucketYet, "0 web   default"},
		"app list":    {"0 web   default", "0 web   default", noBucketYet, "0 web   default"},
		"app delete":  {"0 web: deleted", "0 web: deleted", noBucketYet, "0 web: deleted"},
		"app logs":    {"0 web/0 hello", noTickYet, noTickYet, noHolder},

		"status":  {"0 target 1, joined 1, limits 2 to 4", "0 " + noTickYet[2:], "0 " + noTickYet[2:], "0 " + noBootstrap[2:]},
		"explain": {"0 paused by", noTickYet, noTickYet, "0 paused by"},
		"diff":    {"0 pool local/default, ticks of", noTickYet, noTickYet, "0 pool local/default, ticks of"},
		"cost":    {"1 no machine-hour has a price", noTickYet, noTickYet, "1 no machine-hour has a price"},
		"events":  {"0 ", noTickYet, noTickYet, "0 "}, // the first tick of a search is what the next ones are compared with
		"plan":    {"0 without the pause the next tick would do this", noHolder, noHolder, noHolder},
		"pause":   {"0 is paused from its next tick on", noTickYet, noTickYet, "0 is paused from its next tick on"},
		"resume":  {"0 continues with its next tick; it was paused", noTickYet, noTickYet, "0 continues with its next tick; it was paused"},
		"offset":  order, "pool target": order,
		"pool decide":     {"0 ticks would have decided otherwise", noTickYet, noTickYet, "0 ticks would have decided otherwise"},
		"simulate init":   {"1 no tick of the", noTickYet, noTickYet, "1 "}, // after the resume a tick may have decided: it cannot write there
		"pool groups":     {"0 red    local  1       1          1    4", noTickYet, noTickYet, noHolder},
		"pool list":       {"0 paused  ", "0 default  no tick", "0 default  no tick", "0 default  "},
		"pool roll":       {"0 would replace", noTickYet, noTickYet, noHolder},
		"pool rotate":     {"0 roll of red: 1 of 1 machines are left", noTickYet, noTickYet, noHolder},
		"signal where":    {"0 No resources found", "0 No resources found", "0 No resources found", "0 No resources found"},
		"pool drain":      {`2 pool local/default has no node "n1", or it leaves already (it has i-`, noTickYet, noTickYet, noHolder},
		"pool accept":     {"0 nothing that left or changed", noTickYet, noTickYet, "0 nothing that left or changed"},
		"pool mark-stale": {`2 pool local/default has no group "g" (it has red)`, noTickYet, noTickYet, noHolder},

		"doctor":       {"? ok       bootstrap: process", "1 failed   bootstrap: " + noBootstrap[2:], "1 failed   bootstrap: " + noBootstrap[2:], "1 failed   bootstrap: " + noBootstrap[2:]},
		"state check":  {"0 no damage is reported", "0 no damage is reported", `1 nothing: "weir nats streams" creates it`, "0 no damage is reported"},
		"state accept": {"1 reader apps reports no damage", "1 reader apps reports no damage", "1 reader apps reports no damage", "1 reader apps reports no damage"},
		"state aside":  {"1 nothing to set aside", "1 nothing to set aside", "1 nothing to set aside", "1 nothing to set aside"},

		// The cluster "other" has no data until a restore.
		"state backup":  {noData, noData, noData, noData},
		"state restore": {"? KV_weir-apps_other", "? KV_weir-apps_other", "? KV_weir-apps_other", "? KV_weir-apps_other"},

		"signal ps":      bootstrap("0 default/default"),
		"signal logs":    bootstrap("0 started, pid"),
		"signal restart": bootstrap("0 signal of web is being restarted"),
		"signal shadow": {"0 no shadow has received a request", "0 runs here: start \"weir bootstrap\", or \"weir up\": only the ledger is read",
			"0 no shadow has received a request", "0 no shadow has received a request"},
		// Without "weir up" its bucket is away. The other worlds have a bucket of AWS, which is not asked.
		"release forget": {"0 shop/rps@v1: the next fetch accepts", "0 shop/rps@v1: the next fetch accepts", "0 shop/rps@v1: the next fetch accepts", `1 start it with "weir up"`},

		"nats streams":   {"0 0 streams created", "0 0 streams created", "0 11 streams created", "0 0 streams created"},
		"metrics put":    {"0 1 values written for app web", noStore, noStore, noStore},
		"metrics get":    {"0 web,a", noStore, noStore, noStore},
		"metrics try":    {"? __default__", noStore, noStore, noStore},
		"signal try":     {"1 web,none of type app_metrics has no complete slot of 5m", noStore, noStore, noStore},
		"metrics import": {"0 values written", noStore, noStore, noStore},

		"node status": health("0 mode observe"), "node history": health("0 No resources found"), "node check": health("0 NODE_STATUS_POLLING"),
		"node recover": health(noSuchNode), "node pause": health(noSuchNode), "node resume": health(noSuchNode), "node release": health(noSuchNode),
		"node evidence": {noEvidence, noEvidence, noEvidence, noEvidence},
		"node list":     {"0 NODE            GROUP  STATE", noTickYet, noTickYet, noHolder},
	}
	for _, path := range shortForms() {
		rows["pool "+path] = rows[path]
	}
	rows["pool resume"] = stateRow{"0 was not paused", noTickYet, noTickYet, "0 was not paused"} // it comes after "resume"
	return rows
}

// changesLast are the commands that end or create what the others need: their rows come last.
func changesLast() []string {
	return []string{"app stop", "app delete", "resume", "pool resume", "nats streams"}
}

// runStates runs the row of each command in one state, one after the other: each ends in
// time, prints what is the case, and has its exit code.
func runStates(t *testing.T, state string, want func(stateRow) string, flags ...string) {
	t.Helper()
	rows := stateRows()
	paths := slices.Sorted(maps.Keys(busCommands()))
	paths = slices.DeleteFunc(paths, func(path string) bool { return slices.Contains(changesLast(), path) })
	for _, path := range append(paths, changesLast()...) {
		row, ok := rows[path]
		if !ok {
			t.Errorf("weir %s is missing in the table: what does it do on a pool that is paused, has never ticked, or has no leader?", path)
			continue
		}
		code, text, _ := strings.Cut(want(row), " ")
		r := runInTime(t, slices.Concat(strings.Fields(path), busCommands()[path], flags)...)
		right := fmt.Sprint(r.code) == code || code == "?" && r.code <= 1
		if out := r.stdout + r.stderr; !right || !strings.Contains(out, text) || strings.Contains(out, "panic") {
			t.Errorf("%s: weir %s ended with %d and printed\n%s%s\nwant code %s and %q", state, path, r.code, r.stdout, r.stderr, code, text)
		}
	}
	for path := range rows {
		if _, ok := busCommands()[path]; !ok {
			t.Errorf("weir %s is in the table, and does not read the bus", path)
		}
	}
}

// runInTime runs a command in this process. It fails the test if the command goes on for
// longer than any deadline of a command.
func runInTime(t *testing.T, args ...string) result {
	t.Helper()
	ended := make(chan result, 1)
	go func() { ended <- weir(args...) }() // ends with the process if the test fails
	select {
	case r := <-ended:
		return r
	case <-time.After(patience):
		t.Fatalf("weir %q does not end", args)
		return result{}
	}
}

func openEmptyBus(t *testing.T, data string) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{Data: data, Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// openBus returns a bus with the streams of a pool.
func openBus(t *testing.T, data string) *bus.Bus {
	t.Helper()
	b := openEmptyBus(t, data)
	bustest.Streams(t, b.JetStream(), "local", 1, "default")
	return b
}

const poolOfStates = `resource_groups: [{local: {name: red, min: 1, max: 4, machine: {cpus: 1, mem: 256, disk: 100}}}]
scaling_limits: {min_capacity: 2, max_capacity: 4, max_weight_to_add: 4, max_weight_to_remove: 4, max_tasks_to_kill: inf}
autoscaling: {tick: 500ms, setpoint: 0.5}
autoscale_signals:
  - {app: web, name: default, kind: builtin, period: 500ms, required_metrics: [{name: cpus_allocated, type: system_metrics, range: 5s}]}
health: {mode: observe, detection: {interval: 5, detection_modes: [{type: NODE_STATUS_POLLING}]}}
`

const twoOfWeb = `{"name":"web","pool":"default","instances":2,"cpus":0.1,"mem":16,"disk":1,"version":"v1","command":"while :; do echo hello; sleep 1; done"}`

// TestPoolPausedAndWithoutLeader starts "weir up" on a pool that is paused before its first
// tick, and so never decides, and ends it. Names that do not exist get a suggestion meanwhile.
func TestPoolPausedAndWithoutLeader(t *testing.T) {
	t.Parallel()
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "pool.yaml")
	if err := os.WriteFile(file, []byte(poolOfStates), 0o600); err != nil {
		t.Fatal(err)
	}
	b := storedApps(t, data, map[string]string{"web": twoOfWeb})
	run := inData(data)
	if r := run("pause", "--force", "--for", "3h"); r.code != 0 {
		t.Fatalf("weir pause --force: %+v", r)
	}
	if r := run("resume"); r.code != 0 || !strings.Contains(r.stdout, "it was paused") {
		t.Errorf("weir resume before the first tick: %+v, want the end of the pause", r)
	}
	if r := run("pause", "--force", "--for", "3h"); r.code != 0 {
		t.Fatalf("weir pause --force: %+v", r)
	}
	b.Close()
	u := startUp(t, data, "--pool-file", file)
	u.waitRunning(t, "web", 2)
	eventually(t, "output of web, signals that run, a tick, and a node that is known to all", func() error {
		for line, want := range map[string]string{
			"app logs web": "web/0 hello", "explain": "paused by", "status": "joined 1", "node status --all": "i-", "signal ps": "default/default",
		} {
			if r := run(strings.Fields(line)...); !strings.Contains(r.stdout, want) {
				return fmt.Errorf("weir %s: %+v, want %q", line, r, want)
			}
		}
		if r := run("signal", "ps"); strings.Count(r.stdout, " running ") != 2 {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	expectSuggestions(t, run)
	expectOrdersWait(t, run)
	runStates(t, "paused", func(r stateRow) string { return r.paused }, "--data", data)
	run("app", "set", "web", "--command", "true", "--instances", "2")
	expectTick(t, run, false) // after the resume, so that the next paused one is new
	if r := run("pause"); r.code != 0 {
		t.Errorf("weir pause: %+v", r)
	}
	expectTick(t, run, true)
	u.end(t)
	openBus(t, data)
	runStates(t, "without a leader", func(r stateRow) string { return r.leaderless }, "--data", data)
}

// expectTick waits until the last tick is paused, or is not.
func expectTick(t *testing.T, run func(...string) result, paused bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("a last tick with paused = %v", paused), func() error {
		if r := run("explain"); r.code != 0 || strings.Contains(r.stdout, "paused by") != paused {
			return errors.New(r.stdout + r.stderr)
		}
		return nil
	})
}

// expectOrdersWait orders about a node and a group that exist, on a paused pool.
func expectOrdersWait(t *testing.T, run func(...string) result) {
	t.Helper()
	r := run("node", "status", "--all", "-o", "json")
	_, rest, _ := strings.Cut(r.stdout, `"node": "`)
	node, _, _ := strings.Cut(rest, `"`)
	for _, args := range [][]string{{"pool", "drain", node}, {"pool", "mark-stale", "red"}} {
		if r := run(args...); r.code != 0 || !strings.Contains(r.stdout, "the order waits for the end of the pause") {
			t.Errorf("weir %q on a paused pool: %+v", args, r)
		}
	}
}

// expectSuggestions names what does not exist: each command suggests what is meant, lists
// the others if there are more, and ends with 2.
func expectSuggestions(t *testing.T, run func(...string) result) {
	t.Helper()
	for _, c := range []struct{ line, near, list string }{
		{"app get wbe", "did you mean web?", ""},
		{"app delete wbe", "did you mean web?", ""},
		{"app status wbe", "did you mean web?", ""},
		{"app explain wbe", "did you mean web?", ""},
		{"app crashes weeb", "did you mean web?", ""},
		{"app retry wb", "did you mean web?", ""},
		{"signal restart wbe", "did you mean web?", "(it has __default__, web)"},
		{"signal logs wbe", "did you mean web?", "(it has __default__, web)"},
		{"status --pool defualt", "did you mean default?", ""},
		{"explain defualt", "did you mean default?", ""},
		{"explain defualt --since 1h", "did you mean default?", ""},
		{"pause defualt", "did you mean default?", ""},
		{"resume defualt", "did you mean default?", ""},
		{"offset 2 --pool defualt", "did you mean default?", ""},
		{"status defualt", "did you mean default?", ""},
		{"plan defualt", "did you mean default?", ""},
		{"node list defualt", "did you mean default?", ""},
		{"node status --pool defualt", "did you mean default?", ""},
		{"signal ps defualt", "did you mean default?", ""},
		{"offset defualt 2", "did you mean default?", ""},
		{"pool target defualt 2", "did you mean default?", ""},
		{"pool drain defualt i-0", "did you mean default?", ""},
		{"pool drain default i-0", `has no node "i-0"`, "(it has i-"},
		{"pool groups defualt", "did you mean default?", ""},
		{"pool target 2 --pool defualt", "did you mean default?", ""},
		{"pool mark-stale default rde", "did you mean red?", ""},
		{"pool mark-stale default red --all", "not both", "weir pool groups"},
		{"node status default i-0", `has no machine "i-0"`, "(it has i-"},
		{"node check default i-0", "the pool has no such node", "(it has i-"},
		{"node recover default i-0", "the pool has no such node", "(it has i-"},
		{"node pause default i-0", "the pool has no such node", "(it has i-"},
		{"node resume default i-0 i-0", "is named twice", "name it once"},
		{"node recover default --all", "one machine after the other", "such as --wait 8h"},
		{"node recover default", "requires at least one machine", "weir node status --all"},
		{"node status defualt --pool default", `has no machine "defualt"`, "(it has i-"},
		{"node pause default --pool default", "the pool has no such node", "(it has i-"},
		{"pool mark-stale rde", "did you mean red?", ""},
		{"pool drain i-0", `has no node "i-0"`, "(it has i-"},
		{"app logs wbe", "did you mean web?", ""},
		{"signal shadow wbe", "did you mean web?", "(it has __default__, web)"},
		{"node status i-0", `has no machine "i-0"`, "(it has i-"},
		{"node check i-0", "the pool has no such node", "(it has i-"},
		{"node recover i-0", "the pool has no such node", "(it has i-"},
	} {
		if r := run(strings.Fields(c.line)...); r.code != 2 || !strings.Contains(r.stderr, c.near) || !strings.Contains(r.stderr, c.list) || c.list == "" && strings.Contains(r.stderr, "(it has ") {
			t.Errorf("weir %s ended with %d and printed\n%s%s\nwant code 2, %q and %q", c.line, r.code, r.stdout, r.stderr, c.near, c.list)
		}
	}
}

// TestPoolThatHasNeverTicked has a bus without a record, with and without the buckets of the
// cluster.
func TestPoolThatHasNeverTicked(t *testing.T) {
	t.Parallel()
	runScenes(t, map[string]func(*testing.T){
		"with buckets": func(t *testing.T) {
			data := t.TempDir()
			storedApps(t, data, map[string]string{"web": twoOfWeb})
			runStates(t, "never ticked", func(r stateRow) string { return r.never }, "--data", data, "--config-dir", muteConfig(t))
		},
		"on an empty bus": func(t *testing.T) {
			data := t.TempDir()
			openEmptyBus(t, data)
			runStates(t, "empty bus", func(r stateRow) string { return r.empty }, "--data", data, "--config-dir", muteConfig(t))
		},
	})
}

// TestBusIsAway has no server where the flag points to, and none in the data folder.
func TestBusIsAway(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "nats://" + listener.Addr().String()
	listener.Close()
	configs, data := muteConfig(t), t.TempDir()
	for path, args := range busCommands() {
		failed := 1
		if path == "app diff" {
			failed = 2 // 1 is a difference
		}
		line := slices.Concat(strings.Fields(path), args, []string{"--data", data, "--config-dir", configs})
		r := runInTime(t, append(line, "--nats", closed)...)
		for _, want := range []string{closed + ": nats: no servers available for connection", "connection refused", "start NATS there, or name another with --nats"} {
			if r.code != failed || !strings.Contains(r.stdout+r.stderr, want) {
				t.Errorf("weir %s: %+v, want code %d and %q", path, r, failed, want)
			}
		}
		want := "nothing runs in data folder " + data + ": start it with \"weir up\""
		if r := runInTime(t, line...); r.code != failed || !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("weir %s: %+v, want code %d and %q", path, r, failed, want)
		}
	}
}
