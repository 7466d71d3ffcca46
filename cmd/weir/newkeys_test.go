package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// TestReaderIgnoresNewKeys adds a key to each stored value that daemons write, as a newer version would in a rolling
// upgrade. Orders are not among them: an order that is not understood as a whole is rejected.
func TestReaderIgnoresNewKeys(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	u := startUp(t, data)
	u.weir(t, "app", "set", "web", "--instances", "3", "--cpus", "0.2", "--mem", "64", "--command", "while :; do sleep 1; done")
	u.waitRunning(t, "web", 3)
	u.weir(t, "pause", "--why", "kept by an upgrade", "--for", "0")
	u.end(t)

	b := storedApps(t, data, nil)
	var changed []string
	for _, name := range []string{names.PoolBucket("local", "default"), names.PlacerBucket("local", "default"), names.HarmonizerBucket("local"), names.AppsBucket("local")} {
		found, err := integrity.Read(t.Context(), b.JetStream(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range found.Keys {
			value, ok := withNewKey(k.Name, k.Value)
			if !ok || k.Deleted || strings.HasPrefix(k.Name, "order.") { // the readers of orders refuse what they do not understand
				continue
			}
			changed = append(changed, name+" "+k.Name)
			if _, err := kvbucket.New(b.JetStream(), name).Put(t.Context(), k.Name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, key := range []string{"weir-pool:local:default lease", "weir-harmonizer:local lease", "weir-placer:local:default lease", "weir-pool:local:default state", "weir-apps_local web"} {
		if !slices.Contains(changed, key) {
			t.Errorf("key %s has no new key in it, only %q", key, changed)
		}
	}
	b.Close()

	u = startUp(t, data)
	u.waitRunning(t, "web", 3)
	if status := u.weir(t, "status"); !strings.Contains(status, "kept by an upgrade") {
		t.Errorf("weir status shows no pause of the run before:\n%s", status)
	}
	if r := u.run("state", "check"); r.code != 0 {
		t.Errorf("weir state check: %+v", r)
	}
}

// withNewKey adds a key to the object of a stored value, and to each object of a shard. A compressed value becomes plain.
func withNewKey(key string, value []byte) ([]byte, bool) {
	head, body, sealed := bytes.Cut(value, []byte("\n"))
	if !sealed {
		head, body = nil, value
	}
	if plain, packed := bytes.CutSuffix(head, []byte(`,"gzip":true}`)); packed {
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, false
		}
		if body, err = io.ReadAll(r); err != nil {
			return nil, false
		}
		head = append(plain, '}')
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
	case key == "memory.nodes", len(object) == 0:
		return nil, false
	case strings.HasPrefix(key, "memory."), strings.HasPrefix(key, "assignment."):
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

// TestReaderIgnoresNewKeysOfMessages replays recorded messages of agents, the harmonizer and the store of
// applications, plain and with a key more in each. The harmonizer acts the same.
func TestReaderIgnoresNewKeysOfMessages(t *testing.T) {
	t.Parallel()
	const plainFile = "testdata/harmonizer.jsonl"
	recorded, err := os.ReadFile(plainFile)
	if err != nil {
		t.Fatal(err)
	}
	added := strings.ReplaceAll(string(recorded), `"msg":{"`, `"msg":{"added_later":{"x":1},"`)
	added = strings.ReplaceAll(added, `{"cc_partition"`, `{"added_later":[],"cc_partition"`)
	file := filepath.Join(t.TempDir(), "added.jsonl")
	if err := os.WriteFile(file, []byte(added), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, more := weir("harmonizer", "replay", "--events", plainFile), weir("harmonizer", "replay", "--events", file)
	if plain.code != 0 || !strings.Contains(plain.stdout, `"health.start","msg":{"droplet":"web"`) || plain != more || strings.Count(added, "added_later") < 10 {
		t.Errorf("weir harmonizer replay of the fixture: %+v\nwith new keys: %+v", plain, more)
	}
}

// TestNewerSchemaIsNamed stores a newer schema. The commands and the daemons name both versions and change nothing.
func TestNewerSchemaIsNamed(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := storedApps(t, data, nil)
	for _, bucket := range []string{names.PoolBucket("local", "default"), names.PlacerBucket("local", "default"), names.HarmonizerBucket("local")} {
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
	if out, err := offspring.CombinedOutput(cmd); err == nil || ctx.Err() != nil || !strings.Contains(string(out), want) {
		t.Errorf("weir bootstrap: %v, want %q:\n%s", err, want, out)
	}
}
