package placerbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
)

// ErrSeveralSchedulers is returned if more than one program answers where the copies of a pool fit.
var ErrSeveralSchedulers = errors.New("more than one program answers where the copies of this pool fit, so no answer counts: end the one that does not hold the lease of the scheduler")

// maxAnswers bounds the answers to one question that are kept.
const maxAnswers = 4

// Questions sends the questions of one process to the scheduler of a pool. Its methods may be used concurrently.
type Questions struct {
	nc            *nats.Conn
	cluster, pool string

	mu   sync.Mutex
	last *nats.Subscription // of the answers to the latest question
}

// NewQuestions returns the questions to the scheduler of a pool.
func NewQuestions(nc *nats.Conn, cluster, pool string) *Questions {
	return &Questions{nc: nc, cluster: cluster, pool: pool}
}

// Get requests from the scheduler where its copies fit, and validates the answer. Without a scheduler that has this part of the
// protocol, the error is nats.ErrNoResponders. If the question before was answered twice, it is ErrSeveralSchedulers.
func (s *Questions) Get(ctx context.Context, q api.PlacesQuestion) (api.Places, error) {
	var body json.RawMessage
	answers, err := call.RequestKept(ctx, s.nc, message.PlacesSubject(s.cluster, s.pool), q, &body)
	several := s.keep(answers)
	if err == nil && several {
		err = ErrSeveralSchedulers
	}
	if err != nil {
		return api.Places{}, fmt.Errorf("get the places of pool %s: %w", s.pool, err)
	}
	p, err := api.DecodePlaces(body, q)
	if err != nil {
		return api.Places{}, fmt.Errorf("get the places of pool %s: invalid answer of its scheduler: %w", s.pool, err)
	}
	return p, nil
}

// keep keeps the answers to a question until the next one. It reports whether the question before, or this one so far, has more
// than one answer.
func (s *Questions) keep(answers *nats.Subscription) (several bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answers != nil {
		_ = answers.SetPendingLimits(maxAnswers, maxAnswers*api.MaxPlacesBytes) // fails only for a closed one
	}
	for _, all := range []*nats.Subscription{s.last, answers} {
		if all != nil {
			more, _, _ := all.Pending()
			several = several || more > 0
		}
	}
	if s.last != nil {
		_ = s.last.Unsubscribe() // fails only without a connection, which ends it too
	}
	s.last = answers
	return several
}

// GetPlaces sends one question, as Get of Questions.
func GetPlaces(ctx context.Context, nc *nats.Conn, cluster, pool string, q api.PlacesQuestion) (api.Places, error) {
	s := NewQuestions(nc, cluster, pool)
	defer s.keep(nil)
	return s.Get(ctx, q)
}
