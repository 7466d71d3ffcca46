package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Bounds of the evidence of a pool. Beyond them, NATS removes the oldest.
const (
	evidenceMaxAge  = 14 * 24 * time.Hour
	evidenceOfNode  = 4        // objects of one node
	evidenceMax     = 2000     // objects
	evidenceBytes   = 64 << 20 // of all objects, with their headers
	maxEvidence     = 192 << 10
	evidenceHeaders = 4 << 10
	maxEvidenceNode = 256 // bytes of the name of a node
)

// Evidence stores facts about the machines of one pool before they are replaced or rebuilt. It is safe for concurrent
// use, also without the pool's lease.
type Evidence struct {
	js      jetstream.JetStream
	config  jetstream.StreamConfig
	subject string // without the node
}

// NewEvidence returns the evidence of a pool. It sends no request. A new stream has that number of replicas; 0 is 1.
func NewEvidence(js jetstream.JetStream, cluster, pool string, replicas int) (*Evidence, error) {
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	return &Evidence{js, EvidenceStream(cluster, pool, replicas), names.Subject(cluster, "evidence", pool)}, nil
}

// Save stores an object of at most 192 KiB and returns its name, "NODE/NUMBER". It creates a missing stream. An
// existing stream keeps its settings.
func (e *Evidence) Save(ctx context.Context, node string, data []byte) (name string, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	subject, err := e.subjectOf(node)
	if err == nil && len(data) > maxEvidence {
		err = fmt.Errorf("it has %d bytes, at most %d", len(data), maxEvidence)
	}
	if err != nil {
		return "", fmt.Errorf("save evidence of node %.100s: %w", node, err)
	}
	expected := jetstream.WithExpectStream(e.config.Name)
	ack, err := e.js.Publish(ctx, subject, data, expected)
	if streamAway(err) {
		if _, err = EnsureStream(ctx, e.js, e.config); err == nil {
			ack, err = e.js.Publish(ctx, subject, data, expected)
		}
	}
	if err != nil {
		return "", fmt.Errorf("save evidence of node %s: %w", node, err)
	}
	return fmt.Sprintf("%s/%d", node, ack.Sequence), nil
}

// Load calls visit with each object of a node and its name, oldest first. An error of visit stops it.
func (e *Evidence) Load(ctx context.Context, node string, visit func(name string, data []byte) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	subject, err := e.subjectOf(node)
	if err != nil {
		return fmt.Errorf("read evidence of node %.100s: %w", node, err)
	}
	stream, err := e.js.Stream(ctx, e.config.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	for sequence := uint64(1); err == nil; sequence++ {
		var m *jetstream.RawStreamMsg
		m, err = stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
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
	stream, err := e.js.Stream(ctx, e.config.Name)
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

// EvidenceStream returns the configuration of a new stream of a pool's evidence.
func EvidenceStream(cluster, pool string, replicas int) jetstream.StreamConfig {
	c := lockedStream(names.EvidenceStream(cluster, pool), "evidence about machines of pool "+pool+" before they are replaced or rebuilt",
		replicas, names.Subject(cluster, "evidence", pool, "*"))
	c.MaxAge, c.MaxBytes, c.MaxMsgs, c.MaxMsgsPerSubject = evidenceMaxAge, evidenceBytes, evidenceMax, evidenceOfNode
	c.MaxMsgSize = maxEvidence + evidenceHeaders
	return c
}
