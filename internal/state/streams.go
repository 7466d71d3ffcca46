package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// placementWait is the pause between two attempts to create a stream in a cluster that has just started.
	placementWait = 250 * time.Millisecond
	// Error codes of JetStream.
	codeNoPeers   jetstream.ErrorCode = 10005 // no server has space for a replica, or the cluster has just started
	codeStorage   jetstream.ErrorCode = 10047
	codeSingle    jetstream.ErrorCode = 10074  // a single server has one replica
	codeOther     jetstream.ErrorCode = 10060  // another stream than the expected one has the subject
	codeInProcess jetstream.ErrorCode = 10158  // the server stores a message with the same id at this time
	maxListedName                     = 10_000 // streams of one listing
)

// streamAway reports whether a publication failed because its stream is missing, or because its replicas elect a
// leader. The message is not stored.
func streamAway(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || hasCode(err, codeOther)
}

// EnsureStream returns the stream of that configuration, and creates it if it is missing. An existing stream keeps its
// settings.
func EnsureStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (jetstream.Stream, error) {
	for {
		stream, err := js.Stream(ctx, c.Name)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return stream, err
		}
		stream, err = js.CreateStream(ctx, c)
		switch {
		case err == nil:
			return stream, nil
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another process was faster, with other settings
		case hasCode(err, codeNoPeers):
		default:
			return nil, explainCreate(err)
		}
		if !pause(ctx, placementWait) {
			return nil, explainCreate(err)
		}
	}
}

// explainCreate adds to the server's refusal of a new stream what an operator can do.
func explainCreate(err error) error {
	switch {
	case hasCode(err, codeNoPeers), hasCode(err, codeSingle):
		return fmt.Errorf("%w: start the other servers of the NATS cluster, or lower nats.replicas", err)
	case hasCode(err, codeStorage):
		return fmt.Errorf("%w: its max_bytes are reserved; lower max_bytes, or raise max_file_store of the NATS servers", err)
	}
	return err
}

func hasCode(err error, code jetstream.ErrorCode) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}

// pause waits, and returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// lockedStream returns a configuration of a stream that no client can purge or rewrite.
func lockedStream(name, description string, replicas int, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Subjects: subjects, Replicas: max(replicas, 1),
		Discard: jetstream.DiscardOld, AllowDirect: true, DenyPurge: true, DenyDelete: true,
	}
}
