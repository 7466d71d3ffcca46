package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// BenchmarkDistributePrune plans a pool of 10 000 nodes in 50 groups that shrinks by a tenth.
// Clusterman's distribution alone takes 32 ms for it.
func BenchmarkDistributePrune(b *testing.B) {
	const groups, perGroup, peer = 50, 200, 32 * time.Millisecond
	nodes, targets := largePool(groups, perGroup)
	target := 0.9 * groups * perGroup
	for _, maxWeight := range []float64{100, 1e9} {
		b.Run(fmt.Sprintf("remove at most %g", maxWeight), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dist, err := plan.Distribute(targets, target)
				if err != nil {
					b.Fatal(err)
				}
				pruned := plan.Prune(plan.PruneInput{
					Nodes: nodes, Targets: dist.Targets(), Target: target, Joined: groups * perGroup,
					Limits: api.PruneLimits{MaxWeight: maxWeight, MaxTasks: api.Unbounded, MinUptime: time.Minute},
				})
				if len(pruned.Choices) == 0 {
					b.Fatal("nothing chosen")
				}
			}
			b.ReportMetric(float64(peer)*float64(b.N)/float64(b.Elapsed()), "x-faster-than-peer")
		})
	}
}

// BenchmarkPruneAtTarget prunes a pool of 10 000 nodes whose target is a fraction: no node goes.
func BenchmarkPruneAtTarget(b *testing.B) {
	nodes, targets := largePool(50, 200)
	in := plan.PruneInput{
		Nodes: nodes, Targets: map[string]int{}, Target: 9999.5, Joined: 10_000, Limits: api.PruneLimits{MaxWeight: 100, MaxTasks: api.Unbounded},
	}
	for _, g := range targets {
		in.Targets[g.ID] = g.Target
	}
	for b.Loop() {
		if got := plan.Prune(in); len(got.Choices) > 0 || len(got.Kept) == 0 {
			b.Fatalf("%+v", got)
		}
	}
}

func BenchmarkDistribute(b *testing.B) {
	_, targets := largePool(50, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.Distribute(targets, 13_000); err != nil {
			b.Fatal(err)
		}
	}
}

func largePool(groups, perGroup int) ([]api.Candidate, []api.GroupTarget) {
	var nodes []api.Candidate
	var targets []api.GroupTarget
	for g := range groups {
		id := fmt.Sprintf("group-%02d", g)
		targets = append(targets, api.GroupTarget{ID: id, Target: perGroup, Max: api.Unbounded})
		for n := range perGroup {
			mix := (g*perGroup + n) * 7919
			nodes = append(nodes, api.Candidate{
				ID: fmt.Sprintf("i-%017x", mix), Group: id, Weight: 1,
				Instance: api.InstanceRunning, Node: api.NodeRunning,
				Tasks: mix % 23, BatchTasks: mix % 3, Uptime: time.Duration(mix%100) * time.Minute,
				Safe: mix%11 != 0, Stale: mix%97 == 0,
			})
		}
	}
	return nodes, targets
}
