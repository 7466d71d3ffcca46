package rowfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
)

func TestDecodeYAMLAndJSON(t *testing.T) {
	web := api.App{Name: "web", Pool: "default", Instances: 5, Version: "1.10", Command: "sleep 100", CPUs: 0.5, Mem: 64,
		Disk: 1, GPUs: 2, State: api.AppStopped, Package: api.PackagePending,
		Labels: map[string]string{"runtime": "1.9"}, Updated: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	seven := api.App{Name: "7", Pool: "default"}
	seven.Version = message.VersionOf(seven)
	tests := map[string]string{
		"block": `# comment
apps:
  web:
    instances: 5
    pool: default
    version: 1.10
    command: sleep 100
    cpus: 0.5
    mem: 64
    disk: 1
    gpus: 2
    state: STOPPED
    package_state: PENDING
    labels:
      runtime: 1.9
    updated: 2026-01-02T03:04:05Z
  7: {instances: 0, pool: default}
`,
		"flow": `apps: {web: {instances: 5, pool: default, version: "1.10", command: 'sleep 100', cpus: 0.5, mem: 64, disk: 1, gpus: 2,
  state: STOPPED, package_state: PENDING, labels: {runtime: 1.9}, updated: "2026-01-02T03:04:05Z"}, "7": {instances: 0, pool: default}}`,
		"json": `
{"apps": {"web": {"instances": 5, "pool": "default", "version": "1.10", "command": "sleep 100", "cpus": 0.5, "mem": 64, "disk": 1, "gpus": 2,
  "state": "STOPPED", "package_state": "PENDING", "labels": {"runtime": 1.9}, "updated": "2026-01-02T03:04:05Z"},
 "7": {"instances": 0, "pool": "default"}}}`,
		"mark and carriage returns": "\ufeffapps:\r\n  web: {instances: 5, pool: default, version: \"1.10\", command: sleep 100, cpus: 0.5, mem: 64, disk: 1, gpus: 2, state: STOPPED, package_state: PENDING, labels: {runtime: \"1.9\"}, updated: \"2026-01-02T03:04:05Z\"}\r\n  7: {instances: 0, pool: default}\r\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := decode("f", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]api.App{web, seven}, got.apps); diff != "" || len(got.unreadable) > 0 {
				t.Errorf("decode: unreadable %v\n%s", got.unreadable, diff)
			}
		})
	}
}

// A row has the readiness, the environment and the update that "weir app set" sets.
func TestDecodeOfAReadiness(t *testing.T) {
	after := api.Duration(time.Second)
	want := api.App{Name: "web", Pool: "p", Instances: 1, Env: map[string]string{"LEVEL": "debug", "N": "1"}, Update: &api.Update{MaxSurge: api.Share{Count: 2}, StopAfter: 3},
		Ready: &api.Readiness{TCP: &api.TCPCheck{Port: api.PortRef{Number: 80}}, After: &after, Within: api.Duration(time.Minute), RestartUnready: true}}
	want.Version = message.VersionOf(want)
	for name, text := range map[string]string{
		"YAML": "apps:\n  web:\n    instances: 1\n    pool: p\n    env: {LEVEL: debug, N: 1}\n    update: {max_surge: 2, stop_after: 3}\n" +
			"    ready:\n      tcp: {port: 80}\n      after: 1s\n      within: 1m\n      restart_unready: true\n",
		"JSON": `{"apps": {"web": {"instances": 1, "pool": "p", "env": {"LEVEL": "debug", "N": "1"}, "update": {"max_surge": "2", "stop_after": 3},
			"ready": {"tcp": {"port": 80}, "after": "1s", "within": "1m", "restart_unready": true}}}}`,
	} {
		got, err := Decode("f", []byte(text))
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		if diff := cmp.Diff(want, got[0].App); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Decode names all mistakes of a file beside the rows without one.
func TestDecodeNamesAllMistakes(t *testing.T) {
	text := "apps:\n  a.b: {instances: 1}\n  good: {instances: 1, pool: p}\n  web:\n    instances: -1\n    cpus: much\n    ready:\n      http: {port: 0}\n      often: 1\n" +
		"  good: {instances: 2, pool: p}\nuser: 1\n"
	got, err := Decode("f", []byte(text))
	want := `f:2: app "a.b": want letters, digits, - and _, at most 63, beginning with a letter or digit
f:4: app web: pool is missing
f:5: app web: instances is -1, outside 0 to 100000
f:6: app web: cpus is "much"; it must be a number
f:8: app web: ready.http.port is 0, outside 1 to 65535
f:9: app web: ready.often is unknown; use http, tcp, exec, after, within, timeout, period, failures, restart_unready
f:10: app good is repeated; it is first on line 3
f:11: unknown key "user"; the only key is apps`
	if len(got) != 1 || got[0].App.Name != "good" || got[0].Line != 3 || err == nil || err.Error() != want {
		t.Errorf("Decode = %v,\n%v\nwant\n%s", got, err, want)
	}
}

func TestVersionIsHashOfCommandAndResources(t *testing.T) {
	version := func(row string) string {
		t.Helper()
		got, err := decode("f", []byte("apps: {web: {pool: p, "+row+"}}"))
		if err != nil || len(got.apps) != 1 {
			t.Fatalf("decode = %+v, %v", got, err)
		}
		return got.apps[0].Version
	}
	base := version("instances: 1, command: run, cpus: 1")
	if len(base) != 8 {
		t.Errorf("version %q, want eight digits", base)
	}
	if version("instances: 9, command: run, cpus: 1") != base {
		t.Error("another count is another version")
	}
	if version("instances: 1, command: walk, cpus: 1") == base || version("instances: 1, command: run, cpus: 2") == base {
		t.Error("another command, or other resources, are the same version")
	}
	if one := version("instances: 1, command: run, cpus: 1, release: shop/web@v1"); one == base || one == version("instances: 1, command: run, cpus: 1, release: shop/web@v2") {
		t.Error("another release is the same version")
	}
}

func TestDecodeRejectsTheFile(t *testing.T) {
	row := "{instances: 1, pool: p}"
	tests := []struct{ name, text, want string }{
		{"empty", "", "f:1: the file is empty; it must be a map with the key apps"},
		{"only a comment", "# apps\n", "f:1: the file is empty"},
		{"cut before the rows", "apps:\n", "f:1: apps is empty"},
		{"a list", "- a\n", "f:1: the file is a list"},
		{"another key", "apps: {}\nuser: 1\n", `f:2: unknown key "user"`},
		{"no apps", "{}", "f:1: the key apps is missing"},
		{"apps twice", "apps: {}\napps: {}\n", "f:2: apps is repeated; it is first on line 1"},
		{"an app twice", "apps:\n  web: " + row + "\n  api: " + row + "\n  web: " + row + "\n", "f:4: app web is repeated; it is first on line 2"},
		{"an app twice in JSON", "{\"apps\": {\n\"web\": {},\n\"web\": {}}}", "f:3: app web is repeated; it is first on line 2"},
		{"bad name", "apps:\n  a.b: " + row + "\n", `f:2: app "a.b": want letters`},
		{"two documents", "apps: {}\n---\napps: {}\n", "f:3: a second document begins"},
		{"alias", "apps:\n  a: &x " + row + "\n  b: *x\n", "f:2: anchors, aliases"},
		{"broken YAML", "apps:\n  web: {instances: 1\n", "f:2: "},
		{"cut JSON", "{\"apps\": {\n\"web\": {\"instances\": 1", "f:2: is not JSON: unexpected EOF"},
		{"JSON goes on", "{\"apps\": {}}\n{}", "f:2: has data after the end"},
		{"not UTF-8", "apps: \xff", "f:1: is not text in UTF-8: save it as UTF-8"},
		{"deep YAML", "apps: " + strings.Repeat("[", 20) + strings.Repeat("]", 20), "f:1: nests deeper than 16 levels"},
		{"deep JSON", `{"apps": ` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "}", "f:1: nests deeper than 16 levels"},
		{"much YAML", "apps:\n" + strings.Repeat("  a: 1\n", maxTokens/3), "write it as JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode("f", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("decode = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestDecodeSkipsARow(t *testing.T) {
	tests := []struct{ name, row, want string }{
		{"no instances", "{pool: p}", "f:2: app bad: instances is missing"},
		{"no pool", "{instances: 1}", "f:2: app bad: pool is missing"},
		{"negative", "\n    pool: p\n    instances: -1", "f:4: app bad: instances is -1"},
		{"text for a number", "{pool: p, instances: many}", `f:2: app bad: instances is "many"; it must be a whole number`},
		{"octal number", "{pool: p, instances: 010}", `f:2: app bad: instances is 010, which YAML reads as 8: write 8, or 10 without the zero`},
		{"binary number", "{pool: p, instances: 1, cpus: 0b11}", `f:2: app bad: cpus is 0b11: want a decimal number: write 3`},
		{"fraction", "{pool: p, instances: 1.5}", `f:2: app bad: instances is "1.5"; it must be a whole number`},
		{"infinite", "{pool: p, instances: 1, cpus: 1e999}", `f:2: app bad: cpus is "1e999"; it must be a number`},
		{"not a number", "{pool: p, instances: 1, cpus: .nan}", "f:2: app bad: cpus is"},
		{"null", "{pool: p, instances: ~}", "f:2: app bad: instances is empty; it must be a whole number"},
		{"unknown field", "\n    pool: p\n    instances: 1\n    instanses: 1", "f:5: app bad: instanses is unknown"},
		{"field twice", "\n    pool: p\n    instances: 1\n    pool: q", "f:5: app bad: pool is repeated; it is first on line 3"},
		{"no map", "5", "f:2: app bad is a number; it must be a map"},
		{"bad state", "{pool: p, instances: 1, state: started}", "f:2: app bad: state "},
		{"bad time", "{pool: p, instances: 1, updated: yesterday}", "f:2: app bad: updated is \"yesterday\""},
		{"bad check", "{pool: p, instances: 1, ready: {http: 80}}", "f:2: app bad: ready.http is a number; it must be a map with port, path, status"},
		{"bad span", "{pool: p, instances: 1, ready: {after: 10}}", `f:2: app bad: ready.after is "10"; it must be a number with a unit, such as 10s`},
		{"bad flag", "{pool: p, instances: 1, ready: {restart_unready: 1}}", `f:2: app bad: ready.restart_unready is "1"; it must be true or false`},
		{"bad share", "{pool: p, instances: 1, update: {max_surge: 200%}}", `f:2: app bad: update.max_surge is "200%": want a number from 1`},
		{"bad variable", "{pool: p, instances: 1, env: {WEIR_X: 1}}", `f:2: app bad: env has the name "WEIR_X"`},
		{"bad label", "{pool: p, instances: 1, labels: {a: [1]}}", "f:2: app bad: labels has a, which is a list"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decode("f", []byte("apps:\n  bad: "+tt.row+"\n  good: {instances: 1, pool: p}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.apps) != 1 || got.apps[0].Name != "good" || len(got.unreadable) != 1 || got.unreadable[0].name != "bad" {
				t.Fatalf("decode = %+v", got)
			}
			if err := got.unreadable[0].err; !strings.Contains(err.Error(), tt.want) {
				t.Errorf("row is unreadable: %v, want %s", err, tt.want)
			}
		})
	}
}

// manyRows returns a file of JSON.
func manyRows(n int) []byte {
	list := map[string]any{}
	for i := range n {
		list[fmt.Sprintf("app-%06d", i)] = map[string]any{"instances": 5, "pool": "default", "command": "sleep 100", "cpus": 0.5, "mem": 64}
	}
	data, err := json.Marshal(map[string]any{"apps": list})
	if err != nil {
		panic(err) // our own values always encode
	}
	return data
}

func TestDecodeOfLargeJSON(t *testing.T) {
	got, err := decode("f", manyRows(20_000))
	if err != nil || len(got.apps) != 20_000 {
		t.Fatalf("decode = %d rows, %v", len(got.apps), err)
	}
}

func BenchmarkDecodeJSON100kApps(b *testing.B) {
	data := manyRows(100_000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := decode("f", data); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "apps:", "apps: {}", `{"apps":{}}`, "apps: {a: {instances: 1, pool: p, labels: {x: y}}}",
		`{"apps":{"a":{"instances":1,"pool":"p","version":7}}}`, "apps: &a [*a]", "? [x]\n: y", "apps: !!binary x", "<<: {apps: 1}",
		"apps:\n  a: |\n    text\n", "\xef\xbb\xbf{", `{"apps":{"a":`, "apps: {a: {instances: 0x1, pool: .inf}}", "--- >", "a: b: c",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode("f", data)
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("error without a line: %v", err)
		}
		for _, a := range got.apps {
			if err := message.ValidateApp(a); err != nil {
				t.Errorf("row %+v: %v", a, err)
			}
		}
	})
}

// A fault in a row of the file makes that row unreadable; the other rows count. The file is a configuration: an unknown key
// is a fault too. A fault outside of the rows, or in the name of a row, refuses the file, and changes nothing.
func TestFaultsOfRows(t *testing.T) {
	row := func(name string) string {
		return `"` + name + `":{"instances":2,"pool":"p","version":"v1","command":"run","release":"shop/web@v1.0.0","cpus":0.5,"mem":64,"disk":10,"gpus":0,` +
			`"updated":"2026-03-01T12:00:00Z","state":"STARTED","package_state":"STAGED","labels":{"team":"shop"},` +
			`"ready":{"http":{"port":8080,"path":"/health","status":200},"after":"1s","within":"2m0s","timeout":"1s","period":"5s","failures":2,"restart_unready":true},` +
			`"env":{"LEVEL":"debug"},"ports":[{"name":"http","port":8080},{"name":"admin","port":"auto"}],"update":{"max_surge":"25%","stop_after":2},` +
			`"spread":{"by":"zone","at_most_per_node":2},"one_shot":true,"retries":5}`
	}
	file := `{"apps":{` + row("a") + "," + row("b") + "," + row("c") + `}}`
	lacks := jsonfault.Lacks[api.App](`{"name":"b",` + strings.TrimPrefix(row("b"), `"b":{`))
	// Only commands set the last two. The others are checks beside that of the row.
	if want := []string{"ready.tcp", "ready.exec", "restarted", "history"}; !slices.Equal(lacks, want) {
		t.Errorf("the row lacks %q, want %q", lacks, want)
	}
	good, err := decode("f", []byte(file))
	if err != nil || len(good.apps) != 3 {
		t.Fatalf("%+v, %v", good, err)
	}
	n := 0
	for _, c := range jsonfault.Cases(file) {
		if strings.HasPrefix(c.Path, "apps.a") || strings.HasPrefix(c.Path, "apps.c") || c.Path == "apps.b" && c.Fault == jsonfault.OtherCase {
			continue
		}
		n++
		got, err := decode("f", []byte(c.Text))
		whole := !strings.HasPrefix(c.Path, "apps.b") || c.Fault == jsonfault.NotJSON || c.Path == "apps.b" && c.Fault == jsonfault.Twice
		switch {
		case whole && c.Path == "apps" && c.Fault == jsonfault.Extra: // it is one more row, which is unreadable
			if err != nil && len(got.apps) > 0 || err == nil && len(got.apps) != 3 {
				t.Errorf("%v: %d rows, %v", c, len(got.apps), err)
			}
		case whole:
			if err == nil || len(got.apps)+len(got.unreadable) > 0 {
				t.Errorf("%v: %+v, %v; want an error alone", c, got, err)
			}
		case err != nil:
			t.Errorf("%v: %v", c, err)
		default:
			rest := slices.DeleteFunc(slices.Clone(got.apps), func(a api.App) bool { return a.Name == "b" })
			want := []api.App{good.apps[0], good.apps[2]}
			if diff := cmp.Diff(want, rest); diff != "" || len(got.apps)-len(rest)+len(got.unreadable) != 1 && c.String() != "apps.b: missing" {
				t.Errorf("%v: unreadable %v (-want +got)\n%s", c, got.unreadable, diff)
			}
		}
	}
	t.Logf("%d faulty files", n)
}
