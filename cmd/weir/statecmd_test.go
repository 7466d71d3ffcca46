package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/natsbus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// storedApps runs a bus in a data folder, with the buckets of cluster "local" and these rows of
// applications.
func storedApps(t *testing.T, data string, rows map[string]string) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{Data: data, Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bustest.Streams(t, b.JetStream(), "local", 1, "default")
	apps := kvbucket.New(b.JetStream(), message.AppsBucket("local"))
	for key, value := range rows {
		if _, err := apps.Put(ctx, key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

const (
	webRow = `{"name":"web","pool":"default","instances":2,"version":"v1","cpus":0,"mem":0,"disk":0,"command":"run-web"}`
	apiRow = `{"name":"api","pool":"default","instances":1,"version":"v1","cpus":0,"mem":0,"disk":0,"command":"run-api"}`
)

// inData returns a function that runs a command on a data folder.
func inData(data string) func(args ...string) result {
	return func(args ...string) result { return weir(append(args, "--data", data)...) }
}

// TestListNamesWhatItCannotRead has rows that are damaged in several ways: the list has the
// others, names each damaged one, and its exit code is 1. Each one goes with its deletion.
func TestListNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]string{
		"no JSON": "\x00\x01", "another name": apiRow, "wrong type": `{"name":"bad","pool":"default","instances":"two"}`,
		"too large": `{"name":"bad","pool":"default","instances":100001}`, "empty": "",
		"long": `{"name":"bad","pool":"default","version":"` + strings.Repeat("v", 1<<20) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			storedApps(t, data, map[string]string{"web": webRow, "bad": row})
			run := inData(data)
			r := run("app", "list")
			if r.code != 1 || !strings.Contains(r.stdout, "run-web") || !strings.Contains(r.stderr, `bad`) || !strings.Contains(r.stderr, `"weir app delete bad" removes it`) {
				t.Errorf("weir app list: %+v, want web, and the name of the damaged row with code 1", r)
			}
			if r := run("app", "set", "bad", "--instances", "2"); r.code != 1 || !strings.Contains(r.stderr, `"weir app set bad" with --instances and --command replaces it`) {
				t.Errorf("weir app set of a part: %+v", r)
			}
			if r := run("app", "set", "bad", "--instances", "2", "--command", "true"); r.code != 0 {
				t.Errorf("weir app set of all: %+v", r)
			}
			if r := run("app", "delete", "bad"); r.code != 0 {
				t.Errorf("weir app delete: %+v", r)
			}
			if r := run("app", "list"); r.code != 0 || !strings.Contains(r.stdout, "run-web") {
				t.Errorf("weir app list after the deletion: %+v", r)
			}
		})
	}
}

// TestRowThatTheStoreCannotReadIsDeleted flips bytes of a stored row between two runs of the bus.
func TestRowThatTheStoreCannotReadIsDeleted(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	run := inData(data)
	storedApps(t, data, map[string]string{"web": webRow, "api": apiRow}).Close()
	path := filepath.Join(data, "bus", "jetstream", "WEIR", "streams", "KV_"+message.AppsBucket("local"), "msgs", "1.blk")
	block, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(block, []byte("run-web"), []byte("rum-web")), 0o600); err != nil {
		t.Fatal(err)
	}
	storedApps(t, data, nil)
	for _, args := range [][]string{{"app", "list"}, {"app", "get", "web"}, {"app", "set", "web", "--instances", "3"}} {
		if r := run(args...); r.code != 1 || !strings.Contains(r.stderr, `web: the store cannot read its row; "weir app delete web" removes it`) {
			t.Errorf("weir %s: %+v, want the name of the damaged row with code 1", strings.Join(args, " "), r)
		}
	}
	if r := run("state", "check"); r.code != 1 || !strings.Contains(r.stdout, "web  a value   a value that the store cannot read") {
		t.Errorf("weir state check: %+v, want the key that the store cannot read", r)
	}
	if r := run("app", "delete", "web"); r.code != 0 || r.stdout != "web: deleted\n" {
		t.Errorf("weir app delete: %+v", r)
	}
	if r := run("app", "list"); r.code != 0 || !strings.Contains(r.stdout, "run-api") {
		t.Errorf("weir app list after the deletion: %+v", r)
	}
	if r := run("app", "set", "web", "--command", "true"); r.code != 0 {
		t.Errorf("weir app set after the deletion: %+v", r)
	}
}

// TestStateIsCheckedAndAccepted loses a row between two runs of the bus: status and check name it,
// until an operator accepts that.
func TestStateIsCheckedAndAccepted(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	run := inData(data)
	b := storedApps(t, data, map[string]string{"web": webRow, "api": apiRow})
	watchApps(t, b, data)()
	if r := run("state", "check"); r.code != 0 || r.stdout != "no damage is reported\n" {
		t.Errorf("weir state check: %+v", r)
	}
	b.Close()
	if err := os.RemoveAll(filepath.Join(data, "bus", "jetstream", "WEIR", "streams", "KV_"+message.AppsBucket("local"))); err != nil {
		t.Fatal(err)
	}
	b = storedApps(t, data, map[string]string{"api": apiRow})
	end := watchApps(t, b, data)
	defer end()
	row := "weir-apps_local  web  revision"
	for _, args := range [][]string{{"state", "check"}, {"status"}, {"state", "check", "-o", "json"}} {
		r := run(args...)
		text := strings.Join(strings.Fields(r.stdout), " ")
		if !strings.Contains(text, "weir-apps_local") || !strings.Contains(text, "web") || !strings.Contains(text, "or later") || !strings.Contains(text, "nothing") {
			t.Errorf("weir %s: %s, want %s", strings.Join(args, " "), r.stdout, row)
		}
		if r.code != 1 && args[0] == "state" {
			t.Errorf("weir %s: exit code %d, want 1", strings.Join(args, " "), r.code)
		}
	}
	r := run("status")
	first, _, _ := strings.Cut(r.stdout, "\n")
	if !strings.HasPrefix(first, "! stored data is damaged, lost or old: bucket weir-apps_local, key web: ") || !strings.Contains(first, `"weir state accept apps"`) {
		t.Errorf("weir status does not begin with the damage and what to do: %s", r.stdout)
	}
	if r := run("state", "accept", "apps"); r.code != 2 || !strings.Contains(r.stderr, "--reason is missing") {
		t.Errorf("weir state accept without a reason: %+v", r)
	}
	if r := run("state", "accept", "pool.web", "--reason", "x"); r.code != 1 || !strings.Contains(r.stderr, "reports no damage") {
		t.Errorf("weir state accept of another reader: %+v", r)
	}
	if r := run("state", "accept", "apps", "--reason", "the disk was replaced", "--timeout", patience.String()); r.code != 0 || r.stdout != "apps: accepted, 1 problems\n" {
		t.Errorf("weir state accept: %+v", r)
	}
	if r := run("state", "check"); r.code != 0 {
		t.Errorf("weir state check after the acceptance: %+v", r)
	}
	e, err := kvbucket.New(b.JetStream(), message.AppsBucket("local")).Get(t.Context(), "web")
	if err != nil || e.Found || e.Revision == 0 {
		t.Errorf("the row of web: %+v, %v; want a mark of its deletion, which placers need", e, err)
	}
}

// TestForgedMessagesAreNamedAndRemoved stores what a stolen key could make a server store: a row and a value with headers of the
// server, and a message with the subject of another stream.
func TestForgedMessagesAreNamedAndRemoved(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	run := inData(data)
	b := storedApps(t, data, map[string]string{"api": apiRow})
	rows, pool := message.AppsBucket("local"), names.PoolBucket("local", "default")
	for subject, value := range map[string]string{"$KV." + rows + ".web": webRow, "$KV." + pool + ".lease": "{}"} {
		m := nats.NewMsg(subject)
		m.Header.Set("Nats-Stream", "KV_"+rows)
		m.Data = []byte(value)
		if _, err := b.JetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	strange := jetstream.StreamConfig{Name: "strange", Subjects: []string{"weir.local.strange"}}
	if _, err := b.JetStream().CreateStream(t.Context(), strange); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().Publish(t.Context(), "weir.local.strange", nil); err != nil {
		t.Fatal(err)
	}
	ledger, err := b.JetStream().Stream(t.Context(), names.LedgerStream("local", "default"))
	if err != nil {
		t.Fatal(err)
	}
	config := ledger.CachedInfo().Config
	config.Sources = []*jetstream.StreamSource{{Name: "strange"}}
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	const forged = "a value that does not come from its owner"
	lines := []string{rows + " web a value " + forged, pool + " lease a value " + forged,
		config.Name + " weir.local.strange subjects of the stream 1 messages with a foreign subject"}
	eventually(t, "weir state check names all", func() error {
		r := run("state", "check")
		text := strings.Join(strings.Fields(r.stdout), " ")
		for _, line := range lines {
			if r.code != 1 || !strings.Contains(text, line) {
				return fmt.Errorf("%+v, want %q with code 1", r, line)
			}
		}
		return nil
	})
	if r := run("app", "list"); r.code != 1 || strings.Contains(r.stdout, "run-web") || !strings.Contains(r.stderr, `"weir app delete web" removes it`) {
		t.Errorf("weir app list: %+v, want the name of the forged row without its command", r)
	}
	if r := run("app", "delete", "web"); r.code != 0 || r.stdout != "web: deleted\n" {
		t.Errorf("weir app delete of a forged row: %+v", r)
	}
	if r := run("state", "aside", "lease", "--pool", "default", "--reason", "forged"); r.code != 0 || !strings.Contains(r.stdout, "lease: set aside as ") {
		t.Errorf("weir state aside of a forged value: %+v", r)
	}
	if r := run("state", "check"); strings.Contains(r.stdout, forged) {
		t.Errorf("weir state check after both were removed: %+v", r)
	}
	if r := run("app", "list"); r.code != 0 || !strings.Contains(r.stdout, "run-api") || strings.Contains(r.stdout, "run-web") {
		t.Errorf("weir app list after the deletion: %+v", r)
	}
}

// TestDamagedStoreShrinksNoPool damages the stored rows of a running installation between two runs of
// "weir up": the pool keeps its size, status begins with the damage, and what an operator writes
// again runs again.
func TestDamagedStoreShrinksNoPool(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	u := startUp(t, data)
	set := []string{"app", "set", "web", "--instances", "20", "--cpus", "0.2", "--mem", "64", "--command", webCommand}
	u.weir(t, set...)
	u.waitRunning(t, "web", 20)
	u.pool(t, "a pool of 5", sized(5))
	u.end(t)
	blocks := filepath.Join(data, "bus", "jetstream", "WEIR", "streams", "KV_"+message.AppsBucket("local"), "msgs")
	block, err := os.ReadFile(filepath.Join(blocks, "1.blk"))
	if err != nil {
		t.Fatal(err)
	}
	copy(block, bytes.Repeat([]byte("damage"), 200/6))
	if err := errors.Join(os.WriteFile(filepath.Join(blocks, "1.blk"), block, 0o600), os.Remove(filepath.Join(blocks, "index.db"))); err != nil {
		t.Fatal(err)
	}

	began := time.Now()
	u = startUp(t, data)
	u.pool(t, "an alarm that names the row", func(s api.PoolStatus) error {
		if len(s.Warnings) == 0 || !strings.HasPrefix(s.Warnings[0], "stored data is damaged, lost or old: bucket weir-apps_local") {
			return fmt.Errorf("warnings %q", s.Warnings)
		}
		return nil
	})
	const ticks = 20 // many more than a pool takes to shrink
	eventually(t, "ticks after the damage", func() error {
		n := 0
		for line := range strings.Lines(u.weir(t, "explain", "--since", "1h", "--output", "json")) {
			r, err := printedRecord([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			if !r.At.After(began) || r.Case == nil {
				continue
			}
			if n++; r.Result.Target < 5 || r.Snapshot.Target < 5 {
				t.Fatalf("the pool is lowered to %v of %v at %v", r.Result.Target, r.Snapshot.Target, r.At)
			}
		}
		if n < ticks {
			return fmt.Errorf("%d ticks", n)
		}
		return nil
	})
	u.weir(t, set...)
	u.waitRunning(t, "web", 20)
	u.weir(t, "state", "accept", "apps", "--reason", "web is set again", "--timeout", patience.String())
	if r := weir("--data", data, "state", "check"); r.code != 0 {
		t.Errorf("weir state check after the acceptance: %+v", r)
	}
}

// watchApps watches the rows of applications as a harmonizer does, until end. The rows were read
// when it returns.
func watchApps(t *testing.T, b *bus.Bus, data string) (end func()) {
	t.Helper()
	var log bytes.Buffer
	rows, err := natsbus.NewRows(b.Conn(), natsbus.RowsConfig{Cluster: "local", Folder: filepath.Join(data, "integrity"), By: "test"},
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	complete, done := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		done <- rows.Watch(ctx, func(_ context.Context, ev apps.Event) error {
			if _, whole := ev.(apps.ExpectedComplete); whole {
				complete <- struct{}{}
			}
			return nil
		})
	}()
	select {
	case <-complete:
	case <-time.After(patience):
		t.Fatal("the rows are not read")
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v\n%s", err, log.String())
		}
	}
}
