package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

func second(n int64) time.Time { return time.Unix(n, 0).UTC() }

// running returns a machine at second 112 with app web: index 0 RUNNING, index 1 crashed twice
// and so flapping, index 2 STARTING.
func running(t *testing.T) *apps.Machine {
	t.Helper()
	cfg := apps.Config{DelayTimeNoise: new(time.Duration(0))}.WithDefaults()
	m := apps.NewMachine(cfg)
	row := api.App{Name: "web", Pool: "default", Instances: 3, Version: "v1", Command: "x",
		State: api.AppStarted, Package: api.PackageStaged}
	beat := func(id string, index int, state api.CopyState) api.Beat {
		return api.Beat{App: "web", Version: "v1", Instance: id, Index: index, State: state, Since: 50}
	}
	exit := func(id string, at int64) apps.Exit {
		return apps.Exit{Exited: api.Exited{App: "web", Version: "v1", Instance: id, Index: 1, Reason: api.ExitCrashed, CrashedAt: at}}
	}
	heartbeat := func(beats ...api.Beat) apps.Heartbeat {
		data, err := json.Marshal(api.Heartbeat{Node: "n", Beats: beats})
		if err != nil {
			t.Fatal(err)
		}
		return apps.Heartbeat{Data: data}
	}
	zero, two := beat("i0", 0, api.CopyRunning), beat("i2", 2, api.CopyStarting)
	for _, step := range []struct {
		at int64
		ev apps.Event
	}{
		{90, apps.BusUp{}}, {90, apps.Lead{}}, {90, apps.ExpectedRows{Rows: []api.App{row}}}, {90, apps.ExpectedComplete{}},
		{90, heartbeat(zero, two, beat("i1", 1, api.CopyRunning))}, {102, apps.Tick{}},
		{103, exit("i1", 103)}, {104, heartbeat(zero, two, beat("j1", 1, api.CopyRunning))}, {110, exit("j1", 109)},
		{112, heartbeat(zero, two)},
	} {
		m.Step(second(step.at), step.ev)
	}
	return m
}

func TestAnswer(t *testing.T) {
	tests := []struct{ name, subject, query, want string }{
		{"flapping", SubjectStatus, `{"droplet":"web","version":"v1","state":"FLAPPING"}`,
			`{"indices":[{"index":1,"since":110}],"complete":true}`},
		{"flapping of another version", SubjectStatus, `{"droplet":"web","version":"v0","state":"FLAPPING"}`,
			`{"indices":[],"complete":true}`},
		{"crashed", SubjectStatus, `{"droplet":"web","state":"CRASHED"}`,
			`{"instances":[{"instance":"i1","since":103},{"instance":"j1","since":109}],"complete":true}`},
		{"crashed of an unknown app", SubjectStatus, `{"droplet":7,"state":"CRASHED"}`, `{"instances":[],"complete":true}`},
		{"health", SubjectHealth, `{"droplets":[{"droplet":"web","version":"v1"},{"droplet":"web","version":"v0"},{"droplet":"x","version":"v"}]}`,
			`{"droplet":"web","version":"v1","healthy":1,"complete":true}
{"droplet":"web","version":"v0","healthy":0,"complete":true}
{"droplet":"x","version":"v","healthy":0,"complete":true}`},
		{"health of nothing", SubjectHealth, `{"droplets":[]}`, ""},
		{"unknown droplet", SubjectDroplet, `{"droplets":[{"droplet":"x"}]}`, `{"droplet":"x","error":"unknown"}`},
	}
	m := running(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lines(t, m, tt.subject, tt.query); got != tt.want {
				t.Errorf("Answer:\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	known := lines(t, m, SubjectDroplet, `{"droplets":[{"droplet":"web"}]}`)
	for _, part := range []string{`"droplet":"web"`, `"indices":[`, `"instance":"i2"`} {
		if !strings.Contains(known, part) {
			t.Errorf("the droplet's answer has no %s: %s", part, known)
		}
	}
}

func lines(t *testing.T, m *apps.Machine, subject, query string) string {
	t.Helper()
	answers, err := Answer(m.View(), second(112), subject, []byte(query))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range answers {
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	}
	return strings.Join(out, "\n")
}

func TestAnswerMarksIncompleteState(t *testing.T) {
	m := apps.NewMachine(apps.Config{}.WithDefaults())
	for subject, query := range map[string]string{
		SubjectStatus:  `{"droplet":"web","state":"CRASHED"}`,
		SubjectHealth:  `{"droplets":[{"droplet":"web","version":"v1"}]}`,
		SubjectDroplet: `{"droplets":[{"droplet":"web"}]}`,
	} {
		if got := lines(t, m, subject, query); !strings.Contains(got, `"error":"known state: the bus is down"`) {
			t.Errorf("%s: %s", subject, got)
		}
	}
}

func TestAnswerRejectsInvalidRequests(t *testing.T) {
	m := apps.NewMachine(apps.Config{}.WithDefaults())
	for _, q := range []struct{ subject, query string }{
		{SubjectStatus, `{}`},
		{SubjectStatus, `{"droplet":"web","state":"RUNNING"}`},
		{SubjectHealth, `[]`},
		{SubjectHealth, `{"droplets":[3]}`},
		{SubjectDroplet, `nonsense`},
		{"dea.heartbeat", `{}`},
	} {
		if answers, err := Answer(m.View(), second(1), q.subject, []byte(q.query)); err == nil {
			t.Errorf("Answer(%s, %s) = %v", q.subject, q.query, answers)
		}
	}
}

// An app is answered once, however often the request names it. Beyond a bound on the work of
// one request, apps are only named, but the first one always gets an answer.
func TestAnswerIsBounded(t *testing.T) {
	m := apps.NewMachine(apps.Config{}.WithDefaults())
	rows := []api.App{
		{Name: "small", Pool: "p", Version: "v", Instances: 1},
		{Name: "large", Pool: "p", Version: "v", Instances: maxWork},
		{Name: "half", Pool: "p", Version: "v", Instances: maxWork/2 + 1},
	}
	for m.Step(second(1), apps.ExpectedRows{Rows: rows}); m.Busy(); m.Step(second(1), apps.Tick{}) {
	}
	request := func(names ...string) string {
		for i, n := range names {
			names[i] = `{"droplet":"` + n + `","version":"v"}`
		}
		return `{"droplets":[` + strings.Join(names, ",") + `]}`
	}
	for _, tt := range []struct{ name, query, answered, truncated string }{
		{"the same again and again", request("small", "small", "small"), "small", ""},
		{"a large one alone", request("large"), "large", ""},
		{"a large one first", request("large", "small"), "large", "small"},
		{"a large one between", request("small", "large", "half"), "small half", "large"},
		{"two halves", request("half", "small", "half"), "half small", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, subject := range []string{SubjectHealth, SubjectDroplet} {
				answers, err := Answer(m.View(), second(1), subject, []byte(tt.query))
				if err != nil {
					t.Fatal(err)
				}
				var answered, truncated []string
				for _, a := range answers {
					app, problem := "", ""
					switch a := a.(type) {
					case healthAnswer:
						app, problem = a.App, a.Error
					case dropletAnswer:
						app, problem = a.App, a.Error
					}
					if problem == tooLarge {
						truncated = append(truncated, app)
					} else {
						answered = append(answered, app)
					}
				}
				if got := strings.Join(answered, " "); got != tt.answered || strings.Join(truncated, " ") != tt.truncated {
					t.Errorf("%s: answered %v, truncated %v", subject, answered, truncated)
				}
			}
		})
	}
}
