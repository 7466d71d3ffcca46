package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// fixture is the folder of the stored state of schema 1, as testdata/upgrade/make.sh made it. It stays as it is: a later
// schema gets a folder of its own, and these tests then read both.
var fixture = filepath.Join("testdata", "upgrade", "v1")

func fromFixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fixture, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// oldData returns a data folder with the fixture's stored state.
func oldData(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "bus"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-C", filepath.Join(data, "bus"), "-xzf", filepath.Join(fixture, "jetstream.tar.gz")).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	return data
}

// TestUpgradeReadsOldState reads the fixture with the commands, and then runs everything on it.
func TestUpgradeReadsOldState(t *testing.T) {
	t.Parallel()
	data := oldData(t)
	b := storedApps(t, data, nil)
	hasAllKeys(t, b)
	run := inData(data)
	if r := run("app", "get", "web", "--output", "json"); r.code != 0 || r.stdout != fromFixture(t, "app.json") {
		t.Errorf("weir app get: %+v, want %s", r, fromFixture(t, "app.json"))
	}
	wantRecord(t, run("explain", "--since", "1000000h", "--output", "json"), fromFixture(t, "record.json"))
	if r := weir("decide", filepath.Join(fixture, "record.json")); r.code != 0 || r.stdout != fromFixture(t, "decided.json") {
		t.Errorf("weir decide: %+v, want %s", r, fromFixture(t, "decided.json"))
	}
	if r := run("offset"); !strings.Contains(r.stdout, "+2") || !strings.Contains(r.stdout, "fixture of an upgrade") {
		t.Errorf("weir offset: %+v, want the stored order", r)
	}
	if r := run("state", "check"); r.code != 0 {
		t.Errorf("weir state check: %+v", r)
	}
	b.Close()

	u := startUp(t, data)
	u.waitRunning(t, "web", 3)
	if status := u.weir(t, "status"); !strings.Contains(status, "fixture of an upgrade") {
		t.Errorf("weir status shows no pause of the fixture:\n%s", status)
	}
	if r := u.run("state", "check"); r.code != 0 {
		t.Errorf("weir state check after the takeover: %+v", r)
	}
	if r := u.run("resume"); r.code != 0 {
		t.Fatalf("weir resume: %+v", r)
	}
	u.pool(t, "a tick of the new version", sized(3)) // 0.75 for web, and the stored offset of 2
}

// hasAllKeys requires that the fixture has data of each kind of daemon.
func hasAllKeys(t *testing.T, b *bus.Bus) {
	t.Helper()
	kv, err := b.JetStream().KeyValue(t.Context(), names.StateBucket("local"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"lease.pool.", "lease.harmonizer", "lease.placer.", "pool.", "placer.", "harmonizer."} {
		if !slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, prefix) }) {
			t.Errorf("the fixture has no key %s: %q", prefix, keys)
		}
	}
	var streams []string
	list := b.JetStream().StreamNames(t.Context())
	for name := range list.Name() {
		streams = append(streams, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(streams, "weir-summaries:local:default") {
		t.Errorf("the fixture has no summaries: %q", streams)
	}
}

// wantRecord fails unless a line of the output is that record. Its durations may have other units.
func wantRecord(t *testing.T, r result, record string) {
	t.Helper()
	want, err := printedRecord([]byte(record))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(r.stdout) {
		got, err := printedRecord([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if got.At.Equal(want.At) {
			wantText, errWant := json.Marshal(want)
			gotText, errGot := json.Marshal(got)
			if err := errors.Join(errWant, errGot); err != nil || !bytes.Equal(gotText, wantText) {
				t.Errorf("weir explain prints the record %s, want %s, %v", gotText, wantText, err)
			}
			return
		}
	}
	t.Errorf("weir explain ends with %d and has no tick of %v: %.500s%s", r.code, want.At, r.stdout, r.stderr)
}

// TestOldReaderIgnoresNewKeys adds a key to each stored value that daemons write, as a newer version would in a rolling
// upgrade. Orders are not among them: an order that is not understood as a whole is rejected.
func TestOldReaderIgnoresNewKeys(t *testing.T) {
	t.Parallel()
	data := oldData(t)
	b := storedApps(t, data, nil)
	changed := 0
	for _, name := range []string{names.StateBucket("local"), names.AppsBucket("local")} {
		kv, err := b.JetStream().KeyValue(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := kv.Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			entry, err := kv.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			value, ok := withNewKey(key, entry.Value())
			if !ok {
				continue
			}
			changed++
			if _, err := kvbucket.New(b.JetStream(), name).Put(t.Context(), key, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if changed < 4 {
		t.Fatalf("%d values have a new key, want several", changed)
	}
	b.Close()
	u := startUp(t, data)
	u.waitRunning(t, "web", 3)
	if status := u.weir(t, "status"); !strings.Contains(status, "fixture of an upgrade") {
		t.Errorf("weir status shows no pause of the fixture:\n%s", status)
	}
	if r := u.run("state", "check"); r.code != 0 {
		t.Errorf("weir state check: %+v", r)
	}
}

// withNewKey adds a key to the object of a stored value, and to each object of a shard. It leaves compressed values.
func withNewKey(key string, value []byte) ([]byte, bool) {
	head, body, sealed := bytes.Cut(value, []byte("\n"))
	if !sealed {
		head, body = nil, value
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return nil, false
	}
	const added = `{"added_later":{"x":1},`
	add := func(raw []byte) []byte {
		if text := bytes.TrimSpace(raw); len(text) > 2 && text[0] == '{' {
			return append([]byte(added), text[1:]...)
		}
		return raw
	}
	switch {
	case strings.HasPrefix(key, "harmonizer.nodes"), len(object) == 0:
		return nil, false
	case strings.HasPrefix(key, "harmonizer."), strings.HasPrefix(key, "placer."):
		for name, inner := range object {
			object[name] = add(inner)
		}
		body, _ = json.Marshal(object)
	default:
		body = add(body)
	}
	if sealed {
		body = append(append(head, '\n'), body...)
	}
	return body, true
}

// TestOldReaderIgnoresNewKeysOfMessages replays recorded messages of agents, the harmonizer and the store of
// applications, plain and with a key more in each. The harmonizer acts the same.
func TestOldReaderIgnoresNewKeysOfMessages(t *testing.T) {
	t.Parallel()
	recorded := fromFixture(t, "harmonizer.jsonl")
	added := strings.ReplaceAll(recorded, `"msg":{"`, `"msg":{"added_later":{"x":1},"`)
	added = strings.ReplaceAll(added, `{"cc_partition"`, `{"added_later":[],"cc_partition"`)
	file := filepath.Join(t.TempDir(), "added.jsonl")
	if err := os.WriteFile(file, []byte(added), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, more := weir("harmonizer", "replay", "--events", filepath.Join(fixture, "harmonizer.jsonl")), weir("harmonizer", "replay", "--events", file)
	if plain.code != 0 || !strings.Contains(plain.stdout, `"health.start","msg":{"droplet":"web"`) || plain != more || strings.Count(added, "added_later") < 10 {
		t.Errorf("weir harmonizer replay of the fixture: %+v\nwith new keys: %+v", plain, more)
	}
}

// TestNewerSchemaIsNamed stores a newer schema. The commands and the daemons name both versions and change nothing.
func TestNewerSchemaIsNamed(t *testing.T) {
	t.Parallel()
	data := oldData(t)
	b := storedApps(t, data, nil)
	for _, bucket := range []string{names.StateBucket("local"), names.OrdersBucket("local")} {
		if _, err := kvbucket.New(b.JetStream(), bucket).Put(t.Context(), "schema", []byte(`{"version":2,"added_later":true}`)); err != nil {
			t.Fatal(err)
		}
	}
	const want = "version 2, this weir supports 1; install the version of weir that wrote it, or restore a backup"
	configs := muteConfig(t)
	for _, line := range []string{"status", "doctor", "pause --why x --for 0", "harmonizer", "autoscaler", "placer"} {
		r := runInTime(t, append(strings.Fields(line), "--data", data, "--config-dir", configs)...)
		if r.code == 0 && line != "status" || !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("weir %s: %+v, want %q", line, r, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("WEIR_TEST_BIN"), "weir"), "bootstrap", "--data", data, "--config-dir", configs) // it hides its process
	cmd.Env = append(os.Environ(), asWeir+"=1")
	if out, err := cmd.CombinedOutput(); err == nil || ctx.Err() != nil || !strings.Contains(string(out), want) {
		t.Errorf("weir bootstrap: %v, want %q:\n%s", err, want, out)
	}
}
