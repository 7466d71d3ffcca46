package nodehealth

import (
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// Maximum sizes of a history. Beyond them the oldest entries are dropped.
const (
	historyNode = 32  // entries of one node
	historyPool = 512 // entries of a pool
	historyText = 160 // bytes of a text of an entry
)

// history holds the actions on the nodes of a pool, oldest first. The Loop's goroutine owns it.
type history struct{ entries []api.HealthHistory }

// addFinding records a finding about an action or its result.
func (h *history) addFinding(now time.Time, f api.HealthFinding) {
	switch f.Event {
	case api.HealthRepairStarted, api.HealthRepairAttempt, api.HealthFenceStarted, api.HealthNodeQuarantined, api.HealthNodeHeld, api.HealthNodeReleased,
		api.HealthRequestTaken, api.HealthRequestEnded, api.HealthBreakerOpened, api.HealthBreakerClosed, api.HealthZoneFrozen, api.HealthZoneThawed:
		e := api.HealthHistory{At: now, Node: f.Node, Event: f.Event, Action: f.Action, Attempt: f.Attempt, Why: prose.Clip(f.Why, historyText), By: prose.Clip(f.By, historyText), Observe: f.Observe}
		h.addEntry(e)
	case api.HealthRepairSucceeded, api.HealthRepairFailed, api.HealthRepairEnded, api.HealthFenceConfirmed, api.HealthFenceUnconfirmed, api.HealthNodeReplaced:
		h.ended(now, f)
	}
}

func (h *history) addEntry(e api.HealthHistory) {
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
	h.entries = slices.DeleteFunc(h.entries, func(e api.HealthHistory) bool {
		if e.Node != node || count <= historyNode {
			return false
		}
		count--
		return true
	})
	h.entries = slices.Delete(h.entries, 0, max(0, len(h.entries)-historyPool))
}

// ended records the result of an attempt. The first result counts, but a later confirmation of a
// fence replaces it.
func (h *history) ended(now time.Time, f api.HealthFinding) {
	for i := range slices.Backward(h.entries) {
		e := &h.entries[i]
		if f.Attempt == "" || e.Attempt != f.Attempt {
			continue
		}
		switch {
		case f.Event == api.HealthNodeReplaced:
			e.Replacement = strings.TrimPrefix(f.Why, "by ")
		case e.Result == "" || f.Event == api.HealthFenceConfirmed:
			e.Result, e.Ended, e.ResultWhy = f.Event, now, prose.Clip(f.Why, historyText)
		}
		return
	}
}

// entriesOf returns the entries of these nodes and of the nodes that they replaced; with no nodes, all
// entries.
func (h *history) entriesOf(nodes []string) []api.HealthHistory {
	out := slices.Clone(h.entries)
	if len(nodes) == 0 {
		return out
	}
	return slices.DeleteFunc(out, func(e api.HealthHistory) bool {
		return !slices.Contains(nodes, e.Node) && (e.Replacement == "" || !slices.Contains(nodes, e.Replacement))
	})
}

// restore adopts the entries that an earlier process saved.
func (h *history) restore(now time.Time, saved []api.HealthHistory) {
	h.entries = nil
	for _, e := range saved[max(0, len(saved)-historyPool):] {
		if e.At.After(now) {
			e.At = now
		}
		h.addEntry(e)
	}
}
