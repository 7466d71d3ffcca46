package nodehealth

import (
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Maximum sizes of a history. Beyond them the oldest entries are dropped.
const (
	HistoryNode = 32  // entries of one node
	HistoryPool = 512 // entries of a pool
	historyText = 160 // bytes of a text of an entry
)

// HistoryEntry is one action on a node, or on the pool if Node is empty.
type HistoryEntry struct {
	At    time.Time          `json:"at"`
	Node  string             `json:"node,omitempty"`
	Event judge.FindingEvent `json:"event"` // event at the start
	// Action is the action of a repair; empty for fencing and for other entries.
	Action  judge.ActionName `json:"action,omitempty"`
	Attempt string           `json:"attempt,omitempty"`
	Why     string           `json:"why,omitempty"` // the finding that caused it
	By      string           `json:"by,omitempty"`  // the operator who requested it
	Observe bool             `json:"observe,omitempty"`
	// Result is the event that ended an attempt, at Ended. Empty: in progress, or an entry without
	// an end.
	Result    judge.FindingEvent `json:"result,omitempty"`
	Ended     time.Time          `json:"ended,omitzero"`
	ResultWhy string             `json:"result_why,omitempty"`
	// Replacement is the node that replaced Node.
	Replacement string `json:"replacement,omitempty"`
}

// history holds the actions on the nodes of a pool, oldest first. The Loop's goroutine owns it.
type history struct{ entries []HistoryEntry }

// found records a finding about an action or its result.
func (h *history) found(now time.Time, f judge.Finding) {
	switch f.Event {
	case judge.RepairStarted, judge.RepairAttempt, judge.FenceStarted, judge.NodeQuarantined, judge.NodeHeld, judge.NodeReleased,
		judge.RequestTaken, judge.RequestEnded, judge.BreakerOpened, judge.BreakerClosed, judge.ZoneFrozen, judge.ZoneThawed:
		e := HistoryEntry{At: now, Node: f.Node, Event: f.Event, Action: f.Action, Attempt: f.Attempt, Why: short(f.Why), By: short(f.By), Observe: f.Observe}
		h.add(e)
	case judge.RepairSucceeded, judge.RepairFailed, judge.RepairEnded, judge.FenceConfirmed, judge.FenceUnconfirmed, judge.NodeReplaced:
		h.ended(now, f)
	}
}

func (h *history) add(e HistoryEntry) {
	h.entries = append(h.entries, e)
	h.trim(e.Node)
}

// trim drops the oldest entries beyond the maximum, of the node and of the pool.
func (h *history) trim(node string) {
	count := 0
	for _, e := range h.entries {
		if e.Node == node {
			count++
		}
	}
	h.entries = slices.DeleteFunc(h.entries, func(e HistoryEntry) bool {
		if e.Node != node || count <= HistoryNode {
			return false
		}
		count--
		return true
	})
	h.entries = slices.Delete(h.entries, 0, max(0, len(h.entries)-HistoryPool))
}

// ended records the result of an attempt. The first result counts, but a later confirmation of a
// fence replaces it.
func (h *history) ended(now time.Time, f judge.Finding) {
	for i := range slices.Backward(h.entries) {
		e := &h.entries[i]
		if f.Attempt == "" || e.Attempt != f.Attempt {
			continue
		}
		switch {
		case f.Event == judge.NodeReplaced:
			e.Replacement = strings.TrimPrefix(f.Why, "by ")
		case e.Result == "" || f.Event == judge.FenceConfirmed:
			e.Result, e.Ended, e.ResultWhy = f.Event, now, short(f.Why)
		}
		return
	}
}

// of returns the entries of these nodes and of the nodes that they replaced; with no nodes, all
// entries.
func (h *history) of(nodes []string) []HistoryEntry {
	out := slices.Clone(h.entries)
	if len(nodes) == 0 {
		return out
	}
	return slices.DeleteFunc(out, func(e HistoryEntry) bool {
		return !slices.Contains(nodes, e.Node) && (e.Replacement == "" || !slices.Contains(nodes, e.Replacement))
	})
}

// restore adopts the entries that an earlier process saved.
func (h *history) restore(now time.Time, saved []HistoryEntry) {
	h.entries = nil
	for _, e := range saved[max(0, len(saved)-HistoryPool):] {
		if e.At.After(now) {
			e.At = now
		}
		h.add(e)
	}
}

func short(s string) string {
	if len(s) > historyText {
		s = s[:historyText]
	}
	return strings.ToValidUTF8(s, "?")
}
