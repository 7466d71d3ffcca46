package plan_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// number is a JSON number, or the string "inf".
type number float64

func (n *number) UnmarshalJSON(data []byte) error {
	if string(data) == `"inf"` {
		*n = number(math.Inf(1))
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// whole returns n as an int, Unlimited for infinity.
func (n number) whole() int {
	if math.IsInf(float64(n), 1) {
		return api.Unbounded
	}
	return int(n)
}

// vectors calls test with each line of the file, as a named subtest.
func vectors[V any](t *testing.T, name string, test func(*testing.T, V)) {
	f, err := os.Open(filepath.Join(cmp.Or(os.Getenv("ORACLE_DIR"), "testdata/oracle"), name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	n := 0
	for lines.Scan() {
		n++
		t.Run(fmt.Sprintf("line %d", n), func(t *testing.T) {
			var v V
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			test(t, v)
		})
	}
	if err := lines.Err(); err != nil || n == 0 {
		t.Fatalf("read %d vectors of %s: %v", n, name, err)
	}
}

type distributeVector struct {
	Groups []struct {
		ID       string
		Target   number
		Stale    bool
		Min, Max number
	}
	New   float64
	Want  map[string]number
	Error string
}

func TestOracleDistribute(t *testing.T) {
	vectors(t, "distribute.jsonl", func(t *testing.T, v distributeVector) {
		var groups []api.GroupTarget
		for _, g := range v.Groups {
			groups = append(groups, api.GroupTarget{
				ID: g.ID, Target: g.Target.whole(), Stale: g.Stale, Min: g.Min.whole(), Max: g.Max.whole(),
			})
		}
		got, err := plan.Distribute(groups, v.New)
		if v.Error != "" {
			if !errors.Is(err, plan.ErrAllStale) {
				t.Fatalf("Distribute = %v, want %v", err, plan.ErrAllStale)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[string]int)
		for id, target := range v.Want {
			want[id] = target.whole()
		}
		if diff := gocmp.Diff(want, got.Targets()); diff != "" {
			t.Errorf("Distribute(%v), -want +got:\n%s", v.New, diff)
		}
	})
}

type pruneVector struct {
	Nodes []struct {
		ID, Group, State                string
		Weight, Uptime, Priority        float64
		Tasks, Batch                    int
		Safe, Cordoned, Stale, Draining bool
	}
	GroupTargets map[string]float64 `json:"group_targets"`
	NewTarget    float64            `json:"new_target"`
	NonOrphan    float64            `json:"non_orphan"`
	Limits       struct {
		MaxWeight number `json:"max_weight_to_remove"`
		MaxTasks  number `json:"max_tasks_to_kill"`
		MinUptime number `json:"min_node_scalein_uptime"`
		V2        bool   `json:"killable_nodes_prioritizing_v2"`
	}
	Order []string
	Want  map[string][]string
}

func (v pruneVector) input() plan.PruneInput {
	states := map[string]api.NodeState{
		"ORPHANED": api.NodeOrphaned, "IDLE": api.NodeIdle, "RUNNING": api.NodeRunning,
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	in := plan.PruneInput{
		Targets: make(map[string]int),
		Target:  v.NewTarget,
		Joined:  v.NonOrphan,
		Limits: api.PruneLimits{
			MaxWeight:  float64(v.Limits.MaxWeight),
			MaxTasks:   v.Limits.MaxTasks.whole(),
			MinUptime:  seconds(float64(v.Limits.MinUptime)),
			ByPriority: v.Limits.V2,
		},
	}
	for id, target := range v.GroupTargets {
		in.Targets[id] = int(target)
	}
	for _, n := range v.Nodes {
		in.Nodes = append(in.Nodes, api.Candidate{
			ID: n.ID, Group: n.Group, Weight: n.Weight, Instance: api.InstanceRunning, Node: states[n.State],
			Tasks: n.Tasks, BatchTasks: n.Batch, Uptime: seconds(n.Uptime), Priority: n.Priority,
			Safe: n.Safe, Cordoned: n.Cordoned, Stale: n.Stale, Draining: n.Draining,
		})
	}
	return in
}

func TestOraclePrune(t *testing.T) {
	vectors(t, "prune.jsonl", func(t *testing.T, v pruneVector) {
		in := v.input()
		if diff := gocmp.Diff(v.Order, append([]string{}, plan.Order(in.Nodes, in.Limits)...)); diff != "" {
			t.Errorf("Order, -want +got:\n%s", diff)
		}
		if diff := gocmp.Diff(v.Want, plan.Prune(in).ByGroup()); diff != "" {
			t.Errorf("Prune, -want +got:\n%s", diff)
		}
	})
}
