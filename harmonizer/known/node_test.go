package known

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

func TestNodeNumbersAreFreeAfterRelease(t *testing.T) {
	s := nodes{byName: map[string]uint32{}}
	a := s.addNode("a", 0)
	s.keepSum(a, message.Sum{1, 2})
	s.lose(a)
	if s.find([]byte("a")) != nil || s.withSum(message.Sum{1, 2}) != nil || s.marks([]byte("a")) != nil {
		t.Error("a lost node is still found")
	}
	if b := s.addNode("b", 0); b.number == a.number {
		t.Error("the number of a lost node is used again before release")
	}
	s.release()
	if c := s.addNode("c", 0); c.number != a.number {
		t.Errorf("number %d, want %d, which is free", c.number, a.number)
	}
}

func TestHeartbeatIsReadAgainAfterCopyLeaves(t *testing.T) {
	s := nodes{byName: map[string]uint32{}}
	n := s.addNode("a", 0)
	n.copies, n.marks = 2, []message.Mark{{Owner: 7, Len: 1}, {Owner: 8, Len: 1}}
	s.keepSum(n, message.Sum{1, 2})
	if s.withSum(message.Sum{1, 2}) != n {
		t.Fatal("the sum of the last heartbeat is not found")
	}
	r := record{place: 1}
	s.leave(n, &r)
	if s.withSum(message.Sum{1, 2}) != nil {
		t.Error("the repeated heartbeat would pass unread")
	}
	if n.copies != 1 || r.place != none || n.marks[1] != (message.Mark{Owner: none}) || n.marks[0].Owner != 7 {
		t.Errorf("copies %d, place %d, marks %v", n.copies, r.place, n.marks)
	}
}

// A heartbeat counts for the node of its subject only. A node that is known by its own subject does not count on the
// legacy subject, until it is lost.
func TestHeartbeatOfAnotherNodeIsRefused(t *testing.T) {
	s := New(config())
	const beats = `"droplets":[{"droplet":"web","version":"v1","instance":"i0","index":0,"state":"RUNNING","state_timestamp":1}]}`
	for _, step := range []struct {
		at         float64
		from, data string
		refused    string // part of the error; empty: accepted
		copies     int
	}{
		{1, "n2", `{"dea":"n1",` + beats, "dea is not the node of the subject", 0},
		{1, "", `{"dea":"n1",` + beats, "", 1}, // a legacy DEA
		{2, "n2", `{"dea":"n1",` + beats, "dea is not the node of the subject", 1},
		{3, "n1", `{"dea":"n1",` + beats, "", 1}, // the node's agent, with the same content
		{4, "", `{"dea":"n1",` + beats, "dea is a node with a subject of its own", 1},
		{4, "", `{"dea":"n1","droplets":[]}`, "dea is a node with a subject of its own", 1},
		{5, "n1", `{"dea":"n1","droplets":[]}`, "", 1},
		{6, "", `{"dea":"any name. of a DEA","droplets":[]}`, "", 1},
		{40, "", `{"dea":"n1",` + beats, "", 1}, // the agent's node is lost
	} {
		s.Tick(at(step.at))
		err := s.Heartbeat(at(step.at), step.from, []byte(step.data))
		if (err == nil) != (step.refused == "") || err != nil && !strings.Contains(err.Error(), step.refused) {
			t.Errorf("%s from %q: %v, want %q", step.data, step.from, err, step.refused)
		}
		if step.refused != "" && message.Cause(err) != "dea" {
			t.Errorf("cause %q, want dea", message.Cause(err))
		}
		if s.Len() != step.copies {
			t.Errorf("%s from %q: then %d copies, want %d", step.data, step.from, s.Len(), step.copies)
		}
	}
}

func TestExitOfAnotherNodeIsRefused(t *testing.T) {
	s := New(config())
	for node, instance := range map[string]string{"own": "i0", "legacy": "i1"} {
		from := ""
		if node == "own" {
			from = node
		}
		data := `{"dea":"` + node + `","droplets":[{"droplet":"web","version":"v1","instance":"` + instance + `","index":0,"state":"RUNNING","state_timestamp":1}]}`
		if err := s.Heartbeat(at(1), from, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		instance, from string
		accepted       bool
	}{
		{"i0", "own", true}, {"i0", "legacy", false}, {"i0", "", false},
		{"i1", "legacy", true}, {"i1", "own", false}, {"i1", "", true},
	} {
		c, ok := s.Find(tt.instance)
		if !ok {
			t.Fatalf("copy %s is unknown", tt.instance)
		}
		if err := c.CheckExit(tt.from); (err == nil) != tt.accepted || err != nil && message.Cause(err) != "instance" {
			t.Errorf("end of %s from %q: %v, want accepted: %v", tt.instance, tt.from, err, tt.accepted)
		}
	}
}
