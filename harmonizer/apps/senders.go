package apps

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	// wrongFor is how long after its latest wrong statement a sender is reported.
	wrongFor = time.Minute
	// maxWrong bounds the senders and reasons that are reported.
	maxWrong = 1000
)

// senders has the nodes that send statements that do not count, or too much. Their statements change nothing; operators
// see the node, and a finding at the begin and at the end.
type senders struct {
	clock   *clock
	journal *journal
	wrong   map[sender]*wrongSender
}

// sender is a node and the reason why its statements do not count.
type sender struct {
	node message.Node
	why  api.AppReason
}

type wrongSender struct {
	since, last instant
	count       uint64
	detail      string // of the latest one
}

// note counts wrong statements of a node. A sender without a name shares a subject with others and is not reported.
func (s *senders) note(node message.Node, why api.AppReason, count uint64, detail string) {
	if node.Name == "" {
		return
	}
	key := sender{node, why}
	w := s.wrong[key]
	if w == nil {
		if len(s.wrong) >= maxWrong {
			return
		}
		w = &wrongSender{since: s.clock.now}
		s.wrong[key] = w
		s.journal.addFinding(onNode(api.AppFinding{Kind: api.AppFindingSenderWrong, Why: why, Detail: detail}, node))
	}
	w.last, w.detail = s.clock.now, detail
	w.count += count
}

// expire ends the reports of senders that were not wrong for wrongFor.
func (s *senders) expire() {
	for _, key := range s.sorted() {
		if s.wrong[key].last.add(wrongFor) < s.clock.now {
			delete(s.wrong, key)
			s.journal.addFinding(onNode(api.AppFinding{Kind: api.AppFindingSenderRight, Why: key.why}, key.node))
		}
	}
}

func (s *senders) sorted() []sender {
	return slices.SortedFunc(maps.Keys(s.wrong), func(a, b sender) int {
		return cmp.Or(a.node.Compare(b.node), cmp.Compare(a.why, b.why))
	})
}

// WrongSenders returns the nodes whose statements were refused or dropped in the last minute, in order of pool and name.
func (v View) WrongSenders() (all []api.WrongSender) {
	s := &v.m.senders
	for _, key := range s.sorted() {
		w := s.wrong[key]
		all = append(all, api.WrongSender{
			Pool: key.node.Pool, Node: key.node.Name, Why: key.why, Since: s.clock.time(w.since), Count: w.count, Detail: w.detail,
		})
	}
	return all
}
