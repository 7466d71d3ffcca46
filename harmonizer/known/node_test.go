package known

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

func TestNodeNumbersAreFreeAfterRelease(t *testing.T) {
	s := nodes{byName: map[message.Node]uint32{}}
	a := s.addNode(message.Node{Name: "a"}, 0)
	s.keepSum(a, message.Sum{1, 2})
	s.lose(a)
	if s.find("", []byte("a")) != nil || s.withSum("", message.Sum{1, 2}) != nil || s.marks([]byte("a")) != nil {
		t.Error("a lost node is still found")
	}
	if b := s.addNode(message.Node{Name: "b"}, 0); b.number == a.number {
		t.Error("the number of a lost node is used again before release")
	}
	s.release()
	if c := s.addNode(message.Node{Name: "c"}, 0); c.number != a.number {
		t.Errorf("number %d, want %d, which is free", c.number, a.number)
	}
}

func TestHeartbeatIsReadAgainAfterCopyLeaves(t *testing.T) {
	s := nodes{byName: map[message.Node]uint32{}}
	n := s.addNode(message.Node{Name: "a"}, 0)
	n.copies, n.marks = 2, []message.Mark{{Owner: 7, Len: 1}, {Owner: 8, Len: 1}}
	s.keepSum(n, message.Sum{1, 2})
	if s.withSum("", message.Sum{1, 2}) != n {
		t.Fatal("the sum of the last heartbeat is not found")
	}
	r := record{place: 1}
	s.leave(n, &r)
	if s.withSum("", message.Sum{1, 2}) != nil {
		t.Error("the repeated heartbeat would pass unread")
	}
	if n.copies != 1 || r.place != none || n.marks[1] != (message.Mark{Owner: none}) || n.marks[0].Owner != 7 {
		t.Errorf("copies %d, place %d, marks %v", n.copies, r.place, n.marks)
	}
}

// A heartbeat counts for the node of its subject only. Nodes of one name in two pools are two nodes, even with equal
// heartbeats, and a legacy DEA of that name is a third one.
func TestHeartbeatCountsForTheNodeOfItsSubject(t *testing.T) {
	s := New(config())
	beats := func(instance string) string {
		return `"droplets":[{"droplet":"web","version":"v1","instance":"` + instance + `","index":0,"state":"RUNNING","state_timestamp":1}]}`
	}
	for _, step := range []struct {
		from    message.Node
		data    string
		refused bool
		nodes   int
		copies  int
	}{
		{message.Node{Pool: "p", Name: "n2"}, `{"dea":"n1",` + beats("i0"), true, 0, 0},
		{message.Node{}, `{"dea":"n1",` + beats("i0"), false, 1, 1}, // a legacy DEA
		{message.Node{Pool: "p", Name: "n2"}, `{"dea":"n1",` + beats("i0"), true, 1, 1},
		{message.Node{Pool: "p", Name: "n1"}, `{"dea":"n1",` + beats("i1"), false, 2, 2},
		{message.Node{Pool: "q", Name: "n1"}, `{"dea":"n1","droplets":[]}`, false, 3, 2},
		{message.Node{Pool: "p", Name: "n3"}, `{"dea":"n3","droplets":[]}`, false, 4, 2},
		{message.Node{Pool: "q", Name: "n3"}, `{"dea":"n3","droplets":[]}`, false, 5, 2}, // the same bytes
		{message.Node{}, `{"dea":"any name. of a DEA","droplets":[]}`, false, 6, 2},
	} {
		err := s.Heartbeat(at(1), step.from, []byte(step.data))
		if (err != nil) != step.refused || err != nil && (!strings.Contains(err.Error(), "dea is not the node of the subject") || message.Cause(err) != "dea") {
			t.Errorf("%s from %q: %v, want refused: %v", step.data, step.from, err, step.refused)
		}
		nodes := 0
		for range s.Nodes() {
			nodes++
		}
		if nodes != step.nodes || s.Len() != step.copies {
			t.Errorf("%s from %q: then %d nodes and %d copies, want %d and %d", step.data, step.from, nodes, s.Len(), step.nodes, step.copies)
		}
	}
}

func TestExitOfAnotherNodeIsRefused(t *testing.T) {
	s := New(config())
	own, legacy := message.Node{Pool: "p", Name: "own"}, message.Node{Name: "legacy"}
	for node, instance := range map[message.Node]string{own: "i0", legacy: "i1"} {
		from := node
		if node == legacy {
			from = message.Node{}
		}
		data := `{"dea":"` + node.Name + `","droplets":[{"droplet":"web","version":"v1","instance":"` + instance + `","index":0,"state":"RUNNING","state_timestamp":1}]}`
		if err := s.Heartbeat(at(1), from, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		instance string
		from     message.Node
		accepted bool
	}{
		{"i0", own, true}, {"i0", legacy, false}, {"i0", message.Node{}, false}, {"i0", message.Node{Pool: "q", Name: "own"}, false},
		{"i1", legacy, true}, {"i1", own, false}, {"i1", message.Node{}, true},
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
