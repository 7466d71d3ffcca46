package placer

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Assigner has the rules of the placer without a bus and without a clock: the methods named for an event change it, and Act returns
// the requests to agents. Its rows are complete. One goroutine uses it.
type Assigner struct{ core *core }

// Request is a request to an agent to start or to stop a copy.
type Request struct {
	Stop      bool
	Node      string
	Instance  string
	App       string
	Version   string
	Index     int
	Footprint resource.Vector // of a start
}

// NewAssigner returns an assigner without nodes and rows. The seed makes the ids of copies.
func NewAssigner(cfg Config, seed string) *Assigner {
	a := &Assigner{newCore(cfg.WithDefaults(), seed)}
	a.core.loaded()
	return a
}

// Row processes the row of an app.
func (a *Assigner) Row(row api.App) { a.core.app(row) }

// Start and Stop process nudges of the harmonizer.
func (a *Assigner) Start(now time.Time, m api.Start) { a.core.start(now, m) }

// Stop processes a nudge to stop copies.
func (a *Assigner) Stop(now time.Time, m api.Stop) { a.core.stop(now, m) }

// Report processes the facts and the heartbeat of a node.
func (a *Assigner) Report(now time.Time, f api.NodeFacts, beats []api.Beat) {
	a.core.nodeFacts(now, f)
	a.core.heartbeat(now, Heartbeat{Heartbeat: api.Heartbeat{Node: f.ID, Beats: beats}})
}

// Unchanged processes a repetition of the latest report of a node.
func (a *Assigner) Unchanged(now time.Time, node string) {
	if n := a.core.nodes[node]; n != nil {
		n.receivedAt = now
	}
}

// Exited processes the end of a copy.
func (a *Assigner) Exited(now time.Time, instance string) {
	a.core.exited(now, api.Exited{Instance: instance})
}

// Started processes the response to a start: Accepted, Full or Rejected.
func (a *Assigner) Started(now time.Time, instance string, r Result) {
	a.core.started(now, instance, r, "")
}

// Act returns the next requests.
func (a *Assigner) Act(now time.Time) []Request {
	actions := a.core.act(now)
	durable{a.core}.takeChanged()
	out := make([]Request, 0, len(actions))
	for _, x := range actions {
		out = append(out, Request{
			Stop: x.stop, Node: x.node, Instance: x.instance, App: x.app, Version: x.version, Index: x.index, Footprint: x.footprint,
		})
	}
	return out
}

// Places returns where copies fit, as of now.
func (a *Assigner) Places(now time.Time, q api.PlacesQuestion, text string) api.Places {
	return packer{a.core}.places(now, q, text)
}
