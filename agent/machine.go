package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxEnded is how many ended copies keep their output: at most 16 MiB, with endedOutput each.
const maxEnded = 256

// machine is the state of one node: its copies and its free resources. It does no I/O, except that it tests whether ports are
// free. One goroutine uses it.
type machine struct {
	cfg        Config
	boot       string
	cordoned   bool
	cordonedBy pools.Sequence // the latest accepted request
	cordonedAt time.Time
	fenced     bool               // by the owner
	selfFenced bool               // no contact with the bus: the node has fenced itself
	copies     map[string]*copyOf // by instance
	ended      []*copyOf          // the latest ones, oldest first
	dropped    []string           // instances of earlier ones, whose output can be removed
	largest    int                // bytes of a heartbeat
	ports      ports
}

// closed reports whether the node accepts no new copies.
func (m *machine) closed() bool { return m.cordoned || m.fenced || m.selfFenced }

// cordon sets or removes the cordon, and reports whether it changed. It rejects a late request.
func (m *machine) cordon(now time.Time, on bool, at pools.Sequence) (changed bool, err error) {
	if at.Before(m.cordonedBy) && now.Sub(m.cordonedAt) < lateFor {
		return false, &call.Error{Code: wire.CodeLate, Message: fmt.Sprintf("node %s has accepted the cordon request %d of epoch %d, this is %d of epoch %d",
			m.cfg.ID, m.cordonedBy.Number, m.cordonedBy.Epoch, at.Number, at.Epoch)}
	}
	if at != (pools.Sequence{}) {
		m.cordonedBy, m.cordonedAt = at, now
	}
	changed = m.cordoned != on
	m.cordoned = on
	return changed, nil
}

// copyOf is one copy of an app.
//
//	starting ──► running ──► (ended)
//	    └───────────────────────▲
//
// With a check of its readiness, it is starting until the first success.
type copyOf struct {
	wire.StartRequest
	state     api.CopyState  // Starting or Running; Evacuating is only published
	unready   bool           // it cannot replace another copy
	since     time.Time      // of the state
	asked     bool           // a request to stop it was received
	evacuated bool           // it is stopped because the node is fenced
	ports     map[string]int // the number of each port, by name

	fetching bool // Starting: its release is being fetched, and no process runs
	// Of a copy that outlives the agent:
	tag     string
	process *supervise.Identity // nil: it is being started
}

func newMachine(cfg Config, boot string) *machine {
	return &machine{cfg: cfg, boot: boot, fenced: cfg.Fenced, copies: map[string]*copyOf{}, largest: message.MaxNodeMessage, ports: newPorts()}
}

// allocated returns the sum of the footprints.
func (m *machine) allocated() resource.Vector {
	var sum resource.Vector
	for _, id := range slices.Sorted(maps.Keys(m.copies)) { // in a fixed order, so that rounding is always the same
		sum = sum.Add(m.copies[id].Footprint)
	}
	return sum
}

// priority returns the maximum over the copies of 2 x cpus + mem / 1000 MB, as Clusterman.
func (m *machine) priority() float64 {
	most := 0.0
	for _, c := range m.copies {
		most = max(most, 2*c.Footprint[resource.CPUs]+c.Footprint[resource.Mem]/1000)
	}
	return most
}

// admit adds a new copy. If the copy was already added, it returns nil without an error.
func (m *machine) admit(now time.Time, r wire.StartRequest) (*copyOf, error) {
	if err := r.Validate(); err != nil {
		return nil, call.Invalid("%v", err)
	}
	if m.copies[r.Instance] != nil {
		return nil, nil
	}
	for _, e := range m.ended {
		if e.Instance == r.Instance { // a repeated request must not run the copy twice
			return nil, nil
		}
	}
	if m.fenced || m.selfFenced {
		return nil, &call.Error{Code: wire.CodeFenced, Message: "node " + m.cfg.ID + " is fenced"}
	}
	if m.cordoned {
		return nil, &call.Error{Code: wire.CodeCordoned, Message: "node " + m.cfg.ID + " is cordoned"}
	}
	room := m.cfg.Resources.Sub(m.allocated())
	if !r.Footprint.Fits(room) {
		return nil, &call.Error{Code: wire.CodeNoRoom, Message: "node " + m.cfg.ID + " has " +
			resource.Of(room).String() + " left: the app instance requires " + resource.Of(r.Footprint).String()}
	}
	chosen, err := m.ports.choose(m.cfg.ID, r.Ports, m.usedPorts())
	if err != nil {
		return nil, err
	}
	c := &copyOf{StartRequest: r, state: api.CopyStarting, since: now, unready: true, ports: chosen}
	m.copies[r.Instance] = c
	if n := m.heartbeatSize(); n > m.largest {
		delete(m.copies, r.Instance)
		return nil, &call.Error{Code: wire.CodeNoRoom, Message: fmt.Sprintf("node %s lists %d app instances: with one more its heartbeat has %d bytes, at most %d are allowed",
			m.cfg.ID, len(m.copies), n, m.largest)}
	}
	return c, nil
}

// running records that a copy is up.
func (m *machine) running(now time.Time, instance string) {
	if c := m.copies[instance]; c != nil && c.state == api.CopyStarting && !c.Ready.HasCheck() {
		c.state, c.since = api.CopyRunning, now
	}
}

// ready records whether a copy is ready, and returns it; nil for an unknown copy.
func (m *machine) ready(now time.Time, instance string, ready bool) *copyOf {
	c := m.copies[instance]
	if c == nil {
		return nil
	}
	if c.unready = !ready; ready && c.state == api.CopyStarting {
		c.state, c.since = api.CopyRunning, now
	}
	return c
}

// exited removes a copy and returns the message about its end. It returns false for an unknown
// copy. leaving means that the node itself is stopping.
func (m *machine) exited(now time.Time, instance string, end outcome, leaving bool) (api.Exited, bool) {
	c := m.copies[instance]
	if c == nil {
		return api.Exited{}, false
	}
	delete(m.copies, instance)
	m.keepEnded(c)
	e := api.Exited{
		Partition: message.Partition, App: c.App, Version: c.Version, Instance: c.Instance, Index: c.Index,
		Status: end.status, Description: end.text, Reason: m.reason(c, leaving),
	}
	if e.Reason == api.ExitCrashed {
		e.CrashedAt = now.Unix()
	}
	return e, true
}

// keepEnded stores the output of an ended copy. If there are too many, it drops the oldest copy that is
// not the last one of its index. So the reason why an index failed for good is not lost to other
// copies that crash repeatedly.
func (m *machine) keepEnded(c *copyOf) {
	m.ended = append(m.ended, c)
	if len(m.ended) <= maxEnded {
		return
	}
	type index struct {
		app string
		n   int
	}
	last := map[index]*copyOf{}
	for _, e := range m.ended {
		last[index{e.App, e.Index}] = e
	}
	oldest := slices.IndexFunc(m.ended, func(e *copyOf) bool { return last[index{e.App, e.Index}] != e })
	oldest = max(oldest, 0) // if each is the last of its index, drop the oldest
	m.dropped = append(m.dropped, m.ended[oldest].Instance)
	m.ended = slices.Delete(m.ended, oldest, oldest+1)
}

func (m *machine) reason(c *copyOf, leaving bool) api.ExitReason {
	switch {
	case c.asked:
		return api.ExitStopped
	case c.evacuated, leaving && m.cordoned:
		return api.ExitEvacuation
	case leaving:
		return api.ExitShutdown
	}
	return api.ExitCrashed
}

// heartbeatSize returns the size of the heartbeat when each copy has the longest state.
func (m *machine) heartbeatSize() int {
	h := m.heartbeat()
	for i := range h.Beats {
		h.Beats[i].State, h.Beats[i].Unready = api.CopyEvacuating, true
	}
	data, _ := json.Marshal(h) // plain values: never an error
	return len(data)
}

// heartbeat returns all copies, in order of instance.
func (m *machine) heartbeat() api.Heartbeat {
	h := api.Heartbeat{Node: m.cfg.ID, Beats: []api.Beat{}}
	for _, id := range slices.Sorted(maps.Keys(m.copies)) {
		c := m.copies[id]
		state := c.state
		if m.closed() {
			state = api.CopyEvacuating
		}
		h.Beats = append(h.Beats, api.Beat{
			Partition: message.Partition, App: c.App, Version: c.Version, Instance: id,
			Index: c.Index, State: state, Since: float64(c.since.UnixMilli()) / 1000, Unready: c.unready,
		})
	}
	return h
}

// heartbeatWithin returns the heartbeat in at most m.largest bytes, and how many copies it omits. A heartbeat that omits
// copies ends with null, an object that is not readable, so that receivers treat the list as partial.
func (m *machine) heartbeatWithin() (data []byte, omitted int) {
	h := m.heartbeat()
	all := h.Beats
	for low, high := 0, len(all); ; { // the largest number of copies that fits
		data, _ = json.Marshal(h) // plain values: never an error
		if omitted = len(all) - len(h.Beats); omitted > 0 {
			data = slices.Concat(bytes.TrimSuffix(data, []byte("]}")), []byte(separated(h.Beats)), []byte("null]}"))
		}
		switch fits := len(data) <= m.largest; {
		case fits && (omitted == 0 || high-low <= 1):
			return data, omitted
		case fits:
			low = len(h.Beats)
		case len(h.Beats) == 0:
			return data, omitted
		default:
			high = len(h.Beats)
		}
		h.Beats = all[:(low+high)/2]
	}
}

// separated returns the text before a further object of a list.
func separated(list []api.Beat) string {
	if len(list) == 0 {
		return ""
	}
	return ","
}

// facts returns the facts to publish. The node is always safe to evict, because every copy may run
// elsewhere.
func (m *machine) facts(now time.Time, conditions []api.NodeCondition) api.NodeFacts {
	return api.NodeFacts{
		ID: m.cfg.ID, Pool: m.cfg.Pool, Group: m.cfg.Group, BootID: m.boot, Zone: m.cfg.Zone,
		Resources: m.cfg.Resources, Allocated: m.allocated(), Tasks: len(m.copies), Unready: m.unready(),
		Draining: m.closed(), SafeToEvict: true, Priority: m.priority(),
		Conditions: m.conditions(conditions), Heartbeat: m.cfg.Heartbeat, At: now,
	}
}

// unready returns how many copies are not ready.
func (m *machine) unready() (n int) {
	for _, c := range m.copies {
		if c.unready {
			n++
		}
	}
	return n
}

// conditions returns found, preceded by the fence of the owner if there is one.
func (m *machine) conditions(found []api.NodeCondition) []api.NodeCondition {
	if !m.fenced {
		return found
	}
	fence := api.NodeCondition{Type: conditionFenced, Failed: true, Why: "fenced by its owner"}
	return append([]api.NodeCondition{fence}, found...)
}
