package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestAgentsNamesEachProblem(t *testing.T) {
	t.Parallel()
	got := Agents([]api.NodeFacts{{ID: "n1"}, {ID: "n2", ClockAhead: time.Hour}, {ID: "n3", ClockAhead: -90 * time.Second, Rival: "process 7 on host b"}})
	want := []string{
		"the clock of node n2 is 1h0m0s fast: correct it (time synchronization); its heartbeats count by their arrival, and nothing is stopped",
		"two agents have the id n3: the first one keeps it, and the other is refused: process 7 on host b; stop that one, or give its machine another id",
		"the clock of node n3 is 1m30s slow: correct it (time synchronization); its heartbeats count by their arrival, and nothing is stopped",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	many := Agents(make([]api.NodeFacts, 3))
	if many != nil {
		t.Errorf("agents without problems: %q", many)
	}
	var all []api.NodeFacts
	for range 30 {
		all = append(all, api.NodeFacts{ID: "n", ClockAhead: time.Hour})
	}
	if many := Agents(all); len(many) != maxAgents+1 || !strings.HasPrefix(many[maxAgents], "20 more") {
		t.Errorf("%d lines of 30 problems, the last is %q", len(many), many[len(many)-1])
	}
}
