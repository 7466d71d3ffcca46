package message

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestDecodeHeartbeat(t *testing.T) {
	in := `{"dea":"n17","extra":{"a":[1]},"droplets":[
		{"cc_partition":"default","droplet":"7","version":"","instance":"i0","index":0,"state":"RUNNING","state_timestamp":12},
		{"droplet":"web","version":"v1","instance":"i1","index":1,"state":"RESUMING","state_timestamp":12.5,"new":null}]}`
	got, err := DecodeHeartbeat([]byte(in))
	want := api.Heartbeat{Node: "n17", Beats: []api.Beat{
		{Partition: "default", App: "7", Instance: "i0", State: api.CopyRunning, Since: 12},
		{App: "web", Version: "v1", Instance: "i1", Index: 1, State: "RESUMING", Since: 12.5},
	}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("DecodeHeartbeat: %v\n%s", err, cmp.Diff(want, got))
	}
}

func TestDecodeErrorNamesTheField(t *testing.T) {
	beat := func(field, value string) string {
		m := map[string]string{"droplet": `"a"`, "version": `"v"`, "instance": `"i"`, "index": `0`, "state": `"RUNNING"`, "state_timestamp": `1`}
		m[field] = value
		var parts []string
		for k, v := range m {
			if v != "" {
				parts = append(parts, `"`+k+`":`+v)
			}
		}
		return `{"dea":"n","droplets":[{` + strings.Join(parts, ",") + `}]}`
	}
	tests := []struct{ name, in, field string }{
		{"negative index", beat("index", "-1"), "droplets[0].index"},
		{"huge index", beat("index", "100000"), "droplets[0].index"},
		{"index beyond int64", beat("index", "99999999999999999999"), "droplets[0].index"},
		{"fractional index", beat("index", "1.5"), "droplets[0].index"},
		{"index as string", beat("index", `"1"`), "droplets[0].index"},
		{"no index", beat("index", ""), "droplets[0].index"},
		{"null app", beat("droplet", "null"), "droplets[0].droplet"},
		{"app is an object", beat("droplet", "{}"), "droplets[0].droplet"},
		{"app is a fraction", beat("droplet", "1.5"), "droplets[0].droplet"},
		{"long id", beat("instance", `"`+strings.Repeat("x", MaxID+1)+`"`), "droplets[0].instance"},
		{"no state", beat("state", ""), "droplets[0].state"},
		{"negative time", beat("state_timestamp", "-5"), "droplets[0].state_timestamp"},
		{"infinite time", beat("state_timestamp", "1e999"), "droplets[0].state_timestamp"},
		{"time as string", beat("state_timestamp", `"5"`), "droplets[0].state_timestamp"},
		{"beat is no object", `{"dea":"n","droplets":[3]}`, "droplets[0]"},
		{"droplets is no list", `{"dea":"n","droplets":{}}`, "droplets"},
		{"no node", `{"droplets":[]}`, "dea"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeHeartbeat([]byte(tt.in))
			fe, ok := errors.AsType[*FieldError](err)
			if !ok || fe.Field != tt.field {
				t.Errorf("DecodeHeartbeat = %v, want a problem with %s", err, tt.field)
			}
		})
	}
}

func TestDecodeRejectsTooMany(t *testing.T) {
	in := `{"droplet":"a","indices":[` + strings.Repeat("1,", MaxInstances) + `1]}`
	_, err := DecodeStart([]byte(in))
	if fe, ok := errors.AsType[*FieldError](err); !ok || fe.Field != "indices" {
		t.Errorf("DecodeStart of %d indices = %v", MaxInstances+1, err)
	}
}

func TestDecodeRejectsNonObjects(t *testing.T) {
	for _, in := range []string{"", "null", "[]", "1", "not json", `{"dea":`, strings.Repeat(" ", maxBytes+1)} {
		if _, err := DecodeHeartbeat([]byte(in)); err == nil {
			t.Errorf("DecodeHeartbeat(%.20q) succeeded", in)
		}
	}
}

func TestDecodeExited(t *testing.T) {
	in := `{"droplet":"web","version":"v1","instance":"i1","index":2,"reason":"CRASHED","exit_status":-1,"exit_description":"oom","crash_timestamp":99.7}`
	got, err := DecodeExited(Node{}, []byte(in))
	want := api.Exited{App: "web", Version: "v1", Instance: "i1", Index: 2, Reason: api.ExitCrashed, Status: new(-1), Description: "oom", CrashedAt: 99}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("DecodeExited: %v\n%s", err, cmp.Diff(want, got))
	}
	for _, bad := range []string{`{"droplet":"web","instance":"i","index":-1,"reason":"CRASHED"}`, `{"droplet":"web","instance":"i","index":0}`, `x`} {
		if _, err := DecodeExited(Node{}, []byte(bad)); err == nil {
			t.Errorf("DecodeExited(%s) succeeded", bad)
		}
	}
}

func TestDecodeUpdated(t *testing.T) {
	got, err := DecodeUpdated([]byte(`{"droplet":7,"cc_partition":"default"}`))
	if want := (Updated{Partition: "default", App: "7"}); err != nil || got != want {
		t.Errorf("DecodeUpdated = %v, %v, want %v", got, err, want)
	}
}

func TestNudgesRoundTrip(t *testing.T) {
	start := api.Start{App: "web", LastUpdated: 5, Version: "v1", Indices: []int{0, 3}, Running: map[string]int{"v1": 2}, Flapping: true}
	data, err := json.Marshal(start)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeStart(data); err != nil || !cmp.Equal(got, start) {
		t.Errorf("DecodeStart: %v\n%s", err, cmp.Diff(start, got))
	}
	stop := api.Stop{App: "web", LastUpdated: 5, Version: "v1", Instances: map[string]string{"i": "v0"}, Running: map[string]int{}}
	if data, err = json.Marshal(stop); err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeStop(data); err != nil || !cmp.Equal(got, stop) {
		t.Errorf("DecodeStop: %v\n%s", err, cmp.Diff(stop, got))
	}
	classic, err := DecodeStop([]byte(`{"droplet":7,"op":"STOP","last_updated":null,"instances":["i",null]}`))
	want := api.Stop{App: "7", Instances: map[string]string{"i": ""}, Running: map[string]int{}}
	if err != nil || !cmp.Equal(classic, want) {
		t.Errorf("DecodeStop of the classic dialect: %v\n%s", err, cmp.Diff(want, classic))
	}
}

func TestAppValidate(t *testing.T) {
	good := api.App{Name: "web", Pool: "default", Instances: 2, Version: "v1", Command: "sleep 1", CPUs: 0.5, Mem: 64}
	tests := []struct {
		name   string
		change func(*api.App)
		field  string // "" if valid
	}{
		{"good", func(*api.App) {}, ""},

		{"no command", func(a *api.App) { a.Command = "" }, ""},
		{"bad state", func(a *api.App) { a.State = "RUNNING" }, "state"},
		{"bad package", func(a *api.App) { a.Package = "STARTED" }, "package_state"},
		{"labels", func(a *api.App) { a.Labels = map[string]string{"runtime": strings.Repeat("x", MaxLabel)} }, ""},
		{"long label", func(a *api.App) { a.Labels = map[string]string{"runtime": strings.Repeat("x", MaxLabel+1)} }, "labels.runtime"},
		{"bad key of a label", func(a *api.App) { a.Labels = map[string]string{"a.b": ""} }, "labels"},
		{"dot in the name", func(a *api.App) { a.Name = "a.b" }, "name"},
		{"name starts with -", func(a *api.App) { a.Name = "-a" }, "name"},
		{"name of 63", func(a *api.App) { a.Name = strings.Repeat("a", 63) }, ""},
		{"name of 64", func(a *api.App) { a.Name = strings.Repeat("a", 64) }, "name"},
		{"no pool", func(a *api.App) { a.Pool = "" }, "pool"},
		{"negative instances", func(a *api.App) { a.Instances = -1 }, "instances"},
		{"most instances", func(a *api.App) { a.Instances = MaxInstances }, ""},
		{"too many instances", func(a *api.App) { a.Instances = MaxInstances + 1 }, "instances"},
		{"NaN cpus", func(a *api.App) { a.CPUs = math.NaN() }, "cpus"},
		{"infinite mem", func(a *api.App) { a.Mem = math.Inf(1) }, "mem"},
		{"negative disk", func(a *api.App) { a.Disk = -1 }, "disk"},
		{"two checks", func(a *api.App) {
			a.Ready = &api.Readiness{TCP: &api.TCPCheck{Port: api.PortRef{Number: 1}}, Exec: &api.ExecCheck{Command: "x"}}
		}, "ready"},
		{"port 0", func(a *api.App) { a.Ready = &api.Readiness{HTTP: &api.HTTPCheck{}} }, "ready.http.port"},
		{"path without slash", func(a *api.App) {
			a.Ready = &api.Readiness{HTTP: &api.HTTPCheck{Port: api.PortRef{Number: 80}, Path: "x y"}}
		}, "ready.http.path"},
		{"status 42", func(a *api.App) {
			a.Ready = &api.Readiness{HTTP: &api.HTTPCheck{Port: api.PortRef{Number: 80}, Status: 42}}
		}, "ready.http.status"},
		{"no command of a check", func(a *api.App) { a.Ready = &api.Readiness{Exec: &api.ExecCheck{}} }, "ready.exec.command"},
		{"long timeout", func(a *api.App) { a.Ready = &api.Readiness{Timeout: api.Duration(2 * time.Hour)} }, "ready.timeout"},
		{"restart without a check", func(a *api.App) { a.Ready = &api.Readiness{RestartUnready: true} }, "ready.restart_unready"},
		{"ready", func(a *api.App) {
			a.Ready = &api.Readiness{HTTP: &api.HTTPCheck{Port: api.PortRef{Number: 80}, Path: "/ok"}}
		}, ""},
		{"a check of a named port", func(a *api.App) {
			a.Ports = []api.Port{{Name: "admin", Port: api.AutoPort}}
			a.Ready = &api.Readiness{TCP: &api.TCPCheck{Port: api.PortRef{Name: "admin"}}}
		}, ""},
		{"a check of an unknown port", func(a *api.App) { a.Ready = &api.Readiness{TCP: &api.TCPCheck{Port: api.PortRef{Name: "admin"}}} }, "ready.tcp.port"},
		{"ports", func(a *api.App) {
			a.Ports = []api.Port{{Name: "http", Port: 8080}, {Name: "a-1", Port: api.AutoPort}, {Name: "b", Port: api.AutoPort}}
		}, ""},
		{"port without number", func(a *api.App) { a.Ports = []api.Port{{Name: "http"}} }, "ports[0].port"},
		{"port of 17 bits", func(a *api.App) { a.Ports = []api.Port{{Name: "http", Port: 65536}} }, "ports[0].port"},
		{"a port twice", func(a *api.App) { a.Ports = []api.Port{{Name: "a", Port: 1}, {Name: "b", Port: 1}} }, "ports[1].port"},
		{"two ports with one variable", func(a *api.App) { a.Ports = []api.Port{{Name: "a-b", Port: 1}, {Name: "A_B", Port: 2}} }, "ports[1].name"},
		{"a port with an odd name", func(a *api.App) { a.Ports = []api.Port{{Name: "a=b", Port: 1}} }, "ports[0].name"},
		{"17 ports", func(a *api.App) { a.Ports = make([]api.Port, api.MaxPorts+1) }, "ports"},
		{"spread", func(a *api.App) { a.Spread = &api.Spread{By: api.SpreadByZone, AtMostPerNode: 2} }, ""},
		{"spread by rack", func(a *api.App) { a.Spread = &api.Spread{By: "rack"} }, "spread.by"},
		{"at most -1 on a node", func(a *api.App) { a.Spread = &api.Spread{AtMostPerNode: -1} }, "spread.at_most_per_node"},
		{"work", func(a *api.App) { a.OneShot, a.Retries = true, new(0) }, ""},
		{"retries of an application without an end", func(a *api.App) { a.Retries = new(1) }, "retries"},
		{"retries -1", func(a *api.App) { a.OneShot, a.Retries = true, new(-1) }, "retries"},
		{"env", func(a *api.App) { a.Env = map[string]string{"PORT": "80", "_x": ""} }, ""},
		{"env of the agent", func(a *api.App) { a.Env = map[string]string{"WEIR_APP": "x"} }, "env"},
		{"env with an odd name", func(a *api.App) { a.Env = map[string]string{"A=B": "x"} }, "env"},
		{"env with a zero byte", func(a *api.App) { a.Env = map[string]string{"A": "x\x00"} }, "env"},
		{"history", func(a *api.App) { a.History = []api.AppVersion{{Version: "v0"}} }, ""},
		{"a version twice", func(a *api.App) { a.History = []api.AppVersion{{Version: a.Version}} }, "history[0].version"},
		{"a bad version in the history", func(a *api.App) { a.History = []api.AppVersion{{Version: "v0", CPUs: -1}} }, "history[0].cpus"},
		{"stop after -1", func(a *api.App) { a.Update = &api.Update{StopAfter: -1} }, "update.stop_after"},
		{"longest command", func(a *api.App) { a.Command = strings.Repeat("x", MaxRow-300) }, ""},
		{"long command", func(a *api.App) { a.Command = strings.Repeat("x", MaxRow) }, "command"},
		{"command that is long as JSON", func(a *api.App) { a.Command = strings.Repeat("\x01", MaxRow/5) }, "command"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := good
			tt.change(&a)
			err := ValidateApp(a)
			fe, _ := errors.AsType[*FieldError](err)
			if (err == nil) != (tt.field == "") || (fe != nil && fe.Field != tt.field) {
				t.Errorf("Validate = %v, want a problem with %q", err, tt.field)
			}
		})
	}
}

func TestAppAndCountsRoundTrip(t *testing.T) {
	app := api.App{Name: "web", Pool: "p", Instances: 1, Version: "v", Command: "c", Updated: time.Unix(5, 0).UTC()}
	data, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeApp(data); err != nil || !cmp.Equal(got, app) {
		t.Errorf("DecodeApp: %v\n%s", err, cmp.Diff(app, got))
	}
	counts := api.InstanceCounts{Pool: "p", Complete: true, At: time.Unix(9, 0).UTC(), Apps: map[string]api.AppCount{"web": {Expected: 1, Missing: 1, CPUs: 2}}}
	if data, err = json.Marshal(counts); err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeCounts(data); err != nil || !cmp.Equal(got, counts) {
		t.Errorf("DecodeCounts: %v\n%s", err, cmp.Diff(counts, got))
	}
	if _, err := DecodeCounts([]byte(`{"apps":{"web":{"running":-1}}}`)); err == nil {
		t.Error("DecodeCounts took a negative count")
	}
}

// FuzzDecode runs every decoder on the same bytes. No decoder may panic, and accepted values
// must satisfy the documented bounds.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"dea":"n","droplets":[{"droplet":7,"version":"v","instance":"i","index":0,"state":"RUNNING","state_timestamp":1.5}]}`,
		`{"droplet":"a","instance":"i","index":3,"reason":"CRASHED","exit_status":null}`,
		`{"droplet":"a","version":"v","indices":[1,2],"running":{"v":1},"flapping":false}`,
		`{"droplet":"a","instances":{"i":"v"}}`, `{"droplet":"a","instances":["i",null]}`,
		`{"droplet":"a","op":"START","indices":[1]}`,
		`{"pool":"p","apps":[{"app":"web","copies":2,"footprint":{"cpus":50}}]}`, `{"name":"web","pool":"p","instances":1,"command":"c"}`, `{"apps":{"a":{"running":1}}}`, `{`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if hb, err := DecodeHeartbeat(data); err == nil {
			for _, b := range hb.Beats {
				if b.Index < 0 || b.Index >= MaxInstances || b.App == "" || b.Instance == "" || b.Since < 0 {
					t.Errorf("DecodeHeartbeat(%q) took %+v", data, b)
				}
			}
		}
		if e, err := DecodeExited(Node{}, data); err == nil && (e.Index < 0 || e.App == "" || e.Instance == "") {
			t.Errorf("DecodeExited(%q) took %+v", data, e)
		}
		if s, err := DecodeStart(data); err == nil {
			for _, i := range s.Indices {
				if i < 0 || i >= MaxInstances {
					t.Errorf("DecodeStart(%q) took %+v", data, s)
				}
			}
		}
		if a, err := DecodeApp(data); err == nil && ValidateApp(a) != nil {
			t.Errorf("DecodeApp(%q) took %+v", data, a)
		}
		if c, err := DecodeCounts(data); err == nil && (c.Part < 0 || c.Part >= max(c.Parts, 1)) {
			t.Errorf("DecodeCounts(%q) took part %d of %d", data, c.Part, c.Parts)
		}
		if n, err := DecodeNever(data); err == nil && (n.Pool == "" || n.Validate() != nil) {
			t.Errorf("DecodeNever(%q) took %+v", data, n)
		}
		_, _ = DecodeStop(data)
		_, _ = DecodeUpdated(data)
	})
}
