package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/mirror"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

const (
	inbox           = 4096 // waiting messages of a pool
	parallelCordons = 16
	maxReason       = 64 // bytes
	writeTimeout    = 5 * time.Second
)

// serve answers the requests of a pool until ctx ends.
func (a *Adapter) serve(ctx context.Context, p *Pool) error {
	closed := p.Conn.StatusChanged(nats.CLOSED)
	defer p.Conn.RemoveStatusListener(closed)
	connected := p.Conn.StatusChanged(nats.CONNECTED)
	defer p.Conn.RemoveStatusListener(connected)
	in, err := bus.Receive(p.Conn, bus.InboxConfig{
		Events:   []string{message.AnnounceSubject(a.cfg.Cluster), message.GoneSubject(a.cfg.Cluster, message.Node{Pool: p.Name, Name: "*"})},
		Requests: []string{wire.Subject(a.cfg.Cluster, p.Name, "*", wire.OpCordon), pendingSubject(a.cfg.Cluster, p.Name), message.PlacesSubject(a.cfg.Cluster, p.Name)},
		Messages: inbox, Log: a.cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("pool %s: %w", p.Name, err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer in.Close()
	slots := make(chan struct{}, parallelCordons)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return fmt.Errorf("pool %s: %w", p.Name, nats.ErrConnectionClosed)
		case <-connected: // again: others have received nothing since the loss of the server
			a.publishAll()
		case m := <-in.Messages():
			switch token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]; token {
			case "announce":
				if len(m.Data) == 0 {
					a.publishAll()
				}
			case "pending":
				a.answerPending(p, m)
			default:
				select {
				case slots <- struct{}{}:
				case <-ctx.Done():
					return nil
				}
				wg.Go(func() {
					defer func() { <-slots }()
					a.order(ctx, p, m, token)
				})
			}
		}
	}
}

// order carries out a message that takes its time: about one node, or a question.
func (a *Adapter) order(ctx context.Context, p *Pool, m *nats.Msg, token string) {
	if token == "places" {
		a.answerPlaces(p, m)
		return
	}
	tokens := strings.Split(m.Subject, ".")
	id := tokens[len(tokens)-2]
	if token == "gone" {
		a.gone(ctx, p.Name, id, m.Data)
		return
	}
	err := a.answerCordon(ctx, p.Name, id, m)
	if err != nil {
		a.cfg.Log.Warn("cordon refused", "pool", p.Name, "node", id, "err", err)
	}
	a.counts.cordons.Add(1)
	a.respond(p, m, nil, err)
}

func (a *Adapter) answerCordon(ctx context.Context, pool, id string, m *nats.Msg) error {
	var r wire.CordonRequest
	if err := call.Decode(m.Data, wire.MaxRequest, &r); err != nil {
		return err
	}
	var at pools.Sequence
	for header, value := range map[string]*uint64{wire.HeaderEpoch: &at.Epoch, wire.HeaderNumber: &at.Number} {
		if text := m.Header.Get(header); text != "" {
			var err error
			if *value, err = strconv.ParseUint(text, 10, 64); err != nil {
				return call.Invalid("header %s: %.40q is not a decimal number", header, text)
			}
		}
	}
	if !a.leads(pool) {
		return busy("the lease of pool %s is not held: another adapter may have it", pool)
	}
	if len(r.Reason) > maxReason || !wire.IsPrintable(string(r.Reason)) {
		return call.Invalid("reason: want at most %d printable bytes", maxReason)
	}
	return a.cordon(ctx, pool, id, r, at)
}

// gone deletes the Node object of a machine that has ended.
func (a *Adapter) gone(ctx context.Context, pool, id string, data []byte) {
	var g api.NodeGone
	if !a.cfg.DeleteEnded || !a.leads(pool) || json.Unmarshal(data, &g) != nil || g.Node != id || g.Pool != pool || !a.mirror.State(time.Now()).Fresh {
		return
	}
	var name, uid string
	var ok bool
	a.mirror.Read(func(c *core.Cluster) { name, uid, ok = c.Find(pool, id) })
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cordonTimeout)
	defer cancel()
	if err := a.rights.result(rightDelete, "the Node objects of ended machines stay", a.api.DeleteNode(ctx, name, uid)); err != nil {
		a.cfg.Log.Warn("node of an ended machine not deleted", "pool", pool, "node", name, "machine", id, "err", err)
		return
	}
	a.cfg.Log.Info("node of an ended machine deleted", "pool", pool, "node", name, "machine", id)
}

// answerPending answers which pods wait. Without current knowledge the state in the answer says so.
func (a *Adapter) answerPending(p *Pool, m *nats.Msg) {
	now := time.Now()
	state := a.stateOf(p.Name, a.mirror.State(now))
	a.respond(p, m, pendingOf(a.pending(now)[p.Name], state), nil)
}

func (a *Adapter) pending(now time.Time) (byPool map[string]core.Pending) {
	a.mirror.Read(func(c *core.Cluster) { byPool, _ = c.Pending(now, a.cfg.Grace) })
	return byPool
}

func (a *Adapter) respond(p *Pool, m *nats.Msg, body any, err error) {
	if err := call.Respond(m, p.Conn.MaxPayload(), body, err); err != nil {
		a.cfg.Log.Warn("response not sent", "pool", p.Name, "err", err)
	}
}

// stateOf returns the state message of a pool.
func (a *Adapter) stateOf(pool string, s mirror.State) api.SchedulerState {
	nodes := 0
	a.mirror.Read(func(c *core.Cluster) { nodes = c.NodesOf(pool) })
	problems := []string(nil)
	if s.Fresh {
		problems = a.problemsOf(pool, time.Now())
	}
	return api.SchedulerState{Problems: problems, Pool: pool, Kind: kindKubernetes, Fresh: s.Fresh, AsOf: s.AsOf, Period: a.cfg.Period, Nodes: nodes, Accepts: []string{api.AcceptsReason, api.AcceptsDeadline}, Why: strictyaml.Cut(s.Why, maxText/4)}
}

// writeMetrics writes what waits to the metrics store of each pool, in each period.
func (a *Adapter) writeMetrics(ctx context.Context) error {
	tick := time.NewTicker(a.cfg.Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := time.Now()
		if !a.mirror.State(now).Fresh {
			continue // without samples the windows of the signals are unknown
		}
		for name, p := range a.pending(now) {
			if !a.leads(name) {
				continue
			}
			a.writePending(ctx, a.pools[name], now, p)
		}
	}
}

// writePending writes the sums of the pods that wait, without those that no machine can hold.
func (a *Adapter) writePending(ctx context.Context, p *Pool, now time.Time, pending core.Pending) {
	if p.Sink == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var samples []metrics.Sample
	for _, k := range []resource.Kind{resource.CPUs, resource.Mem, resource.Disk} {
		samples = append(samples, metrics.Sample{
			Type: metrics.System, Name: k.String() + "_pending", Time: now, Value: max(pending.Sum[k]-pending.Never[k], 0),
			Dimensions: metrics.Dimensions{"cluster": a.cfg.Cluster, "pool": p.Name},
		})
	}
	if err := p.Sink.Write(ctx, samples); err != nil && ctx.Err() == nil {
		a.unwritten.Do(func() { a.cfg.Log.Warn("metrics not written", "pool", p.Name, "err", err) })
	}
}
