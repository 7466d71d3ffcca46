package rotate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestConditions(t *testing.T) {
	t.Parallel()
	web := Subject{Group: "blue", Image: "ami-1", Type: "m4.large", Zone: "a", Market: "spot", Age: 20 * 24 * time.Hour}
	for _, c := range []struct {
		text         string
		match, known bool
	}{
		{"age>19d", true, true},
		{"age > 20d", false, true},
		{"age>1h,zone=a", true, true},
		{"age>1h,zone=b", false, true},
		{"image!=ami-2", true, true},
		{"image != ami-1", false, true},
		{"type in m4.large m4.xlarge", true, true},
		{"type in (m4.xlarge|m5.large)", false, true},
		{"template!=web:7", false, false}, // its template is unknown
		{"template!=current", false, false},
		{"template!=web:7,zone=b", false, true},
		{"market=spot,group=blue", true, true},
	} {
		when, err := Parse(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if match, known := when.Matches(web); match != c.match || known != c.known {
			t.Errorf("%q matches %t, known %t; want %t, %t", c.text, match, known, c.match, c.known)
		}
	}
	for text, want := range map[string]string{
		"":                                       "want age>20d",
		"age=3d":                                 "want age>",
		"agee>3d":                                "or one of group, image",
		"age>soon":                               `"soon": want a duration`,
		"age>-1h":                                "want an age of 0",
		"age>1e9d":                               "want a duration",
		"size=3":                                 "want age>20d",
		"zone":                                   "want age>20d",
		"zone=":                                  `zone has the value ""`,
		"zone=a=b":                               `zone has the value "a=b"`,
		"zone>a":                                 "want age>20d",
		"type in ":                               "want age>20d",
		"market=cheap":                           "want spot or on-demand",
		strings.Repeat("a", 1001):                "at most 1000",
		strings.Repeat("zone=a,", 20) + "zone=a": "at most 20",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", text, err, want)
		}
	}
}

// "current" is the template that the group of the machine launches now.
func TestCurrentTemplate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, template, current string
		match, known            bool
	}{
		{"template!=current", "web:7", "web:7", false, true},
		{"template!=current", "web:6", "web:7", true, true},
		{"template!=current", "web:6", "", false, false},
		{"template=current", "web:7", "web:7", true, true},
		{"template in current web:6", "web:6", "", true, true},
		{"template in current web:6", "web:5", "", false, false},
		{"image!=current", "web:6", "web:7", false, false}, // an image has no such value, and its image is unknown
	} {
		when, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if match, known := when.Matches(Subject{Template: c.template, Current: c.current}); match != c.match || known != c.known {
			t.Errorf("%q of %q, now %q: matches %t, known %t; want %t, %t", c.text, c.template, c.current, match, known, c.match, c.known)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"age>20d,zone=a", "type in a b", "image!=x", ",", "age>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if match, known := c.Matches(Subject{}); err == nil && match && !known {
			t.Errorf("%q matches what it does not know", text)
		}
	})
}

// machine is a joined machine of a group, of that age.
func machine(id string, age time.Duration) Machine {
	return Machine{Instance: pools.Instance{ID: id, Group: "a", Weight: 1, Launched: noon.Add(-age)}, Joined: true}
}

func rule(t *testing.T, where string) Rule {
	when, err := Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	return Rule{Name: where, Work: api.WorkRotate, When: when, Where: where}
}

func TestStepBounds(t *testing.T) {
	t.Parallel()
	base := Input{
		Now: noon, Clock: noon, Rules: []Rule{rule(t, "age>1d")}, Policy: Policy{Rate: Rate{Machines: 4, Within: time.Hour}},
		Machines: []Machine{machine("old-1", 48*time.Hour), machine("old-2", 48*time.Hour), machine("young", time.Hour)},
		State:    &api.RotationState{Since: noon.Add(-time.Hour), Proven: true},
	}
	for _, c := range []struct {
		name       string
		change     func(*Input)
		begin, end int // -1: any number
		held       int
	}{
		{"the first one is alone", func(in *Input) { in.State = nil; in.Policy.Rate = Rate{} }, 1, -1, 0},
		{"and has begun", func(in *Input) {
			in.State, in.Policy.Rate, in.Ordered = nil, Rate{}, map[string]int{"a": 1}
		}, 0, -1, 0},
		{"no limit", func(in *Input) { in.Policy.Rate = Rate{} }, -1, -1, 0},
		{"the rate", func(*Input) {}, 4, 4, 0},
		{"a part of the rate is used", func(in *Input) {
			in.State.Ended = []api.RotationEnd{{At: noon.Add(-2 * time.Hour), Machines: 9}, {At: noon.Add(-time.Minute), Machines: 1}}
			in.Ordered = map[string]int{"a": 2}
		}, 1, 3, 0},
		{"the budget", func(in *Input) { in.Limit = 1 }, 1, 4, 0},
		{"no window", func(in *Input) { in.Closed = map[api.Work]string{api.WorkRotate: "rotate waits for window w"} }, 4, 4, 2},
		{"one is protected", func(in *Input) { in.Machines[0].Kept = true }, 4, 4, 1},
	} {
		in := base
		in.Machines = slices.Clone(base.Machines)
		state := *base.State
		in.State = &state
		c.change(&in)
		out := Step(in)
		number := func(n *int) int {
			if n == nil {
				return -1
			}
			return *n
		}
		held := 0
		for _, waits := range out.Marked {
			if waits {
				held++
			}
		}
		if r := out.Rotation; number(r.Begin) != c.begin || number(r.End) != c.end || held != c.held || len(out.Marked) != 2 || r.Left != 2 {
			t.Errorf("%s: begin %d, end %d, marked %v; want %d, %d, %d held", c.name, number(r.Begin), number(r.End), out.Marked, c.begin, c.end, c.held)
		}
	}
}

// A new machine must be fit without a break, and one that leaves for another reason is no sign of a bad image.
func TestGate(t *testing.T) {
	t.Parallel()
	fresh := func(change func(*Machine)) Machine {
		m := machine("new", -time.Second)
		change(&m)
		return m
	}
	since := func(age time.Duration, fit bool) []api.RotationTrial {
		return []api.RotationTrial{{ID: "new", Fit: fit, Since: noon.Add(-age)}}
	}
	for _, c := range []struct {
		name    string
		trials  []api.RotationTrial
		machine Machine
		passed  bool
		failed  string
		trial   bool
	}{
		{"it has just joined", nil, fresh(func(*Machine) {}), false, "", true},
		{"fit for long enough", since(10*time.Minute, true), fresh(func(*Machine) {}), true, "", false},
		{"not for long enough", since(9*time.Minute, true), fresh(func(*Machine) {}), false, "", true},
		{"unfit, so it begins again", since(10*time.Minute, true), fresh(func(m *Machine) { m.Unfit = "disk" }), false, "", true},
		{"unfit for that long", since(10*time.Minute, false), fresh(func(m *Machine) { m.Unfit = "disk" }), false, "disk", false},
		{"silent for that long", since(10*time.Minute, false), fresh(func(m *Machine) { m.Joined, m.Silent = false, true }), false, "its node is silent", false},
		{"nothing is known now", since(10*time.Minute, false), fresh(func(m *Machine) { m.Joined, m.Silent, m.Starting = false, true, true }), false, "", true},
		{"it is repaired", since(time.Minute, true), fresh(func(m *Machine) { m.Leaves = api.DrainRepair }), false, "it leaves: repair", false},
		{"the pool needs less", since(time.Minute, true), fresh(func(m *Machine) { m.Leaves = api.DrainScaleIn }), false, "", false},
		{"it boots", nil, fresh(func(m *Machine) { m.Joined = false }), false, "", true},
		{"it boots for too long", nil, fresh(func(m *Machine) { m.Joined, m.Launched = false, noon.Add(-21*time.Minute) }), false, "its node has not joined within 20m0s", false},
		{"it has gone", since(0, true), machine("another", 48*time.Hour), false, "", false},
	} {
		out := Step(Input{
			Now: noon, Clock: noon, Rules: []Rule{rule(t, "age>1d")}, Policy: Policy{Gate: Gate{Wait: 10 * time.Minute, Within: 20 * time.Minute}},
			Machines: []Machine{machine("old", 48*time.Hour), c.machine}, State: &api.RotationState{Since: noon.Add(-time.Hour), Trials: c.trials},
		})
		failed := ""
		if len(out.State.Failed) > 0 {
			failed = out.State.Failed[0].Why
		}
		passed := slices.Contains(out.State.Passed, "new")
		if passed != c.passed || passed != out.State.Proven || failed != c.failed || out.Trial["new"] != c.trial || (out.Rotation.Halted != "") != (failed != "") {
			t.Errorf("%s: passed %t, failed %q, on trial %t: %+v", c.name, passed, failed, out.Trial["new"], out.State)
		}
	}
}
