package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// hostile is a text that clears a terminal, sets its title, and changes the writing direction.
const hostile = "a\x1b[2J\x1b]0;t\x07\x7f\u009b31m\u202e\U000e0001\rb"

// hostileDuration is a duration whose nanoseconds are found in an output.
const hostileDuration = 86461*time.Second + 123

// hostileValue returns a value of that type in which every text is hostile, and every list has
// one element.
func hostileValue(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case depth > 12:
		return v
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Now().UTC()))
		return v
	case t == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(hostileDuration))
		return v
	case t == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte("1"))
		return v
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(hostileValue(t.Elem(), depth+1))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
		v.Index(0).Set(hostileValue(t.Elem(), depth+1))
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(hostileValue(t.Elem(), depth+1))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(hostileValue(t.Key(), depth+1), hostileValue(t.Elem(), depth+1))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(hostileValue(t.Field(i).Type, depth+1))
			}
		}
	}
	return v
}

// hostileJSON returns a hostile value as JSON; change may make it one that a reader accepts.
func hostileJSON[T any](t *testing.T, change func(*T)) []byte {
	t.Helper()
	value := hostileValue(reflect.TypeFor[T](), 0).Interface().(T)
	change(&value)
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("%T: %v", value, err)
	}
	return data
}

// answer answers all requests on a subject.
func answer(t *testing.T, nc *nats.Conn, subject string, data []byte) {
	t.Helper()
	bustest.Subscribe(t, nc, subject, func(m *nats.Msg) { _ = m.Respond(data) })
}

// hostileWorld runs a bus on which every part of a pool answers with hostile texts, and every
// stored value has them.
func hostileWorld(t *testing.T) (data string) {
	data = t.TempDir()
	row := hostileJSON(t, func(a *api.App) {
		*a = api.App{Name: "web", Pool: "default", Instances: 1, Version: hostile, Command: hostile}
	})
	b := storedApps(t, data, map[string]string{"web": string(row), "bad": hostile})
	nc, js, ctx := b.Conn(), b.JetStream(), t.Context()
	const cluster, pool = "local", "default"
	record := hostileJSON(t, func(r *api.TickRecord) {
		r.Cluster, r.Pool, r.Paused, r.Failed, r.DryRun = cluster, pool, nil, "", false
	})
	ledger, err := state.OpenLedger(ctx, js, cluster, pool)
	if err == nil {
		err = ledger.Append(ctx, record)
	}
	if err != nil {
		t.Fatal(err)
	}
	facts := hostileJSON(t, func(*[]api.NodeFacts) {})
	for what, content := range map[string][]byte{
		"plan":  slices.Concat([]byte(`{"record":`), record, []byte("}")),
		"nodes": slices.Concat([]byte(`{"nodes":`), facts, []byte("}")),
	} {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		if _, err := zip.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := zip.Close(); err != nil {
			t.Fatal(err)
		}
		answer(t, nc, names.Subject(cluster, "autoscaler", pool, what), packed.Bytes())
	}
	answer(t, nc, names.BootstrapSubject(cluster, pool, "status"), hostileJSON(t, func(*api.BootstrapStatus) {}))
	answer(t, nc, names.BootstrapSubject(cluster, pool, "restart"), hostileJSON(t, func(*api.RestartAnswer) {}))
	answer(t, nc, names.BootstrapSubject(cluster, pool, "logs"), hostileJSON(t, func(a *api.ProcessLogsAnswer) { a.Error, a.More = "", false }))
	answer(t, nc, message.StatusSubject(cluster), hostileJSON(t, func(*api.HarmonizerStatus) {}))
	answer(t, nc, message.OrderSubject(cluster), hostileJSON(t, func(a *api.HarmonizerOrderAnswer) { a.OK = false }))
	answer(t, nc, message.CountsRequestSubject(cluster, pool), hostileJSON(t, func(*api.InstanceCounts) {}))
	answer(t, nc, events.StatusSubject(cluster, pool), hostileJSON(t, func(s *api.HealthStatus) { s.Next, s.Nodes[0].Node = "", "n1" }))
	answer(t, nc, events.OrderSubject(cluster, pool), hostileJSON(t, func(a *api.RepairOrderResponse) { a.OK = false }))
	putKey(t, js, names.HarmonizerBucket(cluster), "alarm", hostileJSON(t, func(a *integrity.Alarm) { a.Reader = "apps" }))
	putKey(t, js, names.PoolBucket(cluster, pool), "order.pause", hostileJSON(t, func(n *api.Note) { n.Until = time.Now().Add(time.Hour) }))
	evidence, err := state.NewEvidence(js, cluster, pool)
	if err == nil {
		_, err = evidence.Save(ctx, "n1", hostileJSON(t, func(e *api.Evidence) { e.Node = "n1" }))
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestNoControlCharactersReachATerminal runs each command that reads the bus, for people and as
// JSON, and each that reads a file, in a world of hostile texts. JSON and YAML have durations in seconds.
func TestNoControlCharactersReachATerminal(t *testing.T) {
	t.Parallel()
	data, configs := hostileWorld(t), muteConfig(t)
	var lines [][]string
	last := append(changesLast(), "app set")
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(busCommands())), func(path string) bool { return slices.Contains(last, path) })
	for _, path := range append(paths, last...) {
		line := slices.Concat(strings.Fields(path), busCommands()[path])
		lines = append(lines, line, append(slices.Clone(line), "--output", "json"), append(slices.Clone(line), "--output", "yaml"))
	}
	lines = append(lines, []string{"explain", "--since", "1h"}, []string{"explain", "--since", "1h", "-o", "json"}, []string{"node", "status", "n1"},
		[]string{"status", "--pool", hostile}, []string{hostile}, []string{"app", hostile}, []string{"status", "--" + hostile}, []string{"status", "--timeout", hostile},
		[]string{"decide", hostile}, []string{"release", "show", hostile}, []string{"config", "validate", "--cluster", hostile}, []string{"signal", "run", hostile},
		[]string{"harmonizer", "replay", hostile}, []string{"node", "policy", "check", hostile}, []string{"signal", "test", hostile}, []string{"metrics", "get", "--app", "web", hostile})
	for _, file := range []string{"weir.yaml", "harmonizer.yaml", "local/default.yaml"} {
		dir := muteConfig(t)
		if err := makeFile(dir+"/"+file, "\""+strings.Map(printableOnly, hostile)+"\\x1b[2J\": \"\\x1b[2J\u202e\"\n"); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, []string{"config", "validate", "--config-dir", dir})
	}
	escaped, inSeconds := 0, 0
	for _, line := range lines {
		r := runInTime(t, append([]string{"--data", data, "--config-dir", configs, "--timeout", "5s"}, line...)...)
		out := r.stdout + r.stderr
		for _, c := range out {
			if (unicode.IsControl(c) || !unicode.IsGraphic(c)) && c != '\n' && c != '\t' {
				t.Errorf("weir %q prints the character %q in\n%.2000q", line, c, out)
				break
			}
		}
		if strings.Contains(out, `[2J`) {
			escaped++
		}
		if slices.Contains(line, "--output") && strings.Contains(r.stdout, strconv.FormatInt(int64(hostileDuration), 10)) {
			t.Errorf("weir %q prints a duration in nanoseconds:\n%.4000s", line, r.stdout)
		}
		if strings.Contains(r.stdout, "86461.000000123") {
			inSeconds++
		}
		if slices.Contains(line, "json") && r.stdout != "" && !isJSON(r.stdout) {
			t.Errorf("weir %q prints what is not JSON:\n%.2000s", line, r.stdout)
		}
	}
	if inSeconds < 10 {
		t.Errorf("%d commands print a duration in seconds, want at least 10: which commands of the table have one?", inSeconds)
	}
	const least = 40
	if escaped < least {
		t.Errorf("%d of %d commands print a hostile text, want at least %d", escaped, len(lines), least)
	}
}

// printableOnly drops what a YAML text cannot hold.
func printableOnly(r rune) rune {
	if r < ' ' {
		return -1
	}
	return r
}

// isJSON reports whether a text is JSON values alone.
func isJSON(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	for d.More() {
		var v any
		if d.Decode(&v) != nil {
			return false
		}
	}
	return true
}

// putKey writes a key of a bucket.
func putKey(t *testing.T, js jetstream.JetStream, bucket, key string, value []byte) {
	t.Helper()
	if _, err := kvbucket.New(js, bucket).Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}
