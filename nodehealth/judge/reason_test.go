package judge

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// reasoned returns a policy that waits longer for a full disk, and replaces a machine
// whose kernel hangs.
func reasoned() Policy {
	p := plain(Action{Name: api.ActionReboot}, Action{Name: api.ActionRecreate})
	p.Reasons = map[string]Reason{
		"DiskPressure":   {Wait: dur(10 * time.Minute), Action: api.ActionReboot},
		"KernelDeadlock": {Action: api.ActionRecreate},
	}
	return p
}

// A reason has a wait and a first action of its own. Of several reasons the shortest wait
// and the last action count, over a takeover too.
func TestReasons(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		at           time.Duration // the repair begins within a minute after it
		act          string
	}{
		{"without a rule", "impaired", 0, "REBOOT n4"},
		{"with a wait", "DiskPressure: 98 % used", 10 * time.Minute, "REBOOT n4"},
		{"with an action", "KernelDeadlock: a task hangs", 0, "RECREATE n4"},
		{"of two", "DiskPressure: 98 % used; KernelDeadlock", 0, "RECREATE n4"},
		{"beside another", "DiskPressure; impaired", 0, "REBOOT n4"},
		{"by another name", "DiskPressureHigh: 98 %", 0, "REBOOT n4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, reasoned(), ten()...)
			w.pass(time.Minute)
			w.verdicts["n4"] = map[api.DetectionType]Observation{api.DetectAgentHeartbeat: {Node: "n4", Mode: api.DetectAgentHeartbeat, Verdict: api.CheckFail, Reason: test.reason}}
			if test.at > 0 {
				w.pass(test.at / 2)
				w.takeOver()
				w.pass(test.at/2 - 30*time.Second)
			}
			w.wantActs()
			w.pass(2 * time.Minute)
			w.wantActs(test.act)
		})
	}
}

func TestReasonsAreChecked(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"", `{}`, "reasons. is not a valid name of a reason"},
		{"a:b", `{"wait": "10m"}`, "reasons.a:b is not a valid name of a reason"},
		{"Disk", `{}`, "reasons.Disk is empty: want wait, action, or both"},
		{"Disk", `{"wait": "1s"}`, "reasons.Disk.wait is 1s: want 30s"},
		{"Disk", `{"action": "REBUILD"}`, "reasons.Disk.action is REBUILD, which is not among recovery.actions: add it there"},
		{"Disk", `{"wait": "10m", "action": "REBOOT"}`, ""},
	} {
		var r Reason
		if err := json.Unmarshal([]byte(test.text), &r); err != nil {
			t.Fatal(err)
		}
		p := reasoned()
		p.Reasons[test.name] = r
		if err := p.Validate(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %s: Validate() = %v, want %q", test.name, test.text, err, test.want)
		}
	}
	many := reasoned()
	for i := range maxReasons {
		many.Reasons[strings.Repeat("x", i+1)] = Reason{Action: api.ActionReboot}
	}
	if err := many.Validate(); err == nil || !strings.Contains(err.Error(), "want at most 64") {
		t.Errorf("Validate() of many = %v", err)
	}
}
