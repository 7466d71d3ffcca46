package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

func readPolicy(t *testing.T, text string) Policy {
	t.Helper()
	var p Policy
	if err := yaml.UnmarshalWithOptions([]byte(text), &p, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return p
}

// The block in the design is valid, and equals its JSON form.
func TestPolicyIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := readPolicy(t, string(text))
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if got := *p.Safety.MaxUnhealthy; got != (Limit{20, true}) {
		t.Errorf("max_unhealthy is %v", got)
	}
	if got := *p.Safety.Window; got != Duration(6*time.Hour) {
		t.Errorf("window is %v", got)
	}
	if m, ok := p.Detection.Mode(api.DetectAgentHeartbeat); !ok || *m.Options.Miss != 6 {
		t.Errorf("AGENT_HEARTBEAT is %+v", m)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var again Policy
	if err := decoder.Decode(&again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("through JSON it differs:\n%s", diff)
	}
	if diff := cmp.Diff(p.WithDefaults(), p.WithDefaults().WithDefaults()); diff != "" {
		t.Errorf("defaults of defaults differ:\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	const modes = "detection: {detection_modes: [{type: NODE_STATUS_POLLING}]}\n"
	detection := func(mode string) string { return "detection: {detection_modes: [" + mode + "]}\n" }
	tests := []struct{ name, policy, path, verdicts string }{
		{"nothing", "", "detection.detection_modes", "is missing: want at least one of NODE_STATUS_POLLING"},
		{"mode", modes + "mode: on", "mode", `is "on": want observe, act`},
		{"owner", modes + "owner: me", "owner", "want self, asg"},
		{"short interval", "detection: {interval: 2, detection_modes: [{type: NODE_STATUS_POLLING}]}", "detection.interval", "is 2s: want 5s to 1h0m0s"},
		{"tolerates less than a round", "detection: {tolerate: 10, detection_modes: [{type: NODE_STATUS_POLLING}]}", "detection.tolerate", "want 30s to"},
		{"type", detection("{type: blah}"), "detection.detection_modes[0].type", `is "blah": want NODE_STATUS_POLLING, HYPERVISOR`},
		{"type twice", detection("{type: NODE_STATUS_POLLING}, {type: NODE_STATUS_POLLING}"), "detection.detection_modes[1].type", "the same as detection_modes[0]"},
		{"unused option", detection("{type: NODE_STATUS_POLLING, options: {poll_url: x}}"), "detection.detection_modes[0].options.poll_url", "is not used by NODE_STATUS_POLLING, only by NODE_STATUS_POLL_URL: remove it"},
		{"no URL", detection("{type: NODE_STATUS_POLL_URL}"), "detection.detection_modes[0].options.poll_url", "want a URL with http or https"},
		{"threshold", detection("{type: NODE_STATUS_POLLING, options: {failure_threshold: 0}}"), "detection.detection_modes[0].options.failure_threshold", "is 0: want 1 to 100"},
		{"misses one", detection("{type: AGENT_HEARTBEAT, options: {miss: 1}}"), "detection.detection_modes[0].options.miss", "want 2 to 100"},
		{"self-fencing", detection("{type: AGENT_HEARTBEAT, options: {self_fence_after: 60}}"), "detection.detection_modes[0].options.self_fence_after", "is for exclusive pools only"},
		{"conditional", "detection: {recovery_conditional: SOME, detection_modes: [{type: NODE_STATUS_POLLING}]}", "detection.recovery_conditional", "want ANY_FAILED, ALL_FAILED, AT_LEAST"},
		{"AT_LEAST 3 of two", "detection: {recovery_conditional: AT_LEAST 3, detection_modes: [{type: NODE_STATUS_POLLING}, {type: AGENT_HEARTBEAT}]}", "detection.quorum", "is 3: want 1 to 2"},
		{"hints do not vote", "detection: {recovery_conditional: AT_LEAST, quorum: 2, detection_modes: [{type: NODE_STATUS_POLLING}, {type: LIFECYCLE_EVENTS}]}", "detection.quorum", "is 2: want 1 to 1"},
		{"AT_LEAST without", "detection: {recovery_conditional: AT_LEAST, detection_modes: [{type: NODE_STATUS_POLLING}]}", "detection.quorum", "is missing"},
		{"quorum of all", "detection: {recovery_conditional: ALL_FAILED, quorum: 1, detection_modes: [{type: NODE_STATUS_POLLING}]}", "detection.quorum", "is used by AT_LEAST only"},
		{"action", modes + "recovery: {actions: [{name: EXPLODE}]}", "recovery.actions[0].name", "want START, REBOOT, REBUILD, RECREATE, WORKFLOW"},
		{"unused parameter", modes + "recovery: {actions: [{name: REBUILD, params: {type: soft}}]}", "recovery.actions[0].params.type", "is not used by REBUILD, only by REBOOT"},
		{"reboot", modes + "recovery: {actions: [{name: REBOOT, params: {type: gentle}}]}", "recovery.actions[0].params.type", `is "gentle": want soft, hard`},
		{"workflow", modes + "recovery: {actions: [{name: WORKFLOW}]}", "recovery.actions[0].params.kind", "want command, webhook, nats"},
		{"workflow's parameter", modes + "recovery: {actions: [{name: WORKFLOW, params: {kind: nats, subject: a, url: b}}]}", "recovery.actions[0].params.url", "is not used by nats, only by webhook"},
		{"command without argv", modes + "recovery: {actions: [{name: WORKFLOW, params: {kind: command}}]}", "recovery.actions[0].params.argv", "is missing"},
		{"asg", modes + "owner: asg\nrecovery: {actions: [{name: REBOOT}]}", "recovery.actions[0].name", "want RECREATE or WORKFLOW"},
		{"fencing", modes + "recovery: {fencing: [STORAGE]}", "recovery.fencing[0]", "want SERVICE, TRAFFIC, NETWORK, COMPUTE"},
		{"exclusive without fencing", modes + "exclusive: true", "recovery.fencing", "has no COMPUTE, but the pool is exclusive"},
		{"exclusive and forced", modes + "exclusive: true\nrecovery: {fencing: [COMPUTE], node_force_recreate: true}", "recovery.node_force_recreate", "want false"},
		{"fencing, and nothing is replaced", modes + "recovery: {actions: [{name: REBOOT}], fencing: [COMPUTE]}", "recovery.fencing", "is used by RECREATE only"},
		{"its options", modes + "recovery: {actions: [{name: REBOOT}], fencing_options: {timeout: 9}}", "recovery.fencing_options", "is used by RECREATE only"},
		{"the end of nothing", modes + "recovery: {actions: [{name: START}], node_delete_timeout: 9}", "recovery.node_delete_timeout", "is used by RECREATE only"},
		{"forced, and nothing is replaced", modes + "recovery: {actions: [{name: START}], node_force_recreate: true}", "recovery.node_force_recreate", "is used by RECREATE only"},
		{"first heartbeat of none", "detection: {node_startup_timeout: 900, detection_modes: [{type: NODE_STATUS_POLLING}]}", "detection.node_startup_timeout", "is used by AGENT_HEARTBEAT only"},
		{"no repairs at all", modes + "safety: {max_unhealthy: 0}", "safety.max_unhealthy", "to repair nothing, set mode: observe"},
		{"all stay in service", modes + "safety: {min_available: 100%}\nrecovery: {actions: [{name: REBOOT}, {name: RECREATE, params: {launch_first: false}}]}", "safety.min_available", "recovery.actions[1] ends a machine before its replacement joins"},
		{"window", "detection: {detection_modes: [{type: NODE_STATUS_POLLING, options: {failure_window: 99}}]}", "detection.detection_modes[0].options.failure_window", "is 99: want 0 to 60"},
		{"failures of a window", "detection: {detection_modes: [{type: NODE_STATUS_POLLING, options: {failure_window: 4, window_failures: 5}}]}", "detection.detection_modes[0].options.window_failures", "is 5: want 1 to 4"},
		{"attempts", modes + "safety: {max_attempts: 0}", "safety.max_attempts", "is 0: want 1 to 100"},
		{"cron", modes + `safety: {schedule: [{cron: "61 * * * *", duration: 1h}]}`, "safety.schedule[0].cron", "want minute hour"},
		{"endless freeze", modes + `safety: {schedule: [{cron: "0 * * * *", duration: 48h}]}`, "safety.schedule[0].duration", "want 1m0s to 24h0m0s"},
		{"factor", modes + "safety: {backoff: {factor: 0.5}}", "safety.backoff.factor", "want 1 to 10"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := readPolicy(t, test.policy).Validate()
			p, ok := errors.AsType[*Problem](err)
			if !ok || p.Path != test.path || !strings.Contains(err.Error(), test.verdicts) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Validate() = %v, want %s ... %s", err, test.path, test.verdicts)
			}
		})
	}
}

// A policy with its defaults is as valid as without them.
func TestValidateDefaults(t *testing.T) {
	for _, a := range []api.RepairAction{api.ActionStart, api.ActionReboot, api.ActionRebuild, api.ActionRecreate} {
		p := plain(Action{Name: a})
		p.Detection.Modes = p.Detection.Modes[:1]
		p.Detection.NodeUpdateTimeout = dur(time.Hour)
		if err := p.WithDefaults().Validate(); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestValidateJoins(t *testing.T) {
	err := Policy{Mode: "x", Owner: "y"}.Validate()
	if n := strings.Count(err.Error(), "\n"); n != 2 {
		t.Errorf("Validate() = %v, want three problems", err)
	}
}

func TestFits(t *testing.T) {
	p := plain(Action{Name: api.ActionRebuild})
	p.Recovery.Fencing = []Level{FenceTraffic}
	can := Abilities{Actions: []api.RepairAction{api.ActionRecreate}, Modes: []api.DetectionType{api.DetectNodeStatus, api.DetectAgentHeartbeat}}
	err := p.Fits(can)
	if err == nil || !strings.Contains(err.Error(), "recovery.actions[0].name is REBUILD, which the provider of this pool does not support: want RECREATE") ||
		!strings.Contains(err.Error(), "recovery.fencing[0] is TRAFFIC, which the provider of this pool does not support: want none") {
		t.Errorf("Fits() = %v", err)
	}
	can.Actions, can.Fencing = append(can.Actions, api.ActionRebuild), p.Recovery.Fencing
	recovered := Policy{Owner: api.OwnerProvider}
	if err := recovered.Fits(can); err == nil || err.Error() != "owner is asg, but the pool's provider does not replace machines: want self" {
		t.Errorf("owner that replaces nothing: %v", err)
	}
	can.OwnsRepair = true
	if err := recovered.Fits(can); err != nil {
		t.Errorf("owner that replaces machines: %v", err)
	}
	if err := p.Fits(can); err != nil {
		t.Error(err)
	}
}

func TestInvalidValues(t *testing.T) {
	for _, text := range []string{`"-1s"`, `-1`, `"x"`, `true`, `1e300`, `"900000h"`, `null`, `[1]`} {
		if err := json.Unmarshal([]byte(text), new(Duration)); err == nil && text != "null" {
			t.Errorf("%s is a duration", text)
		}
	}
	for _, text := range []string{`"101%"`, `"-1%"`, `-1`, `1.5`, `"NaN%"`, `"x"`, `true`, `1e300`, `"inf"`} {
		if err := json.Unmarshal([]byte(text), new(Limit)); err == nil {
			t.Errorf("%s is a limit", text)
		}
	}
}

func TestLimit(t *testing.T) {
	for _, test := range []struct {
		limit Limit
		total int
		want  int
	}{{Limit{20, true}, 1, 1}, {Limit{20, true}, 5, 1}, {Limit{20, true}, 6, 2}, {Limit{20, true}, 10, 2}, {Limit{50, true}, 3, 2}, {Limit{3, false}, 1, 3}, {Limit{20, true}, 0, 1}} {
		if got := test.limit.Of(test.total); got != test.want {
			t.Errorf("%v of %d = %d, want %d", test.limit, test.total, got, test.want)
		}
	}
}

func TestFreeze(t *testing.T) {
	at := func(text string) time.Time {
		got, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, test := range []struct {
		cron  string
		long  time.Duration
		now   string
		until string
	}{
		{"0 22 * * *", 8 * time.Hour, "2031-03-04 21:59", ""},
		{"0 22 * * *", 8 * time.Hour, "2031-03-05 05:59", "2031-03-05 06:00"},
		{"0 22 * * *", 8 * time.Hour, "2031-03-05 06:00", ""},
		{"*/15 9-17 * * 1-5", 10 * time.Minute, "2031-03-04 09:16", "2031-03-04 09:25"}, // a Tuesday
		{"*/15 9-17 * * 1-5", 10 * time.Minute, "2031-03-04 09:12", ""},
		{"*/15 9-17 * * 6,7", 10 * time.Minute, "2031-03-04 09:16", ""},
		{"0 0 1 * 2", time.Hour, "2031-03-04 00:30", "2031-03-04 01:00"}, // either day
		{"0 0 1 * *", time.Hour, "2031-03-04 00:30", ""},
	} {
		c, err := parseCron(test.cron)
		if err != nil {
			t.Fatal(err)
		}
		var want time.Time
		if test.until != "" {
			want = at(test.until)
		}
		if got := (freeze{c, test.long}).until(at(test.now)); !got.Equal(want) {
			t.Errorf("%q for %v at %s: until %v, want %v", test.cron, test.long, test.now, got, want)
		}
	}
	for _, bad := range []string{"", "* * * *", "a * * * *", "60 * * * *", "* * 0 * *", "5-1 * * * *", "*/0 * * * *", "1- * * * *", "* * * * 8", "@daily"} {
		if _, err := parseCron(bad); err == nil {
			t.Errorf("%q is a cron expression", bad)
		}
	}
}

// An action that fits no machine that the modes can find is a warning.
func TestActionsThatNeverFit(t *testing.T) {
	for _, test := range []struct {
		modes []api.DetectionType
		name  api.RepairAction
		warns bool
	}{
		{[]api.DetectionType{api.DetectLifecycleEvents}, api.ActionRebuild, true},
		{[]api.DetectionType{api.DetectLifecycleEvents}, api.ActionReboot, true}, // a soft one
		{[]api.DetectionType{api.DetectLifecycleEvents}, api.ActionStart, false},
		{[]api.DetectionType{api.DetectLifecycleEvents}, api.ActionRecreate, false},
		{[]api.DetectionType{api.DetectLifecycleEvents, api.DetectNodeStatus}, api.ActionRebuild, false},
	} {
		p := Policy{Recovery: Recovery{Actions: []Action{{Name: test.name}}}}
		for _, m := range test.modes {
			p.Detection.Modes = append(p.Detection.Modes, DetectionMode{Type: m})
		}
		warned := slices.ContainsFunc(p.Warnings(), func(w *Problem) bool { return w.Path == "recovery.actions[0].name" })
		if warned != test.warns {
			t.Errorf("%s with %v: warned: %t, want %t", test.name, test.modes, warned, test.warns)
		}
	}
}
