package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	received     = 10              // messages of one answer: Amazon gives no more
	longPoll     = 20              // seconds that Amazon waits for one
	visibility   = 30              // seconds until one that is not done comes again
	released     = 3               // seconds until one that is not ours is somebody else's
	useful       = 5 * time.Minute // after that a warning is of no use to anybody
	maxBody      = 64 << 10        // bytes of one message
	pendingDone  = 256             // deletions that may wait
	pollsASecond = 4
	afterFailure = 10 * time.Second
)

// Notices gives what EC2 warns of to out until ctx ends, then it returns nil:
// the messages that EventBridge puts into the configured queue, of instances that
// the last round found in our groups. A message goes when its Done is called;
// before, it comes again. Those of other instances are left to others, and
// deleted once they are of no use. An error is that no queue is configured.
func (p *Provider) Notices(ctx context.Context, out chan<- pools.Notice) error {
	if p.cfg.Queue == "" {
		return errors.New("listen to warnings: no queue is configured")
	}
	q := &queue{p: p, done: make(chan string, pendingDone)}
	var wg sync.WaitGroup
	wg.Go(func() { q.remove(ctx) })
	defer wg.Wait()
	budget := rate.NewLimiter(pollsASecond, pollsASecond)
	for budget.Wait(ctx) == nil {
		if err := q.poll(ctx, out); err != nil && ctx.Err() == nil {
			p.log.Warn("warnings of EC2 not read", "queue", p.cfg.Queue, "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(afterFailure):
			}
		}
	}
	return nil
}

// queue is the SQS queue while it is read.
type queue struct {
	p    *Provider
	url  string      // found with the first poll
	done chan string // receipts of messages to be deleted
}

// remove deletes what is done.
func (q *queue) remove(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case receipt := <-q.done:
			if err := q.delete(ctx, receipt); err != nil && ctx.Err() == nil {
				q.p.log.Warn("warning of EC2 not deleted; it comes again", "err", err)
			}
		}
	}
}

func (q *queue) delete(ctx context.Context, receipt string) error {
	_, err := q.p.aws.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: &receipt})
	return failure("sqs:DeleteMessage", q.p.cfg.Queue, err)
}

// poll receives some messages, and gives those that are ours to out.
func (q *queue) poll(ctx context.Context, out chan<- pools.Notice) error {
	if err := q.find(ctx); err != nil {
		return err
	}
	answer, err := q.p.aws.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: received, WaitTimeSeconds: longPoll, VisibilityTimeout: visibility,
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
	})
	if err != nil {
		return failure("sqs:ReceiveMessage", q.p.cfg.Queue, err)
	}
	for _, m := range answer.Messages {
		if err := q.handle(ctx, m, out); err != nil {
			return err
		}
	}
	return nil
}

// find learns the queue's URL.
func (q *queue) find(ctx context.Context) error {
	if strings.Contains(q.p.cfg.Queue, "://") {
		q.url = q.p.cfg.Queue
	}
	if q.url != "" {
		return nil
	}
	found, err := q.p.aws.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &q.p.cfg.Queue})
	if err != nil {
		return failure("sqs:GetQueueUrl", q.p.cfg.Queue, err)
	}
	if q.url = aws.ToString(found.QueueUrl); q.url == "" {
		return failure("sqs:GetQueueUrl", q.p.cfg.Queue, errors.New("the answer has no URL"))
	}
	return nil
}

func (q *queue) handle(ctx context.Context, m sqstypes.Message, out chan<- pools.Notice) error {
	receipt := aws.ToString(m.ReceiptHandle)
	if receipt == "" {
		return nil
	}
	sent := sentAt(m, q.p.cfg.Now())
	notice, err := parseEvent(aws.ToString(m.Body))
	if err == nil {
		if _, ours := q.p.fact(notice.Instance); ours {
			return q.give(ctx, notice, sent, receipt, out)
		}
	}
	if q.p.cfg.Now().Sub(sent) <= useful {
		return q.release(ctx, receipt)
	}
	if err != nil {
		q.p.log.Warn("message in the queue of warnings is none; deleted", "queue", q.p.cfg.Queue, "err", err)
	}
	return q.delete(ctx, receipt)
}

func (q *queue) give(ctx context.Context, n pools.Notice, sent time.Time, receipt string, out chan<- pools.Notice) error {
	if n.At.IsZero() {
		n.At = sent
	}
	n.Done = func() {
		select {
		case q.done <- receipt:
		default: // it comes again, and is done again
		}
	}
	select {
	case out <- n:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release makes a message visible again soon: another pool may read the queue
// too, or our next round may find the instance.
func (q *queue) release(ctx context.Context, receipt string) error {
	_, err := q.p.aws.sqs.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: &receipt, VisibilityTimeout: released,
	})
	return failure("sqs:ChangeMessageVisibility", q.p.cfg.Queue, err)
}

// sentAt is when a message came into the queue; now if it does not say.
func sentAt(m sqstypes.Message, now time.Time) time.Time {
	ms, err := strconv.ParseInt(m.Attributes[string(sqstypes.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return now
	}
	return time.UnixMilli(ms)
}

// What EventBridge calls the two warnings.
const (
	interruptionEvent = "EC2 Spot Instance Interruption Warning"
	rebalanceEvent    = "EC2 Instance Rebalance Recommendation"
)

// parseEvent reads EventBridge's JSON of a warning.
func parseEvent(body string) (pools.Notice, error) {
	if len(body) > maxBody {
		return pools.Notice{}, fmt.Errorf("larger than %d bytes", maxBody)
	}
	var e struct {
		Type   string    `json:"detail-type"`
		Time   time.Time `json:"time"`
		Detail struct {
			Instance string `json:"instance-id"`
			Action   string `json:"instance-action"`
		} `json:"detail"`
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return pools.Notice{}, fmt.Errorf("not an event: %w", err)
	}
	n := pools.Notice{Instance: e.Detail.Instance, At: e.Time}
	switch {
	case !validID(n.Instance):
		return n, fmt.Errorf("event %.60q names no instance", e.Type)
	case e.Type == interruptionEvent:
		n.Kind, n.Why = pools.Interruption, interruptionEvent
		if e.Detail.Action != "" {
			n.Why += ": " + clip(e.Detail.Action)
		}
	case e.Type == rebalanceEvent:
		n.Kind, n.Why = pools.Rebalance, rebalanceEvent
	default:
		return n, fmt.Errorf("event %.60q is no warning", e.Type)
	}
	return n, nil
}
