package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonlines"
)

const oneRow = `{"instances": 1, "state": "STARTED", "version": "v1", "package_state": "STAGED", "updated_at": "2012-11-16 00:00:00 UTC", "memory": 256}`

func replayed(t *testing.T, in string, cfg Config) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Run(t.Context(), strings.NewReader(in), &out, cfg)
	return out.String(), err
}

func TestRunRejectsInvalidInput(t *testing.T) {
	tests := []struct{ name, in, problem string }{
		{"not JSON", "hello\n", "is not a JSON object"},
		{"empty", "{}\n", "has the keys []"},
		{"not an object", "[1]\n", "is not a JSON object"},
		{"broken", `{"advance" 3}` + "\n", "is not valid JSON at byte"},
		{"more after it", `{"advance": 3} {"advance": 4}` + "\n", "has data after the object"},
		{"unknown key", `{"advanced": 3}` + "\n", `unknown key "advanced"`},
		{"another case", `{"Advance": 3}` + "\n", `unknown key "Advance"`},
		{"two kinds", `{"advance": 3, "dump": "A"}` + "\n", `has the keys ["advance" "dump"]`},
		{"unknown key of a message", `{"subj": "x", "message": {}}` + "\n", `unknown key "message"`},
		{"a key twice", `{"advance": 3, "advance": 4}` + "\n", `has the key "advance" twice`},
		{"time as text", `{"advance": "3"}` + "\n", "advance is"},
		{"half a second", `{"advance": 0.5}` + "\n", "advance is"},
		{"time back", `{"advance": -1}` + "\n", "advance is"},
		{"more than a year", `{"advance": 31536001}` + "\n", "advance is"},
		{"flag as number", `{"bulk_down": 1}` + "\n", "bulk_down is"},
		{"flag as null", `{"bus_down": null}` + "\n", "bus_down is"},
		{"subject as number", `{"subj": 1, "msg": {}}` + "\n", "subj is"},
		{"empty subject", `{"subj": "", "msg": {}}` + "\n", "subj is empty"},
		{"reply as list", `{"subj": "s", "msg": {}, "reply": []}` + "\n", "reply is"},
		{"message without subject", `{"msg": {}}` + "\n", `unknown key "msg"`},
		{"world as list", `{"bulk": []}` + "\n", "bulk is not a JSON object"},
		{"app twice", `{"bulk": {"A": {}, "A": {}}}` + "\n", `has the key "A" twice`},
		{"dump of nothing", `{"dump": ""}` + "\n", "dump is"},
		{"dump of a list", `{"dump": ["A"]}` + "\n", "dump is"},
		{"the end in a line", `{"advance": 3}` + "\n" + `{"advance": `, "ends within the line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := replayed(t, tt.in, Config{})
			bad, ok := errors.AsType[*jsonlines.Error](err)
			if !ok || !strings.Contains(err.Error(), tt.problem) || !strings.Contains(err.Error(), "a line is one of") {
				t.Fatalf("Run = %v, want an Error with %q", err, tt.problem)
			}
			if want := strings.Count(strings.TrimSpace(tt.in), "\n") + 1; bad.Line != want {
				t.Errorf("line %d, want %d", bad.Line, want)
			}
		})
	}
}

func TestRunBoundsALine(t *testing.T) {
	endless := &zeros{}
	err := Run(t.Context(), endless, &bytes.Buffer{}, Config{})
	if _, ok := errors.AsType[*jsonlines.Error](err); !ok || !strings.Contains(err.Error(), "is longer than") {
		t.Errorf("Run = %v", err)
	}
	if endless.read > 2*maxLine {
		t.Errorf("%d bytes were read", endless.read)
	}
}

// zeros is a line without end.
type zeros struct{ read int }

func (z *zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	z.read += len(p)
	return len(p), nil
}

func TestRunIgnoresBlankLinesAndComments(t *testing.T) {
	in := "\n# a comment\n   \n\t# another\r\n" + `{"advance": 3}` + "\r\n" + `{"dump": 7}`
	got, err := replayed(t, in, Config{})
	if want := `{"t":4,"dump":"7","state":null}` + "\n"; err != nil || got != want {
		t.Errorf("Run = %q, %v, want %q", got, err, want)
	}
	if got, err := replayed(t, "", Config{}); got != "" || err != nil {
		t.Errorf("Run of nothing = %q, %v", got, err)
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Run(ctx, strings.NewReader(`{"advance": 31536000}`), &bytes.Buffer{}, Config{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run under an ended context = %v", err)
	}
	err = Run(ctx, strings.NewReader(`{"bulk": {"A": `+oneRow+`}}`), &bytes.Buffer{}, Config{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run of one line under an ended context = %v", err)
	}
	err = Run(t.Context(), strings.NewReader(`{"dump": "A"}`), full{}, Config{})
	if !errors.Is(err, errFull) {
		t.Errorf("Run to a full disk = %v", err)
	}
	if _, err := replayed(t, "", Config{Pool: "no name"}); err == nil {
		t.Error("Run took a bad configuration")
	}
	if _, err := replayed(t, "", Config{ExpectedStateUpdate: 1500 * time.Millisecond}); err == nil {
		t.Error("Run took half a second")
	}
}

var errFull = errors.New("disk is full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestClassicDialectAndEvents(t *testing.T) {
	in := `{"bulk": {"A": ` + oneRow + `}}` + "\n" + `{"subj": "dea.heartbeat", "msg": {}}` + "\n" + `{"advance": 40}` + "\n"
	got, err := replayed(t, in, Config{Classic: true, Events: true})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, `"subj":"cloudcontrollers.hm.requests.default","msg":{"droplet":"A","op":"START","last_updated":1353024000,"version":"v1","indices":[0]}}`) {
		t.Errorf("no START of the classic dialect in\n%s", got)
	}
	for _, kind := range []string{"refused", "missing", "start"} {
		if !strings.Contains(got, `"event":{"kind":"`+kind+`"`) {
			t.Errorf("no event %s in\n%s", kind, got)
		}
	}
}

// A report of waiting starts extends their keep-alive, as in the harmonizer.
func TestReportsOfWaitingStarts(t *testing.T) {
	in := `{"bulk": {"A": ` + oneRow + `}}` + "\n" + `{"advance": 30}` + "\n" + strings.Repeat(
		`{"subj": "weir.c.placer.default.confirmed", "msg": {"pool": "default", "nudges": [], "waiting": [{"app": "A", "version": "v1", "indices": [0]}]}}`+
			"\n"+`{"advance": 10}`+"\n", 6)
	for _, tt := range []struct {
		name, in string
		starts   int
	}{
		{"reported", in, 1},
		{"reported by another pool", strings.ReplaceAll(in, "placer.default", "placer.other"), 3},
	} {
		out, err := replayed(t, tt.in, Config{})
		if got := strings.Count(out, "health.start"); err != nil || got != tt.starts {
			t.Errorf("%s: %d starts, %v, want %d", tt.name, got, err, tt.starts)
		}
	}
}

func TestRows(t *testing.T) {
	good := api.App{Name: "A", Pool: "p", Instances: 2, Version: "7", Mem: 256, State: api.AppStarted,
		Package: api.PackageStaged, Updated: time.Date(2012, 11, 16, 0, 0, 0, 0, time.UTC)}
	tests := []struct {
		name, updated string
		ok            bool
	}{
		{"cloud controller", `"2012-11-16 00:00:00 UTC"`, true},
		{"with an offset", `"2012-11-16 02:00:00 +0200"`, true},
		{"RFC 3339", `"2012-11-16T00:00:00Z"`, true},
		{"RFC 3339 with an offset", `"2012-11-16T02:00:00+02:00"`, true},
		{"seconds", `1353024000`, true},
		{"fractions", `1353024000.5`, true},
		{"negative", `-1`, false},
		{"words", `"yesterday"`, false},
		{"null", `null`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := rawRow{name: "A", data: json.RawMessage(`{"instances": 2, "state": "STARTED", "version": 7, "package_state": "STAGED",
				"memory": 256, "id": 3, "updated_at": ` + tt.updated + `}`)}
			got, err := raw.app("p")
			if (err == nil) != tt.ok || tt.ok && !got.Equal(good) {
				t.Errorf("app = %+v, %v", got, err)
			}
		})
	}
	for _, lacking := range []string{"instances", "state", "version", "package_state", "updated_at"} {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(oneRow), &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, lacking)
		data, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := (rawRow{name: "A", data: data}).app("p"); err == nil {
			t.Errorf("a row without %s is %+v", lacking, a)
		}
	}
}

func TestRecorderRoundTrip(t *testing.T) {
	now := time.Unix(5000, 0)
	var file bytes.Buffer
	r := NewRecorder(&file, func() time.Time { return now })
	app := api.App{Name: "web", Pool: "blue", Instances: 3, Version: "v2", Command: "sleep 1", CPUs: 0.5, Mem: 64, Disk: 10,
		GPUs: 1, Updated: time.Unix(1353024000, 0).UTC(), Labels: map[string]string{"runtime": "go"}}
	r.Bulk([]api.App{app, {Name: "7", Pool: "default", State: api.AppStopped, Package: api.PackageFailed}})
	now = now.Add(2500 * time.Millisecond)
	r.Message("dea.heartbeat", "", []byte("{\"dea\": \"n\",\n \"droplets\": []}"))
	now = now.Add(500 * time.Millisecond)
	r.Message("healthmanager.status", "R", []byte(`{"droplet":"web"}`))
	r.Message("dea.heartbeat", "", []byte("\x00 no JSON"))
	r.Message("healthmanager.start", "", nil)
	r.BusDown(true)
	now = now.Add(2 * 365 * 24 * time.Hour)
	r.BulkDown(false)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	lines := reader(&file)
	var got []line
	for {
		l, err := lines()
		if err != nil {
			break
		}
		got = append(got, l)
	}
	bulk, ok := got[0].(bulkLine)
	if !ok || len(bulk.rows) != 2 {
		t.Fatalf("first line is %+v", got[0])
	}
	app.State, app.Package = api.AppStarted, api.PackageStaged
	if a, err := bulk.rows[1].app("default"); err != nil || !a.Equal(app) {
		t.Errorf("row came back as %+v, %v", a, err)
	}
	want := []line{
		advanceLine{2}, messageLine{subject: "dea.heartbeat", data: []byte(`{"dea":"n","droplets":[]}`)},
		advanceLine{1}, messageLine{subject: "healthmanager.status", reply: "R", data: []byte(`{"droplet":"web"}`)},
		messageLine{subject: "dea.heartbeat", data: []byte(`"\u0000 no JSON"`)},
		messageLine{subject: "healthmanager.start"},
		busDownLine{true}, advanceLine{maxAdvance}, advanceLine{maxAdvance}, bulkDownLine{false},
	}
	if diff := cmp.Diff(want, got[1:], cmp.AllowUnexported(advanceLine{}, messageLine{}, busDownLine{}, bulkDownLine{})); diff != "" {
		t.Errorf("lines:\n%s", diff)
	}
}

func TestRecorderStopsAtAnError(t *testing.T) {
	r := NewRecorder(full{}, time.Now)
	r.BusDown(true)
	r.Message("x", "", nil)
	if err := r.Err(); !errors.Is(err, errFull) {
		t.Errorf("Err = %v", err)
	}
}

// TestRecordingReplaysAlike replays a scenario, and the recording of its events.
func TestRecordingReplaysAlike(t *testing.T) {
	in := `{"bulk": {"A": ` + oneRow + `}}
{"advance": 20}
{"subj": "dea.heartbeat", "msg": {"dea": "d1", "droplets": []}}
{"advance": 60}
{"bulk": {}}
{"advance": 40}
`
	var file bytes.Buffer
	now := time.Unix(0, 0)
	r := NewRecorder(&file, func() time.Time { return now })
	rows := reader(strings.NewReader(in))
	for {
		l, err := rows()
		if err != nil {
			break
		}
		record(t, r, l, &now)
	}
	r.Close()
	want, err := replayed(t, in, Config{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := replayed(t, file.String(), Config{Events: true})
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
}

func record(t *testing.T, r *Recorder, l line, now *time.Time) {
	t.Helper()
	switch l := l.(type) {
	case bulkLine:
		var rows []api.App
		for _, raw := range l.rows {
			a, err := raw.app("default")
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, a)
		}
		r.Bulk(rows)
	case messageLine:
		r.Message(l.subject, l.reply, l.data)
	case advanceLine:
		*now = now.Add(time.Duration(l.seconds) * time.Second)
	}
}

func FuzzRun(f *testing.F) {
	f.Add(`{"bulk": {"A": ` + oneRow + `}}` + "\n" + `{"advance": 40}` + "\n")
	f.Add(`{"subj": "dea.heartbeat", "msg": {"dea": "d1", "droplets": [{"droplet": "A", "version": "v1", "instance": "i", "index": 0, "state": "RUNNING", "state_timestamp": 1}]}}`)
	f.Add(`{"subj": "droplet.exited", "msg": {"droplet": 1, "instance": "i", "index": 0, "reason": "CRASHED"}}` + "\n# x\n\n" + `{"dump": "A"}`)
	f.Add(`{"bulk": {"A": null}}` + "\n" + `{"bus_down": true}`)
	f.Add(`{"subj": "healthmanager.health", "msg": {"droplets": [{"droplet": 7}]}, "reply": "R"}`)
	f.Fuzz(func(t *testing.T, in string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var out bytes.Buffer
		_ = Run(ctx, strings.NewReader(in), &out, Config{Events: true}) // any error is allowed, but no panic
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("line of the output: %q", line)
			}
		}
	})
}
