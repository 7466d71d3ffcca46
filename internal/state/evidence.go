package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

// maxEvidenceNode bounds the name of a node, in bytes.
const maxEvidenceNode = 256

// Evidence stores facts about the machines of one pool before they are replaced or rebuilt. It is safe for concurrent
// use, also without the pool's lease.
type Evidence struct {
	js      jetstream.JetStream
	name    string // of the stream
	subject string // without the node
}

// NewEvidence returns the evidence of a pool. It sends no request.
func NewEvidence(js jetstream.JetStream, cluster, pool string) (*Evidence, error) {
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	return &Evidence{js, names.EvidenceStream(cluster, pool), names.Subject(cluster, "evidence", pool)}, nil
}

// Save stores an object of at most 192 KiB and returns its name, "NODE/NUMBER".
func (e *Evidence) Save(ctx context.Context, node string, data []byte) (name string, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	subject, err := e.subjectOf(node)
	if err == nil && len(data) > streams.MaxEvidence {
		err = fmt.Errorf("it has %d bytes, at most %d", len(data), streams.MaxEvidence)
	}
	if err != nil {
		return "", fmt.Errorf("save evidence of node %.100s: %w", node, err)
	}
	ack, err := e.js.Publish(ctx, subject, data, jetstream.WithExpectStream(e.name))
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		err = errors.Join(e.Check(ctx), err)
	}
	if err != nil {
		return "", fmt.Errorf("save evidence of node %s: %w", node, err)
	}
	return fmt.Sprintf("%s/%d", node, ack.Sequence), nil
}

// Check returns kvbucket.ErrMissing if the stream is missing.
func (e *Evidence) Check(ctx context.Context) error { return checkStream(ctx, e.js, e.name) }

// Load calls visit with each object of a node and its name, oldest first. An error of visit stops it.
func (e *Evidence) Load(ctx context.Context, node string, visit func(name string, data []byte) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	subject, err := e.subjectOf(node)
	if err != nil {
		return fmt.Errorf("read evidence of node %.100s: %w", node, err)
	}
	stream, err := e.js.Stream(ctx, e.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	for sequence := uint64(1); err == nil; sequence++ {
		var m *jetstream.RawStreamMsg
		m, err = stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil && bus.IsForged(m.Header) {
			sequence, err = max(sequence, m.Sequence), nil
			continue
		}
		if err == nil {
			sequence = m.Sequence
			err = visit(fmt.Sprintf("%s/%d", node, m.Sequence), m.Data)
		}
	}
	return fmt.Errorf("read evidence of node %s: %w", node, err)
}

// Nodes returns the nodes with evidence, sorted. A character of a name that no NATS subject has is an underscore.
func (e *Evidence) Nodes(ctx context.Context) (nodes []string, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stream, err := e.js.Stream(ctx, e.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(e.subject+".*"))
	}
	if err != nil {
		return nil, fmt.Errorf("list the nodes with evidence: %w", err)
	}
	for subject := range info.State.Subjects {
		nodes = append(nodes, strings.TrimPrefix(subject, e.subject+"."))
	}
	slices.Sort(nodes)
	return nodes, nil
}

// subjectOf returns the subject of a node.
func (e *Evidence) subjectOf(node string) (string, error) {
	if node == "" || len(node) > maxEvidenceNode || strings.ContainsAny(node, " \t\r\n") {
		return "", fmt.Errorf("its name has %d bytes or white space: want 1 to %d without white space", len(node), maxEvidenceNode)
	}
	return e.subject + "." + names.Token(node), nil
}
