package known

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

func TestNodeNumbersAreFreeAfterRelease(t *testing.T) {
	s := nodes{byName: map[string]uint32{}}
	a := s.add("a", 0)
	s.keepSum(a, message.Sum{1, 2})
	s.lose(a)
	if s.find([]byte("a")) != nil || s.withSum(message.Sum{1, 2}) != nil || s.marks([]byte("a")) != nil {
		t.Error("a lost node is still found")
	}
	if b := s.add("b", 0); b.number == a.number {
		t.Error("the number of a lost node is used again before release")
	}
	s.release()
	if c := s.add("c", 0); c.number != a.number {
		t.Errorf("number %d, want %d, which is free", c.number, a.number)
	}
}

func TestHeartbeatIsReadAgainAfterCopyLeaves(t *testing.T) {
	s := nodes{byName: map[string]uint32{}}
	n := s.add("a", 0)
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
