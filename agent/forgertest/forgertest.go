// Package forgertest generates what a hostile agent sends. The agent has a key of its own, so the servers deliver only what it
// publishes on the subjects of its own node. A test fills a [Node] with what the agent can read of its cluster, and sends
// each message of a [Node.Round] beside healthy nodes. Each message is wrong, or true and worthless, so nothing may follow from it.
// The random numbers of the caller select the messages: the same ones give the same attack. A Node may be used concurrently, with
// random numbers for each goroutine.
package forgertest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Node is the node of a hostile agent, and all that it can read of its cluster.
type Node struct {
	Cluster string
	message.Node
	Others []string   // the other nodes of its pool; at least one
	Copies []api.Beat // of the other nodes, as their heartbeats list them; at least one
	// Resources and Allocated are what its facts claim of itself, at least one of each. What they claim of other nodes is more than
	// any machine has.
	Resources, Allocated []resource.Vector
}

// Message is a message on a subject of the node.
type Message struct {
	Subject string
	Data    []byte
}

// Round returns the messages of one kind of wrong statement: copies, exits, facts, hints, or bytes that are no statement. r
// selects the kind and all values: nodes, pools, copies, versions, times, states and sizes.
func (n Node) Round(r *rand.Rand, now time.Time) []Message {
	f := forger{n, r, now}
	switch r.IntN(10) {
	case 0, 1, 2:
		return f.on(message.HeartbeatSubject(n.Cluster, n.Node), f.heartbeat(r.IntN(300)))
	case 3:
		return f.on(message.HeartbeatSubject(n.Cluster, n.Node), api.Heartbeat{Node: f.pick(slices.Concat(n.Others, []string{"", "other"})...), Beats: n.Copies})
	case 4, 5:
		var all []Message
		for range r.IntN(50) {
			all = append(all, f.on(message.ExitedSubject(n.Cluster, n.Node), f.exit())...)
		}
		return all
	case 6, 7:
		return f.on(message.FactsSubject(n.Cluster, n.Node), f.facts())
	case 8:
		return f.on(names.Subject(n.Cluster, "lifecycle", n.Pool, n.Name), f.hint())
	}
	return f.bytes()
}

// forger makes one round.
type forger struct {
	Node
	r   *rand.Rand
	now time.Time
}

func (f forger) pick(all ...string) string { return all[f.r.IntN(len(all))] }

func (f forger) on(subject string, body any) []Message {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // bodies have no value that JSON lacks
	}
	return []Message{{subject, data}}
}

// time returns the present, or a time long ago or far ahead, in unix seconds.
func (f forger) time() float64 {
	return []float64{0, 1, float64(f.now.Unix()), float64(f.now.Add(-time.Hour).Unix()), float64(f.now.Add(time.Hour).Unix()), 2e11}[f.r.IntN(6)]
}

func (f forger) heartbeat(copies int) api.Heartbeat {
	h := api.Heartbeat{Node: f.Name, Beats: []api.Beat{}}
	for range copies {
		h.Beats = append(h.Beats, f.copy())
	}
	return h
}

// copy returns a copy of another node, or a part of it: its app, or its id with another app, version and index.
func (f forger) copy() api.Beat {
	real := f.Copies[f.r.IntN(len(f.Copies))]
	b := real
	b.State, b.Since = api.CopyState(f.pick("RUNNING", "STARTING", "CRASHED", "EVACUATING", "ODD")), f.time()
	switch f.r.IntN(4) {
	case 0: // as it is
	case 1: // the id of another app's copy
		b.Instance = f.Copies[f.r.IntN(len(f.Copies))].Instance
	case 2:
		b.Instance = fmt.Sprintf("%032x", f.r.Uint64())
	case 3:
		b.App, b.Version, b.Index = f.pick(real.App, "unknown", "\x1b[2J"), f.pick(real.Version, "v2", ""), f.r.IntN(5)
	}
	return b
}

func (f forger) exit() api.Exited {
	b := f.copy()
	return api.Exited{
		Partition: b.Partition, App: b.App, Version: b.Version, Instance: b.Instance, Index: b.Index, CrashedAt: int64(f.time()),
		Reason: api.ExitReason(f.pick("CRASHED", "CRASHED", "STOPPED", "DEA_SHUTDOWN", "DEA_EVACUATION", "ODD")),
	}
}

func (f forger) facts() api.NodeFacts {
	facts := api.NodeFacts{
		ID: f.pick(f.Name, f.Name, f.Others[0]), Pool: f.pick(f.Pool, f.Pool, "other"), Group: f.pick(f.Pool, "other"), BootID: f.pick("b", "c"),
		Zone: f.pick("", "nowhere"), Draining: f.r.IntN(2) == 0, SafeToEvict: f.r.IntN(2) == 0, Tasks: f.r.IntN(1000), BatchTasks: f.r.IntN(1000),
		Resources: f.Resources[f.r.IntN(len(f.Resources))], Allocated: f.Allocated[f.r.IntN(len(f.Allocated))],
		Heartbeat: []time.Duration{0, time.Nanosecond, time.Hour, -1}[f.r.IntN(4)], At: time.Unix(int64(f.time())%1e10, 0),
		Conditions: []api.NodeCondition{{Type: f.pick("Disk", ""), Failed: true, Why: "forged"}}, Rival: f.pick("", "forged"),
	}
	if facts.ID != f.Name || facts.Pool != f.Pool {
		facts.Resources, facts.Allocated = resource.Vector{1e12, 1e12, 1e12}, resource.Vector{1e12}
	}
	return facts
}

// hint is a hint to node health, in the words of Senlin.
func (f forger) hint() map[string]any {
	return map[string]any{
		"event": "compute.instance.shutdown.end", "state": "deleted", "instance_id": f.pick(slices.Concat(f.Others, []string{f.Name, "other"})...),
		"timestamp": f.time(),
	}
}

// bytes returns bytes on each subject of the node that are no statement, too long, or as long as the largest statement.
func (f forger) bytes() (all []Message) {
	own := f.on("", f.heartbeat(1))[0].Data
	data := f.pick("", "{", "[]", "null", "\x00\xff", `{"dea":"`+f.Name+`","droplets":{}}`, `{"dea":"`+f.Name+`","droplets":[{"droplet":1}]}`,
		`{"id":"`+f.Name+`","pool":"`+f.Pool+`","resources":[1e999]}`, `{"id":"`+f.Name+`","pool":"`+f.Pool+`","resources":[-1]}`, strings.Repeat("[", 10_000), strings.Repeat("x", message.MaxNodeMessage+1),
		string(own)+strings.Repeat(" ", message.MaxNodeMessage-len(own)), string(own)+string(own))
	for _, token := range []string{"heartbeat", "exited", "node", "lifecycle"} {
		all = append(all, Message{names.Subject(f.Cluster, token, f.Pool, f.Name), []byte(data)})
	}
	return all
}
