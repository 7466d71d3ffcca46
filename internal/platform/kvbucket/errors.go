package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrMissing: the stream, or that of the bucket, does not exist. No daemon creates it.
	ErrMissing = errors.New("it does not exist: \"weir nats streams\" creates it")
	// ErrNoQuorum: too few servers of the NATS cluster are up. Nothing was created, and no read is proof.
	ErrNoQuorum = errors.New("the NATS cluster has no quorum: start its other servers")
	// ErrNoPermission: the user of this connection must not make the request.
	ErrNoPermission = errors.New("no permission: give the user of this process the permissions of its role, which \"weir nats init\" prints")
	// ErrNoAnswer: NATS does not answer. A leader is being elected, or the request is not permitted.
	ErrNoAnswer = errors.New("NATS does not answer")
	// errNoStorage: the servers of the NATS cluster cannot reserve the bytes of a new stream.
	errNoStorage = errors.New("the NATS servers have too little free storage for the max_bytes of the stream: free disk space, raise jetstream.max_file_store, or lower ledger.max_bytes and ledger.summaries of the pool file")
	// ErrNoPeers: too few servers of the NATS cluster can store a new bucket.
	ErrNoPeers = errors.New("the NATS cluster has too few servers for the replicas: start its other servers, or lower nats.replicas")
	// errSingle: a single NATS server cannot store several replicas.
	errSingle = errors.New("a single NATS server has one replica: configure a cluster, or lower nats.replicas")
	// ErrUnknown: a write has no answer. It may be applied, now or later: read the key again.
	ErrUnknown = errors.New("the write has no answer, so its result is unknown")
	// ErrForged: another client made the server store the value.
	ErrForged = errors.New("its value does not come from its owner")
	// ErrDamaged: the store lists the key and cannot read its value.
	ErrDamaged = errors.New("the store cannot read its value: its file is damaged")
)

// Error codes of JetStream without a name in the client library.
const (
	codeNoPeers       jetstream.ErrorCode = 10005 // no suitable peers for placement
	codeStorage       jetstream.ErrorCode = 10047 // insufficient storage resources available
	codeSingle        jetstream.ErrorCode = 10074 // replicas > 1 not supported in non-clustered mode
	codeNotAvailable  jetstream.ErrorCode = 10008 // JetStream system temporarily unavailable
	codeStreamOffline jetstream.ErrorCode = 10118
	unavailable                           = 503
)

// Unavailable reports whether an error comes from an unavailable NATS, so that the same call may succeed later.
func Unavailable(err error) bool {
	for _, is := range []error{
		ErrMissing, ErrNoQuorum, ErrNoPeers, errNoStorage, ErrNoAnswer, ErrUnknown, context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders,
		nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// Explain adds to an error of a request which of the package's errors it is. Other errors are returned unchanged.
func Explain(conn *nats.Conn, subject string, err error) error {
	api, isAPI := errors.AsType[*jetstream.APIError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrBucketNotFound):
		return fmt.Errorf("%w (%w)", ErrMissing, err)
	case isAPI && (api.ErrorCode == codeNotAvailable || api.ErrorCode == codeStreamOffline):
		return fmt.Errorf("%w (%s)", ErrNoQuorum, api.Description)
	case isAPI && (api.ErrorCode == codeStorage || api.ErrorCode == codeNoPeers && strings.Contains(api.Description, "insufficient storage")):
		return fmt.Errorf("%w (%s)", errNoStorage, api.Description)
	case isAPI && api.ErrorCode == codeNoPeers:
		return fmt.Errorf("%w (%s)", ErrNoPeers, api.Description)
	case isAPI && api.ErrorCode == codeSingle:
		return fmt.Errorf("%w (%s)", errSingle, api.Description)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		if violation := violationOf(conn, subject); violation != nil {
			return fmt.Errorf("%w (%w)", ErrNoPermission, violation)
		}
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("%w (%w)", ErrNoPermission, err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse), isAPI && api.Code == unavailable:
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return err
}

// violationOf returns the server's last refusal of a subject on the connection, nil without one.
func violationOf(conn *nats.Conn, subject string) error {
	last := conn.LastError()
	if errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(last.Error()), strings.ToLower(subject)) {
		return last
	}
	return nil
}
