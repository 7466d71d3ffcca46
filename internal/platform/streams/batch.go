package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// Request requests the messages of a stream from a sequence number or from a time on.
type Request struct {
	Sequence uint64     `json:"seq,omitempty"`
	Since    *time.Time `json:"start_time,omitempty"`
	Subject  string     `json:"next_by_subj"` // may have wildcards
	Count    int        `json:"batch"`        // at most so many messages
	// Bytes bounds the answer: the server ends it with the first message beyond them. 0: its own limit.
	Bytes int `json:"max_bytes,omitempty"`
}

// replicaPause is the pause before the next request to a replica that lags.
const replicaPause = 50 * time.Millisecond

// Statuses of answers without a message.
const (
	statusEnd  = "204" // the batch is complete
	statusNone = "404" // no message is left
)

// Batch returns the messages of one request, in order, and how many follow them in the stream. Any replica answers, also one that lags
// behind the leader. A user with the permission for it reads all subjects of the stream.
func Batch(ctx context.Context, js jetstream.JetStream, stream string, r Request) (messages []bus.Stored, pending uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	data, err := json.Marshal(r)
	if err != nil {
		return nil, 0, err
	}
	api := "$JS.API.DIRECT.GET." + stream
	next := r.Sequence
	err = bus.Replies(ctx, js.Conn(), api, data, func(m *nats.Msg) (bool, error) {
		one, status, err := bus.ReadStored(m)
		switch {
		case err != nil:
			return false, err
		case status == statusEnd:
			pending, err = strconv.ParseUint(m.Header.Get("Nats-Num-Pending"), 10, 64)
			return false, err
		case status == statusNone:
			return false, nil
		case status != "":
			return false, fmt.Errorf("the server answers with status %.80q %.80q", status, m.Header.Get("Description"))
		case len(messages) == r.Count:
			return false, fmt.Errorf("the server answers with more than %d messages", r.Count)
		case one.Sequence < next:
			return false, fmt.Errorf("the server answers with sequence number %d after %d", one.Sequence, next)
		}
		next = one.Sequence + 1
		messages = append(messages, one)
		return true, nil
	})
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("read stream %s: %w", stream, missing(ctx, js, stream, err))
	} else if err != nil {
		err = kvbucket.Explain(js.Conn(), api, err)
	}
	return messages, pending, err
}

// Last returns the newest message of a subject that a replica has. found is false without one, and without the stream.
func Last(ctx context.Context, js jetstream.JetStream, stream, subject string) (last bus.Stored, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	data, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return bus.Stored{}, false, err
	}
	api := "$JS.API.DIRECT.GET." + stream
	m, err := bus.Request(ctx, js.Conn(), api, data)
	if errors.Is(err, nats.ErrNoResponders) {
		return bus.Stored{}, false, nil
	}
	if err != nil {
		return bus.Stored{}, false, kvbucket.Explain(js.Conn(), api, err)
	}
	last, status, err := bus.ReadStored(m)
	return last, err == nil && status == "", err
}

// missing returns why no server answers.
func missing(ctx context.Context, js jetstream.JetStream, stream string, err error) error {
	if _, why := js.Stream(ctx, stream); why != nil {
		return kvbucket.Explain(js.Conn(), "$JS.API.STREAM.INFO."+stream, why)
	}
	return fmt.Errorf("%w: check its leader, and that it allows direct gets: %w", kvbucket.ErrNoAnswer, err)
}

// AwaitReplica waits until a replica that answers has the message with that sequence number, or a later one. ended reports
// whether the stream no longer has any.
func AwaitReplica(ctx context.Context, js jetstream.JetStream, stream string, sequence uint64, ended func() bool) error {
	for {
		messages, _, err := Batch(ctx, js, stream, Request{Sequence: sequence, Subject: ">", Count: 1})
		if err != nil || len(messages) > 0 || ended() {
			return err
		}
		if !retry.Pause(ctx, replicaPause) {
			return fmt.Errorf("the replica that answers lacks message %d, which the leader has: %w", sequence, context.Cause(ctx))
		}
	}
}
