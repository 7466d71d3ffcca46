package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// convergeNode is a machine with a connection of its own. It reports what it runs
// each second, in the form of the original's nodes.
type convergeNode struct {
	world *convergeWorld
	id    string
	kick  chan struct{} // the harmonizer requests a heartbeat
	stop  context.CancelFunc

	// Guarded by the world.
	conn      *nats.Conn
	reachable bool      // it sends heartbeats and obeys
	lost      time.Time // when it was last not reachable any more
	copies    []*convergeCopy
	restless  bool   // a copy waits for something
	beat      []byte // the last heartbeat; nil: something changed since
}

// join adds a node, which speaks from now on.
func (w *convergeWorld) join() {
	w.Helper()
	ctx, stop := context.WithCancel(w.ctx)
	w.mu.Lock()
	w.last++
	n := &convergeNode{world: w, id: fmt.Sprintf("node-%d", w.last), kick: make(chan struct{}, 1), stop: stop, reachable: true}
	first := time.Duration(w.rng.Int64N(int64(convergeBeat)))
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
	n.connect()
	w.wg.Go(func() { n.live(ctx, first) })
}

// connect opens its connection.
func (n *convergeNode) connect() {
	n.world.Helper()
	nc, err := nats.Connect(n.world.url, nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond), nats.ReconnectBufSize(-1))
	if err == nil {
		_, err = nc.Subscribe(message.AnnounceSubject(convergeCluster), func(*nats.Msg) {
			select {
			case n.kick <- struct{}{}:
			default:
			}
		})
	}
	if err != nil {
		n.world.Fatalf("connect %s: %v", n.id, err)
	}
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	n.conn = nc
}

// live beats until ctx ends.
func (n *convergeNode) live(ctx context.Context, first time.Duration) {
	defer func() { n.disconnect() }()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(convergeBeat)
		case <-n.kick:
		}
		nc, exits, beat := n.turn(time.Now())
		if nc == nil {
			continue
		}
		// A disconnected bus does not receive it.
		for _, e := range exits {
			_ = nc.Publish(message.SubjectExited, e)
		}
		_ = nc.Publish(message.SubjectHeartbeat, beat)
	}
}

func (n *convergeNode) disconnect() {
	n.world.mu.Lock()
	nc := n.conn
	n.conn = nil
	n.world.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
}

// turn starts and ends the instances that are due, and returns what the
// node reports; no connection if it is silent.
func (n *convergeNode) turn(now time.Time) (nc *nats.Conn, exits [][]byte, beat []byte) {
	w := n.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !n.reachable || n.conn == nil {
		return nil, nil, nil
	}
	if n.restless {
		n.restless, n.beat = false, nil
		n.copies = slices.DeleteFunc(n.copies, func(c *convergeCopy) bool {
			switch {
			case c.until.After(now):
				n.restless = true
			case c.leaving != "":
				exits = append(exits, c.exited())
				w.forget(c)
				return true
			case c.state == api.CopyStarting:
				c.become(api.CopyRunning, now)
			}
			return false
		})
	}
	if n.beat == nil {
		n.beat = n.encode()
	}
	return n.conn, exits, n.beat
}

func (n *convergeNode) encode() []byte {
	out := fmt.Appendf(make([]byte, 0, 256*(len(n.copies)+1)), `{"droplets":[`)
	for i, c := range n.copies {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, c.text...)
	}
	return fmt.Appendf(out, `],"dea":%q}`, n.id)
}

func (c *convergeCopy) exited() []byte {
	e := api.Exited{
		Partition: message.Partition, App: c.app.row.ID, Version: c.version, Instance: c.id, Index: c.index,
		Reason: c.leaving, Description: "it was told to",
	}
	if c.leaving == api.ExitCrashed {
		e.Status, e.Description, e.CrashedAt = new(1), "it crashed", time.Now().Unix()
	}
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers
	}
	return data
}

// kill ends nodes and all that they run.
func (w *convergeWorld) kill(nodes []*convergeNode) {
	w.mu.Lock()
	for _, n := range nodes {
		for _, c := range n.copies {
			w.forget(c)
			c.app.died = append(c.app.died, c)
		}
		n.copies, n.reachable, n.lost = nil, false, time.Now()
	}
	w.nodes = slices.DeleteFunc(w.nodes, func(n *convergeNode) bool { return slices.Contains(nodes, n) })
	w.mu.Unlock()
	for _, n := range nodes {
		n.stop()
	}
}

// pause makes nodes receive and send nothing; their instances continue. Cut ones lose
// their connections, too.
func (w *convergeWorld) pause(nodes []*convergeNode, cut bool) {
	w.mu.Lock()
	for _, n := range nodes {
		n.reachable, n.lost = false, time.Now()
	}
	w.mu.Unlock()
	for _, n := range nodes {
		if cut {
			n.disconnect()
		}
	}
}

// resume ends that.
func (w *convergeWorld) resume(nodes []*convergeNode) {
	w.Helper()
	for _, n := range nodes {
		w.mu.Lock()
		cut := n.conn == nil
		w.mu.Unlock()
		if cut {
			n.connect()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range nodes {
		n.reachable = true
	}
}

// some takes n nodes by chance.
func (w *convergeWorld) some(n int) []*convergeNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*convergeNode
	for _, i := range w.rng.Perm(len(w.nodes))[:n] {
		out = append(out, w.nodes[i])
	}
	return out
}
