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

// senders has the nodes, and the writers of metrics, that send statements that do not count, or too much. Their statements change nothing; operators
// see the node, and a finding at the begin and at the end.
type senders struct {
	clock   *clock
	journal *journal
	wrong   map[sender]*wrongSender
}

// sender is a node, or a writer of metrics, and the reason why its statements do not count.
type sender struct {
	node   message.Node
	writer string
	why    api.AppReason
}

// finding returns a finding about the sender.
func (k sender) finding(kind api.AppFindingKind, detail string) api.AppFinding {
	if k.writer != "" {
		detail = "writer " + k.writer + " of the metrics store"
	}
	return onNode(api.AppFinding{Kind: kind, Why: k.why, Detail: detail}, k.node)
}

type wrongSender struct {
	since, last instant
	count       uint64
	detail      string // of the latest one
}

// note counts wrong statements of a node. A sender without a name shares a subject with others and is not reported.
func (s *senders) note(node message.Node, why api.AppReason, count uint64, detail string) {
	s.add(sender{node: node, why: why}, count, detail)
}

func (s *senders) add(key sender, count uint64, detail string) {
	if key.node.Name == "" && key.writer == "" {
		return
	}
	w := s.wrong[key]
	if w == nil {
		if s.ofPool(key.node.Pool) >= maxWrong-len(s.wrong) {
			return
		}
		w = &wrongSender{since: s.clock.now}
		s.wrong[key] = w
		s.journal.addFinding(key.finding(api.AppFindingSenderWrong, detail))
	}
	w.last, w.detail = s.clock.now, detail
	w.count += count
}

// ofPool returns how many senders of a pool are reported. A pool gets at most as much as is free, so there is room for the next one.
func (s *senders) ofPool(pool string) (n int) {
	for key := range s.wrong {
		if key.node.Pool == pool {
			n++
		}
	}
	return n
}

// expire ends the reports of senders that were not wrong for wrongFor.
func (s *senders) expire() {
	for _, key := range s.sorted() {
		if s.wrong[key].last.add(wrongFor) < s.clock.now {
			delete(s.wrong, key)
			s.journal.addFinding(key.finding(api.AppFindingSenderRight, ""))
		}
	}
}

func (s *senders) sorted() []sender {
	return slices.SortedFunc(maps.Keys(s.wrong), func(a, b sender) int {
		return cmp.Or(a.node.Compare(b.node), cmp.Compare(a.writer, b.writer), cmp.Compare(a.why, b.why))
	})
}

// WrongSenders returns the nodes whose statements were refused or dropped in the last minute, in order of pool and name.
func (v View) WrongSenders() (all []api.WrongSender) {
	s := &v.m.senders
	for _, key := range s.sorted() {
		w := s.wrong[key]
		all = append(all, api.WrongSender{
			Pool: key.node.Pool, Node: key.node.Name, Writer: key.writer, Why: key.why, Since: s.clock.time(w.since), Count: w.count, Detail: w.detail,
		})
	}
	return all
}
