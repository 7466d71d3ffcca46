package adapter

import (
	"context"
	"encoding/json"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/mirror"
)

// mostAtOnce bounds the nodes that an announcement publishes in one batch.
const mostAtOnce = 500

// publisher publishes facts, heartbeats and states. One goroutine uses it.
type publisher struct {
	*Adapter
	turn    turn
	burst   []string // nodes that are published soon, after an announcement
	fresh   bool
	stateAt time.Time // of the latest state
	logs    rate.Sometimes
}

// turn divides the nodes of a period into batches of the same size.
type turn struct {
	names []string
	next  int
	begun time.Time
}

// due returns the nodes whose turn it is. It takes the names anew at the start of each period.
func (t *turn) due(now time.Time, period time.Duration, names func() []string) []string {
	if t.begun.IsZero() || now.Sub(t.begun) >= period {
		rest := t.names[t.next:] // after a late batch
		t.names, t.next = append(rest[:len(rest):len(rest)], names()...), 0
		t.begun = now
	}
	share := float64(now.Sub(t.begun)+period/100) / float64(period)
	end := min(len(t.names), max(t.next, int(share*float64(len(t.names))+1)))
	due := t.names[t.next:end]
	t.next = end
	return due
}

// publish publishes until ctx ends.
func (a *Adapter) publish(ctx context.Context) error {
	p := &publisher{Adapter: a, logs: rate.Sometimes{First: 1, Interval: 30 * time.Second}}
	tick := time.NewTicker(a.cfg.Batch)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			now := time.Now()
			p.batch(now)
			p.counts.batch.Store(now.UnixNano())
		}
	}
}

// batch publishes what is due.
func (p *publisher) batch(now time.Time) {
	state := p.mirror.State(now)
	if p.fresh != state.Fresh || now.Sub(p.stateAt) >= p.cfg.Period {
		if state.Fresh && !p.fresh {
			p.publishAll()
		}
		p.publishStates(now, state)
	}
	all := false
	select {
	case <-p.all:
		all = true
		if now.After(p.stateAt) {
			p.publishStates(now, state)
		}
	default:
	}
	if !p.fresh {
		return
	}
	type message struct {
		core.Facts
		name string
		beat bool
	}
	var out []message
	p.mirror.Read(func(c *core.Cluster) {
		sent := map[string]bool{}
		add := func(names []string, beat bool) {
			for _, name := range names {
				if f, ok := c.Facts(name, now); ok && !sent[name] && p.leads(f.Pool) {
					sent[name] = true
					out = append(out, message{f, name, beat})
				}
			}
		}
		due := p.turn.due(now, p.cfg.Period, c.Nodes)
		changed := c.Dirty()
		add(changed[:min(len(changed), mostAtOnce)], false)
		for _, name := range changed[min(len(changed), mostAtOnce):] {
			c.Touch(name) // in the next batch
		}
		if all {
			p.burst = c.Nodes()
		}
		n := min(len(p.burst), mostAtOnce)
		add(p.burst[:n], true)
		p.burst = p.burst[n:]
		for _, name := range due {
			delete(sent, name) // a heartbeat too
		}
		add(due, true)
	})
	for _, m := range out {
		p.send(now, m.Facts, m.name, m.beat)
	}
}

// send publishes the facts of a node, and its heartbeat.
func (p *publisher) send(now time.Time, f core.Facts, name string, beat bool) {
	node := message.Node{Pool: f.Pool, Name: f.ID}
	p.put(f.Pool, message.FactsSubject(p.cfg.Cluster, node), factsOf(f, p.evictions.blocked(name), p.cfg.Period, now))
	if beat {
		p.put(f.Pool, message.HeartbeatSubject(p.cfg.Cluster, node), api.Heartbeat{Node: f.ID, Beats: []api.Beat{}})
	}
	p.counts.facts.Add(1)
}

// put publishes one message on the connection of its pool.
func (p *publisher) put(pool, subject string, v any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = bus.Publish(p.pools[pool].Conn, subject, data)
	}
	if err != nil {
		p.counts.unsent.Add(1)
		p.logs.Do(func() { p.cfg.Log.Warn("message not sent", "subject", subject, "err", err) })
	}
}

// publishStates publishes the state of each pool.
func (p *publisher) publishStates(now time.Time, state mirror.State) {
	if p.fresh != state.Fresh || p.stateAt.IsZero() {
		p.cfg.Log.Info("state of the cluster", "fresh", state.Fresh, "why", state.Why)
	}
	p.fresh, p.stateAt = state.Fresh, now
	for pool := range p.pools {
		if !p.leads(pool) {
			continue
		}
		p.put(pool, message.StateSubject(p.cfg.Cluster, pool), p.stateOf(pool, state))
	}
}
