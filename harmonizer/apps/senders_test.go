package apps

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// A node that sends too much is reported once at its begin and once at its end, and is in the status meanwhile.
func TestWrongSenderIsReportedAtItsBeginAndEnd(t *testing.T) {
	m, now := NewMachine(steady()), start()
	m.Step(now, BusUp{})
	n := message.Node{Pool: "p", Name: "n1"}
	_, found := m.Step(now, SenderLimited{Node: n, Lost: 5})
	if len(found) != 1 || found[0].Kind != api.AppFindingSenderWrong || found[0].Why != api.WhySendsTooMuch || found[0].Pool != "p" || found[0].Node != "n1" {
		t.Errorf("findings %v, want that the node sends too much", found)
	}
	for range 3 {
		now = now.Add(30 * time.Second)
		if _, found = m.Step(now, SenderLimited{Node: n, Lost: 5}); len(found) != 0 {
			t.Errorf("reported again: %v", found)
		}
		m.Step(now, Tick{})
	}
	if all := m.View().WrongSenders(); len(all) != 1 || all[0].Count != 20 || !all[0].Since.Equal(start()) {
		t.Errorf("wrong senders %v, want one with 20 messages", all)
	}
	now = now.Add(61 * time.Second)
	_, found = m.Step(now, Tick{})
	if len(found) != 1 || found[0].Kind != api.AppFindingSenderRight || found[0].Node != "n1" || len(m.View().WrongSenders()) != 0 {
		t.Errorf("findings %v, wrong senders %v; want the end", found, m.View().WrongSenders())
	}
}

func TestWrongSendersAreBounded(t *testing.T) {
	m, now := NewMachine(steady()), start()
	for i := range 2 * maxWrong {
		m.Step(now, Heartbeat{Node: message.Node{Pool: "p", Name: fmt.Sprint("n", i)}, Data: []byte("{")})
	}
	m.Step(now, SenderLimited{Node: message.Node{Pool: "q", Name: "n"}, Lost: 1})
	_, found := m.Step(now, SenderLimited{Writer: "operator", Lost: 3})
	if len(found) != 1 || found[0].Kind != api.AppFindingSenderWrong || found[0].Detail != "writer operator of the metrics store" {
		t.Errorf("findings %v, want the writer", found)
	}
	all := m.View().WrongSenders()
	if n := len(all); n != maxWrong/2+2 {
		t.Errorf("%d wrong senders, want %d of one pool, one of another, and one writer", n, maxWrong/2)
	}
	if w := all[0]; w.Writer != "operator" || w.Count != 3 {
		t.Errorf("%v is the first one, want the writer", w)
	}
}
