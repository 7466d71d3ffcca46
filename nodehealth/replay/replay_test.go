package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonlines"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

var update = flag.Bool("update", false, "write the answers of the scenarios anew")

// TestScenarios replays each file of testdata; SCENARIOS.md describes them.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	told, err := os.ReadFile("testdata/SCENARIOS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(told), "`"+name+"`") {
				t.Errorf("SCENARIOS.md does not list %s", name)
			}
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replayed(t, string(in))
			golden := "testdata/" + name + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func replayed(t *testing.T, in string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Run(t.Context(), strings.NewReader(in), &out, Options{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// begun returns the actions that began in a scenario.
func begun(t *testing.T, name string) []string {
	t.Helper()
	in, err := os.ReadFile("testdata/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var acts []string
	for line := range strings.Lines(replayed(t, string(in))) {
		var p printed
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		if p.Event == api.HealthRepairStarted || p.Event == api.HealthRepairAttempt {
			acts = append(acts, string(p.Action)+" "+p.Node)
		}
	}
	return acts
}

// TestActions checks the required actions of each scenario, independent of its golden file.
func TestActions(t *testing.T) {
	for name, want := range map[string][]string{
		"row22_healthy":        nil,
		"row23_check_raises":   nil,
		"row24_unhealthy":      {"REBOOT n1"},
		"row25_grace":          {"REBOOT n1"},
		"row26_hypervisor":     {"REBOOT n1"},
		"row32_url":            nil,
		"row37_url_fails":      {"REBOOT n1"},
		"row39_url_unknown":    nil,
		"row40_any_of_three":   {"REBOOT n1"},
		"row42_all_of_two":     {"REBOOT n1"},
		"row46_outcome":        {"REBOOT n1"},
		"row47_action_failed":  {"REBOOT n1"},
		"row49_never_told":     {"REBOOT n1"},
		"row5_escalation":      {"REBUILD n1", "RECREATE n1"},
		"row16_paused":         {"REBOOT n1"},
		"row59_disabled":       nil,
		"row60_event":          {"REBOOT n1"},
		"row65_recreate":       {"RECREATE n1"},
		"row69_creation_fails": {"RECREATE n1"},
		"row71_check_passes":   nil,
		"row75_all_active":     {"REBOOT n1"},
		"recover_some":         {"REBOOT n1"},
		"row79_stopped":        {"RECREATE n1"},
		"all_fail_at_once":     nil,
		"conditions_unknown":   nil,
		"relapse":              {"REBOOT n1", "RECREATE n1"},
		"zone_outage":          {"REBOOT n5"},
		"nats_restart":         {"REBOOT n4"},
		"pause_expires":        {"REBOOT n1"},
		"two_pauses":           {"REBOOT n1"},
		"replacement_fails":    {"RECREATE n0", "RECREATE r1", "RECREATE r2", "RECREATE n9"},
		"fencing_unconfirmed":  {"RECREATE n4"},
		"observe":              {"REBOOT n1"},
		"quarantine_release":   {"REBOOT n1"},
		"other_repair_owner":   {"REBOOT n1"},
		"veto":                 nil,
	} {
		if got := begun(t, name); !slices.Equal(got, want) {
			t.Errorf("%s: began %q, want %q", name, got, want)
		}
	}
}

// All nodes fail at once: the golden file has one alarm, with the reason.
func TestOneAlarm(t *testing.T) {
	for name, about := range map[string]string{"all_fail_at_once": `"alarm":"breaker"`, "zone_outage": `"alarm":"zone:a"`, "nats_restart": `"alarm":"path"`,
		"conditions_unknown": `"alarm":"conditions"`} {
		golden, err := os.ReadFile("testdata/" + name + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(golden), `"event":"alarm"`); n != 1 || !strings.Contains(string(golden), about) {
			t.Errorf("%s: %d alarms, want one with %s", name, n, about)
		}
	}
}

const policy = `{"policy": {"mode": "act", "detection": {"detection_modes": [{"type": "NODE_STATUS_POLLING"}]}}}` + "\n"

// An invalid line is reported with the valid forms. The lines before it have had their effect,
// once.
func TestBadLines(t *testing.T) {
	tests := []struct {
		name, in string
		line     int
		says     string
	}{
		{"no policy", `{"advance": 1}`, 1, "the first line must be a policy"},
		{"no JSON", policy + `advance 1`, 2, "not a JSON object"},
		{"cut off", policy + `{"advance": `, 2, "not a JSON object"},
		{"two keys", policy + `{"advance": 1, "hint": {"node": "a"}}`, 2, "want one"},
		{"an unknown key", policy + "\n# a comment\n" + `{"wait": 1}`, 4, `"wait"`},
		{"an unknown key within", policy + `{"observe": {"node": "a", "mode": "NODE_STATUS_POLLING", "verdict": "ok", "why": "x"}}`, 2, "unknown field"},
		{"an unknown mode", policy + `{"observe": {"node": "a", "mode": "GUESS", "verdict": "ok"}}`, 2, "NODE_STATUS_POLLING"},
		{"an unknown verdict", policy + `{"observe": {"node": "a", "mode": "NODE_STATUS_POLLING", "verdict": "maybe"}}`, 2, "ok, fail or unknown"},
		{"an unknown action", policy + `{"outcome": {"node": "a", "action": "KICK", "ok": true}}`, 2, "RECREATE"},
		{"an unknown step", policy + `{"outcome": {"node": "a", "step": "half", "ok": true}}`, 2, "undone"},
		{"a pause of nobody", policy + `{"pause": {"node": "a"}}`, 2, "owner"},
		{"a long pause", policy + `{"pause": {"owner": "a", "ttl": 1e300}}`, 2, "at most a year"},
		{"back in time", policy + `{"advance": -1}`, 2, "whole number of seconds"},
		{"half a second", policy + `{"advance": 0.5}`, 2, "whole number of seconds"},
		{"for ever", policy + `{"advance": 31536001}`, 2, "whole number of seconds"},
		{"a node twice", policy + `{"nodes": [{"id": "a"}, {"id": "a"}]}`, 2, "id is empty or not unique"},
		{"a node without an id", policy + `{"nodes": [{"zone": "a"}]}`, 2, "id is empty or not unique"},
		{"a node in no state", policy + `{"nodes": [{"id": "a", "state": "sad"}]}`, 2, "terminated"},
		{"a node of the far future", policy + `{"nodes": [{"id": "a", "since": 1e300}]}`, 2, "seconds of the virtual time"},
		{"a launch that is a text", policy + `{"nodes": [{"id": "a", "since": "2026-01-01T00:00:00Z"}]}`, 2, "since"},
		{"an unused parameter", `{"policy": {"detection": {"detection_modes": [{"type": "NODE_STATUS_POLLING", "options": {"miss": 3}}]}}}`, 1, "is not used by"},
		{"an unknown key of the policy", `{"policy": {"dection": {}}}`, 1, "dection"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := Run(t.Context(), strings.NewReader(test.in), io.Discard, Options{})
			var bad *jsonlines.Error
			if !errors.As(err, &bad) || bad.Line != test.line || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), `{"advance": SECONDS}`) {
				t.Errorf("Run() = %v, want line %d, and %q", err, test.line, test.says)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	long := policy + `{"hint": {"node": "` + strings.Repeat("x", maxLine) + `"}}`
	var bad *jsonlines.Error
	if err := Run(t.Context(), strings.NewReader(long), io.Discard, Options{}); !errors.As(err, &bad) || bad.Line != 2 {
		t.Errorf("a long line: %v", err)
	}
	many := policy + `{"nodes": [` + strings.Repeat(`{},`, maxNodes) + `{}]}`
	if err := Run(t.Context(), strings.NewReader(many), io.Discard, Options{}); !errors.As(err, &bad) || bad.Line != 2 || !strings.Contains(err.Error(), "at most 100000") {
		t.Errorf("many nodes: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, strings.NewReader(policy+`{"advance": 31536000}`), io.Discard, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a year without a context: %v", err)
	}
}

// The pool's own policy applies to a file without a policy.
func TestPolicyOfThePool(t *testing.T) {
	p := judge.Policy{Detection: judge.Detection{Modes: []judge.DetectionMode{{Type: api.DetectNodeStatus}}}}
	var out bytes.Buffer
	in := `{"nodes": [{"id": "a"}]}` + "\n" + `{"observe": {"node": "a", "mode": "NODE_STATUS_POLLING", "verdict": "fail", "reason": "x"}}`
	if err := Run(t.Context(), strings.NewReader(in), &out, Options{Policy: &p}); err != nil || !strings.Contains(out.String(), `"event":"node.suspect"`) {
		t.Errorf("Run() = %v, %s", err, out.String())
	}
	if err := Run(t.Context(), strings.NewReader(in), &out, Options{Policy: &judge.Policy{}}); err == nil {
		t.Error("a policy that is none is taken")
	}
}

// A full output ends the replay.
func TestFullSink(t *testing.T) {
	if err := Run(t.Context(), strings.NewReader(policy+`{"nodes": [{"id": "a"}]}`+"\n"+`{"hint": {"node": "b"}}`), full{}, Options{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Run() = %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func FuzzRun(f *testing.F) {
	f.Add(policy + `{"nodes": [{"id": "a", "since": -5}]}` + "\n" + `{"observe": {"node": "a", "mode": "NODE_STATUS_POLLING", "verdict": "fail"}}` + "\n" + `{"advance": 9}`)
	f.Add(policy + `{"pause": {"owner": "a", "ttl": "5m"}}` + "\n" + `{"path": {"down": true}}` + "\n" + `{"repair_owner": {}}` + "\n" + `{"release": {}}`)
	f.Fuzz(func(t *testing.T, in string) {
		if strings.Contains(in, "advance") && len(in) > 400 {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &limited{cancel: cancel}
		err := Run(ctx, io.LimitReader(strings.NewReader(in), 4096), out, Options{})
		if err != nil && err.Error() == "" {
			t.Error("an error that says nothing")
		}
	})
}

// limited is a writer that fails after a number of bytes.
type limited struct {
	cancel context.CancelFunc
	n      int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.n += len(p); l.n > 1<<20 {
		l.cancel()
	}
	return len(p), nil
}
