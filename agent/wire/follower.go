package wire

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Follower reads the output of an app's copies from several nodes, each line once. It continues after a node was away,
// and after a restart of its agent. Only one goroutine may use it.
type Follower struct {
	client  *Client
	request LogsRequest
	begun   bool
	nodes   map[string]*followedNode
}

// Read returns the new output of the copies on these nodes, and on the nodes with copies that have not ended. Copies
// without new lines are missing. A node that did not answer has an error, and a later Read continues there.
func (f *Follower) Read(ctx context.Context, nodes []string) (copies []CopyLog, failed map[string]error) {
	for _, node := range nodes {
		if f.nodes[node] == nil {
			f.nodes[node] = &followedNode{early: !f.begun, next: map[string]followedCopy{}}
		}
	}
	f.begun = true
	var asked []string
	for _, node := range slices.Sorted(maps.Keys(f.nodes)) {
		if slices.Contains(nodes, node) || f.nodes[node].active() {
			asked = append(asked, node)
		}
	}
	read, errs := make([][]CopyLog, len(asked)), make([]error, len(asked))
	slots := make(chan struct{}, parallelReads)
	var wg sync.WaitGroup
	for i, node := range asked {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			read[i], errs[i] = f.readNode(ctx, node, f.nodes[node])
		})
	}
	wg.Wait()
	failed = map[string]error{}
	for i, node := range asked {
		copies = append(copies, read[i]...)
		if errs[i] != nil {
			failed[node] = errs[i]
		}
	}
	return copies, failed
}

// readNode returns the new output of the copies on one node.
func (f *Follower) readNode(ctx context.Context, node string, n *followedNode) (copies []CopyLog, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for range readRounds {
		request := f.request
		request.After = map[string]int64{}
		for instance, c := range n.next {
			request.After[instance] = c.at
		}
		reply, err := f.client.Logs(ctx, node, request)
		if errors.Is(err, errBusy) {
			return copies, nil // the next Read requests again
		}
		if err != nil {
			return copies, err
		}
		found, more := n.recordReply(reply)
		copies = append(copies, found...)
		if !more {
			break
		}
	}
	return copies, nil
}

// followedNode is what a Follower has read from one node.
type followedNode struct {
	early bool // it was in the first list of nodes, and has not answered yet
	next  map[string]followedCopy
}

// active reports whether a copy on the node may have more output.
func (n *followedNode) active() bool {
	for _, c := range n.next {
		if !c.ended {
			return true
		}
	}
	return false
}

// recordReply records a reply, and returns the copies with new lines. more: the node has further output.
func (n *followedNode) recordReply(reply LogsReply) (found []CopyLog, more bool) {
	listed, size := map[string]bool{}, 0
	for _, c := range reply.Copies {
		listed[c.Instance] = true
		was, known := n.next[c.Instance]
		if !known && !n.early { // it is new: read it from its start
			n.next[c.Instance], more = followedCopy{}, true
			continue
		}
		if c.Next < was.at && !c.Lost { // the agent cannot read the file
			note := ""
			if len(c.Lines) > 0 {
				note = c.Lines[0]
			}
			if note == was.note {
				continue
			}
			was.note, n.next[c.Instance] = note, was
			found = append(found, c)
			continue
		}
		n.next[c.Instance] = followedCopy{at: c.Next, ended: c.Ended && c.Next == was.at}
		for _, line := range c.Lines {
			size += len(line) + 1
		}
		if len(c.Lines) > 0 || c.Lost {
			found = append(found, c)
		}
	}
	n.early = false
	if len(n.next) > maxFollowed {
		maps.DeleteFunc(n.next, func(instance string, _ followedCopy) bool { return !listed[instance] })
	}
	return found, more || size >= LeastShare
}

type followedCopy struct {
	at    int64 // offset of the next line
	ended bool  // there are no further lines
	note  string
}

// NewFollower returns a Follower of what request selects. Of the copies that its first Read finds, it returns the last
// request.Lines lines. Of later ones it returns the whole stored output.
func NewFollower(client *Client, request LogsRequest) *Follower {
	request.After, request.Follow = nil, true
	return &Follower{client: client, request: request, nodes: map[string]*followedNode{}}
}

// Bounds of a Follower.
const (
	parallelReads = 64              // nodes at the same time
	readTimeout   = 2 * time.Second // of one node
	readRounds    = 32              // requests to one node in a Read, while it has more output
	maxFollowed   = 2048            // copies of one node: their offsets fit into a request
)
