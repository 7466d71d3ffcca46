package agent

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
)

// Bounds of requests for output.
const (
	parallelLogs = 4    // requests at the same time
	maxAfter     = 4096 // offsets in a request
)

// checkLogs returns an error for an invalid request.
func checkLogs(r wire.LogsRequest) error {
	if r.App == "" || r.Lines < 0 || r.Lines > wire.MaxLogLines || len(r.After) > maxAfter {
		return call.Invalid("want an app, 0 to %d lines, and at most %d offsets", wire.MaxLogLines, maxAfter)
	}
	return nil
}

// logs returns the copies that r selects, the newest last, without their output.
func (m *machine) logs(r wire.LogsRequest) []wire.CopyLog {
	live := slices.SortedFunc(maps.Values(m.copies), func(a, b *copyOf) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.Index, b.Index))
	})
	out := []wire.CopyLog{}
	for _, c := range slices.Concat(m.ended, live) {
		if c.App == r.App && (r.Index == nil || *r.Index == c.Index) {
			_, isLive := m.copies[c.Instance]
			out = append(out, wire.CopyLog{Instance: c.Instance, Version: c.Version, Index: c.Index, Ended: !isLive, Lines: []string{}})
		}
	}
	return out
}

// answerLogs responds to a request for output beside the loop, because a disk may hang.
func (a *Agent) answerLogs(m *nats.Msg) error {
	var r wire.LogsRequest
	if err := call.Decode(m.Data, wire.MaxRequest, &r); err != nil {
		return err
	}
	if err := checkLogs(r); err != nil {
		return err
	}
	copies := a.machine.logs(r)
	select {
	case a.reading <- struct{}{}:
	default:
		return &call.Error{Code: wire.CodeBusy, Message: "node " + a.cfg.ID + " answers other requests for output: repeat the request"}
	}
	a.wg.Go(func() {
		defer func() { <-a.reading }()
		a.respond(m, readLogs(a.cfg.DataDir, r, copies), nil)
	})
	return nil
}

// readLogs adds the output to the selected copies. If not all of it fits into a message, the newest copies have
// priority. A copy that does not fit is missing.
func readLogs(dataDir string, r wire.LogsRequest, copies []wire.CopyLog) wire.LogsReply {
	reply := wire.LogsReply{Copies: []wire.CopyLog{}}
	limit, share := replyLogs, replyLogs
	if len(r.After) > 0 {
		share = max(wire.LeastShare, replyLogs/max(1, len(copies)))
	}
	for _, c := range slices.Backward(copies) {
		path, most := outputPath(dataDir, c.Instance), min(limit, share)
		if most <= 0 {
			continue
		}
		var x excerpt
		var err error
		if from, ok := r.After[c.Instance]; ok {
			x, err = readOutput(path, part{from: max(0, from), limit: most, whole: c.Ended})
		} else {
			x, err = lastLines(path, r.Lines, part{limit: most, whole: c.Ended || !r.Follow}, c.Ended)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the output of an ended copy may just be removed
			x.lines = []string{"[output not readable: " + err.Error() + "]"}
		}
		for _, l := range x.lines {
			limit -= len(l) + 1
		}
		c.Lines, c.Next, c.Lost = append(c.Lines, x.lines...), x.next, x.lost
		reply.Copies = append(reply.Copies, c)
	}
	slices.Reverse(reply.Copies)
	return reply
}
