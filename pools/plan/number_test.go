package plan_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

func TestInfinityInJSON(t *testing.T) {
	node := machine("i-1", busy(2, 1))
	endless := node
	endless.Weight = math.MaxFloat64
	const rest = `"instance":"running","node":"running","tasks":2,"batch_tasks":1,"uptime":3600000000000,"safe":true}`
	tests := []struct {
		name  string
		value any
		text  string
	}{
		{"limits", &api.PruneLimits{MaxWeight: 2.5, MaxTasks: 7, MinUptime: time.Minute},
			`{"min_node_scalein_uptime":60000000000,"killable_nodes_prioritizing_v2":false,"max_weight_to_remove":2.5,"max_tasks_to_kill":7}`},
		{"no limits", &api.PruneLimits{MaxWeight: math.MaxFloat64, MaxTasks: api.Unbounded},
			`{"min_node_scalein_uptime":0,"killable_nodes_prioritizing_v2":false,"max_weight_to_remove":"inf","max_tasks_to_kill":"inf"}`},
		{"group", &api.GroupTarget{ID: "a", Target: 3, Min: 1, Max: 9, Stale: true}, `{"id":"a","target":3,"min":1,"stale":true,"max":9}`},
		{"group without a maximum", &api.GroupTarget{ID: "a", Max: api.Unbounded}, `{"id":"a","target":0,"min":0,"max":"inf"}`},
		{"candidate", &node, `{"id":"i-1","group":"a","weight":1,` + rest},
		{"candidate without a bound", &endless, `{"id":"i-1","group":"a","weight":1.7976931348623157e+308,` + rest},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			written, err := json.Marshal(test.value)
			if err != nil || string(written) != test.text {
				t.Errorf("written as %s, %v\nwant %s", written, err, test.text)
			}
			before := *clone(test.value)
			if err := json.Unmarshal([]byte(test.text), test.value); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(before, *clone(test.value)); diff != "" {
				t.Errorf("read otherwise:\n%s", diff)
			}
		})
	}
}

func TestCandidateOfEndlessWeight(t *testing.T) {
	var c api.Candidate
	if err := json.Unmarshal([]byte(`{"weight": "inf"}`), &c); err != nil || c.Weight != math.MaxFloat64 {
		t.Errorf("weight %v, %v", c.Weight, err)
	}
}

// clone returns what the pointer points to.
func clone(pointer any) *any {
	var value any
	switch p := pointer.(type) {
	case *api.PruneLimits:
		value = *p
	case *api.GroupTarget:
		value = *p
	case *api.Candidate:
		value = *p
	}
	return &value
}

func TestJSONRefuses(t *testing.T) {
	tests := []struct {
		name, text string
		into       any
		want       string
	}{
		{"another word", `{"max_tasks_to_kill": "many"}`, new(api.PruneLimits), "max_tasks_to_kill"},
		{"a part of a task", `{"max_tasks_to_kill": 1.5}`, new(api.PruneLimits), "1.5"},
		{"a wrong key", `{"max_tasks": 1}`, new(api.PruneLimits), `"max_tasks"`},
		{"a wrong key of a group", `{"id": "a", "maximum": 1}`, new(api.GroupTarget), `"maximum"`},
		{"a wrong key of a candidate", `{"id": "a", "weigth": 1}`, new(api.Candidate), `"weigth"`},
		{"a weight that is no number", `{"weight": "Inf"}`, new(api.Candidate), "weight"},
		{"too large a number", `{"weight": 1e999}`, new(api.Candidate), "1e999"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := json.Unmarshal([]byte(test.text), test.into); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want an error that names %s", test.text, err, test.want)
			}
		})
	}
}

func FuzzPruneInputJSON(f *testing.F) {
	f.Add([]byte(`{"nodes":[{"id":"a","group":"g","weight":"inf","instance":"running","node":"idle","safe":true}],"targets":{"g":0},"limits":{"max_tasks_to_kill":"inf","max_weight_to_remove":"inf"}}`))
	f.Add([]byte(`{"nodes":[{"id":"a","group":"g","weight":1e308,"instance":"running","node":"orphaned","uptime":9}],"target":-1,"spent":{"weight":-1,"tasks":-1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in plan.PruneInput
		if json.Unmarshal(data, &in) != nil {
			return
		}
		var again plan.PruneInput
		if text, err := json.Marshal(in); err != nil || json.Unmarshal(text, &again) != nil {
			t.Fatalf("cannot be written and read again: %v", err)
		}
		pruned := plan.Prune(in)
		if diff := gocmp.Diff(pruned, plan.Prune(again)); diff != "" {
			t.Errorf("read again, another prune:\n%s", diff)
		}
		if _, err := json.Marshal(pruned); err != nil {
			t.Errorf("%+v: %v", pruned, err)
		}
		plan.Orphans(in, 1)
	})
}
