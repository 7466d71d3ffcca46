package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/report"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

const (
	answerTimeout = 2 * time.Second // timeout of the requesters
	// followerDelay is how long a follower waits with its answer, so that the leader answers
	// first.
	followerDelay = 300 * time.Millisecond
	// answerers is the number of requests answered at once; more wait.
	answerers = 32
	// maxQuery bounds a status request or an order, in bytes.
	maxQuery = 4096
)

// responder answers requests with results of the handler.
type responder struct {
	nc      *nats.Conn
	cfg     Config
	tally   *tally
	handler harmonizer.Handler
}

func (r *responder) subjects() []string {
	c := r.cfg.Cluster
	own := []string{message.CountsRequestSubject(c, "*"), message.StatusSubject(c), message.OrderSubject(c)}
	return append(own, r.cfg.CloudFoundry.RequestSubjects()...)
}

// answerAll answers until ctx ends, and returns after the last answer.
func (r *responder) answerAll(ctx context.Context, requests *bus.Inbox) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range answerers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case m := <-requests.Messages():
					if err := r.answer(ctx, m); err != nil && ctx.Err() == nil {
						r.tally.warn("unanswered", "request not answered", err)
					}
				}
			}
		})
	}
}

func (r *responder) answer(ctx context.Context, m *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answers, err := r.answers(ctx, m)
	if errors.Is(err, harmonizer.ErrShadow) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("answer %s: %w", m.Subject, err)
	}
	var errs []error // if one is too long, the others are still sent
	for _, data := range answers {
		if err := bus.Respond(r.nc, m, data); err != nil {
			errs = append(errs, fmt.Errorf("answer %s: %w", m.Subject, err))
		}
	}
	return errors.Join(errs...)
}

// answers returns the answers, one message each.
func (r *responder) answers(ctx context.Context, m *nats.Msg) ([][]byte, error) {
	switch m.Subject {
	case report.SubjectStatus, report.SubjectHealth, report.SubjectDroplet:
		answers, err := r.handler.Report(ctx, m.Subject, m.Data)
		if err != nil && ctx.Err() == nil {
			r.tally.countMalformed(m.Subject, err)
			return nil, nil
		}
		return answers, err
	case cloudfoundry.SubjectComponentDiscover:
		return encoded(r.cfg.CloudFoundry.Component.Descriptor(time.Now()), nil)
	}
	if !r.handler.Leading() {
		if !retry.Pause(ctx, followerDelay) {
			return nil, ctx.Err()
		}
	}
	switch m.Subject {
	case message.StatusSubject(r.cfg.Cluster):
		return encoded(r.status(ctx, m.Data))
	case message.OrderSubject(r.cfg.Cluster):
		return encoded(r.order(ctx, m.Data), nil)
	}
	pool := strings.TrimSuffix(strings.TrimPrefix(m.Subject, message.CountsSubject(r.cfg.Cluster, "")), ".get")
	return r.counts(ctx, pool)
}

func (r *responder) counts(ctx context.Context, pool string) ([][]byte, error) {
	whole, err := r.handler.Counts(ctx, pool)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, part := range message.SplitCounts(whole, message.MaxCountApps) {
		data, err := encoded(part, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, data...)
	}
	return out, nil
}

func (r *responder) status(ctx context.Context, query []byte) (api.HarmonizerStatus, error) {
	var q api.HarmonizerQuery
	if err := strictjson.Request(query, maxQuery, &q); err != nil {
		return api.HarmonizerStatus{}, err
	}
	s, err := r.handler.Status(ctx, q)
	if err == nil {
		s.Counters = maps.Clone(s.Counters)
		maps.Copy(s.Counters, r.tally.snapshot())
	}
	return s, err
}

// order always returns an answer, because an operator waits for it.
func (r *responder) order(ctx context.Context, query []byte) api.HarmonizerOrderAnswer {
	var o api.HarmonizerOrder
	err := strictjson.Request(query, maxQuery, &o)
	if err == nil {
		err = r.handler.Order(ctx, o)
	}
	if nothing := errors.Is(err, harmonizer.ErrNothing); err == nil || nothing {
		return api.HarmonizerOrderAnswer{OK: true, Nothing: nothing}
	}
	return api.HarmonizerOrderAnswer{Error: err.Error()}
}

func encoded(v any, err error) ([][]byte, error) {
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return [][]byte{data}, nil
}
