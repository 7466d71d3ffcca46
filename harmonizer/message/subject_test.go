package message

import (
	"encoding/json"
	"testing"
)

// The subject of an agent has its pool and its node. Any other subject is returned as it is.
func TestOfNode(t *testing.T) {
	node := Node{"web", "i-1"}
	for subject, want := range map[string]struct {
		node   Node
		legacy string
	}{
		HeartbeatSubject("c", node): {node, SubjectHeartbeat},
		ExitedSubject("c", node):    {node, SubjectExited},
		FactsSubject("c", node):     {node, SubjectFacts},
		AnnounceSubject("c"):        {Node{}, "weir.c.announce"},
		SubjectHeartbeat:            {Node{}, SubjectHeartbeat},
		SubjectExited:               {Node{}, SubjectExited},
		"weir.c.heartbeat.i-1":      {Node{}, "weir.c.heartbeat.i-1"},
		"weir.c.heartbeat.a.b.c":    {Node{}, "weir.c.heartbeat.a.b.c"},
		"other.c.heartbeat.a.b":     {Node{}, "other.c.heartbeat.a.b"},
		ConfirmedSubject("c", "p"):  {Node{}, "weir.c.placer.p.confirmed"},
		"":                          {Node{}, ""},
	} {
		if got, legacy := OfNode(subject); got != want.node || legacy != want.legacy {
			t.Errorf("OfNode(%q) = %v, %q, want %v", subject, got, legacy, want)
		}
	}
}

// Nodes of one name in two pools, and a legacy DEA of that name, are three keys of a JSON object.
func TestNodeIsAKey(t *testing.T) {
	want := map[Node]int{{"web", "n"}: 1, {"batch", "n"}: 2, {"", "n"}: 3}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got map[Node]int
	if err := json.Unmarshal(data, &got); err != nil || len(got) != 3 || got[Node{"batch", "n"}] != 2 || got[Node{"", "n"}] != 3 {
		t.Errorf("%s is read as %v, %v, want %v", data, got, err, want)
	}
}
