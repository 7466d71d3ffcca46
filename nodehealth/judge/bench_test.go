package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

const many = 10_000

func crowd(b *testing.B) (*Judge, []Node) {
	j := New(plain(Action{Name: api.ActionReboot}))
	nodes := make([]Node, many)
	for i := range nodes {
		nodes[i] = Node{ID: fmt.Sprintf("i-%08d", i), Zone: string(rune('a' + i%3)), Since: start().Add(-24 * time.Hour)}
	}
	j.Step(start(), Nodes{List: nodes})
	round(j, start(), nodes, api.CheckOK)
	b.ReportAllocs()
	b.ResetTimer()
	return j, nodes
}

func round(j *Judge, now time.Time, nodes []Node, v api.HealthVerdict) {
	j.Step(now, Nodes{List: nodes})
	for i := range nodes {
		j.Step(now, Observation{Node: nodes[i].ID, Mode: api.DetectNodeStatus, Verdict: v})
		j.Step(now, Observation{Node: nodes[i].ID, Mode: api.DetectAgentHeartbeat, Verdict: v})
	}
	j.Step(now, Tick{})
}

// BenchmarkRoundUnchanged measures a whole round without a change: the list, 20 000 observations,
// and the tick.
func BenchmarkRoundUnchanged(b *testing.B) {
	j, nodes := crowd(b)
	now := start()
	for b.Loop() {
		now = now.Add(5 * time.Second)
		round(j, now, nodes, api.CheckOK)
	}
}

// BenchmarkJudgeAll measures every node being due, without a change.
func BenchmarkJudgeAll(b *testing.B) { judgeAll(b, (*Judge).due) }

// BenchmarkJudgeAnew measures an evaluation of every node, as after a change of each.
func BenchmarkJudgeAnew(b *testing.B) { judgeAll(b, (*Judge).evaluate) }

func judgeAll(b *testing.B, judge func(*Judge, time.Time, *node)) {
	j, _ := crowd(b)
	now := start()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		for _, n := range j.roster.all {
			judge(j, now, n)
		}
		j.Step(now, Tick{})
	}
}

// BenchmarkTickAllUnhealthy measures a tick with every node unhealthy and the breaker open.
func BenchmarkTickAllUnhealthy(b *testing.B) {
	j, nodes := crowd(b)
	for i := range 4 {
		round(j, start().Add(time.Duration(i)*30*time.Second), nodes, api.CheckFail)
	}
	now := start().Add(2 * time.Minute)
	if len(j.roster.waitingNodes) != many {
		b.Fatalf("%d nodes are unhealthy", len(j.roster.waitingNodes))
	}
	for b.Loop() {
		now = now.Add(time.Millisecond)
		j.Step(now, Tick{})
	}
}

// BenchmarkTickIdle measures a tick without a node that is due.
func BenchmarkTickIdle(b *testing.B) {
	j, _ := crowd(b)
	now := start()
	for b.Loop() {
		j.Step(now, Tick{})
	}
}
