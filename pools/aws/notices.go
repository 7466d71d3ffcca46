package aws

import (
	"context"
	"errors"
	"slices"
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
	hinting      = time.Minute     // after that a hint is
	maxBody      = 64 << 10        // bytes of one message
	pendingDone  = 256             // deletions that may wait
	remembers    = 1000            // hints by which one that comes again is known
	pollsASecond = 4
	// After a failed poll the next one waits: a moment, and twice as long each time.
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Hear gives what EventBridge puts into the configured queue, of instances that the
// last round found in our groups, until ctx ends; then it returns nil.
//
// What EC2 warns of goes to warnings. A message goes when its Done is called;
// before, it comes again. Without warnings they are hints.
//
// Other events of an instance's life (its state changed, its group launched or
// ended it, AWS Health knows of an incident) go to hints, as pools.Hint: that
// something is to be looked at. Each is given once, and lost if nobody takes it
// from the channel at once; its Done does nothing. hints may be nil.
//
// Messages of other instances are left to others, and deleted once they are of no
// use. An error is that no queue is configured.
func (p *Provider) Hear(ctx context.Context, warnings, hints chan<- pools.Notice) error {
	if p.cfg.Queue == "" {
		return errors.New("listen to warnings: no queue is configured")
	}
	q := &queue{p: p, warnings: warnings, hints: hints, done: make(chan string, pendingDone)}
	var wg sync.WaitGroup
	wg.Go(func() { q.remove(ctx) })
	defer wg.Wait()
	budget := rate.NewLimiter(pollsASecond, pollsASecond)
	pause := firstPause
	for budget.Wait(ctx) == nil {
		err := q.poll(ctx)
		if err == nil || ctx.Err() != nil {
			pause = firstPause
			continue
		}
		p.log.Warn("warnings of EC2 not read", "queue", p.cfg.Queue, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
	return nil
}

// queue is the SQS queue while it is read.
type queue struct {
	p    *Provider
	url  string      // found with the first poll
	done chan string // receipts of messages to be deleted

	warnings, hints chan<- pools.Notice
	told            []string // ids of the last hints, the oldest first
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

// poll receives some messages, and gives on those that are ours. A message that
// fails holds up no other: until its visibility timeout ends none comes again.
func (q *queue) poll(ctx context.Context) error {
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
	var errs []error
	for _, m := range answer.Messages {
		errs = append(errs, q.handle(ctx, m))
	}
	return errors.Join(errs...)
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

func (q *queue) handle(ctx context.Context, m sqstypes.Message) error {
	receipt := aws.ToString(m.ReceiptHandle)
	if receipt == "" {
		return nil
	}
	sent := sentAt(m, q.p.cfg.Now())
	age := q.p.cfg.Now().Sub(sent)
	e, err := parseEvent(aws.ToString(m.Body))
	if e.at.IsZero() {
		e.at = sent
	}
	ours := slices.DeleteFunc(slices.Clone(e.instances), func(id string) bool {
		_, known := q.p.fact(id)
		return !known
	})
	switch {
	case err == nil && len(ours) > 0:
		return q.give(ctx, e, ours, receipt)
	case err == nil && e.kind == pools.Hint && age <= hinting:
		return nil // there are many; it comes again by itself
	case errors.Is(err, errNoInstance): // as AWS Health has many; nobody waits for it
	case (err != nil || e.kind != pools.Hint) && age <= useful:
		return q.release(ctx, receipt)
	case err != nil:
		q.p.log.Warn("message in the queue of warnings is none; deleted", "queue", q.p.cfg.Queue, "err", err)
	}
	return q.delete(ctx, receipt)
}

// give gives on an event of instances that are ours.
func (q *queue) give(ctx context.Context, e event, ours []string, receipt string) error {
	done := func() {
		select {
		case q.done <- receipt:
		default: // it comes again, and is done again
		}
	}
	if e.kind == pools.Interruption {
		q.p.reclaim(ours)
	}
	if e.kind == pools.Hint || q.warnings == nil {
		q.hint(e, ours)
		done()
		return nil
	}
	select { // a warning is of one instance
	case q.warnings <- pools.Notice{Instance: ours[0], Kind: e.kind, At: e.at, Why: e.why, Done: done}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hint tells once that instances may have changed, to who listens now.
func (q *queue) hint(e event, ours []string) {
	if e.id != "" {
		if slices.Contains(q.told, e.id) {
			return
		}
		q.told = append(q.told, e.id)
		q.told = q.told[max(0, len(q.told)-remembers):]
	}
	for _, id := range ours {
		select {
		case q.hints <- pools.Notice{Instance: id, Kind: pools.Hint, At: e.at, Why: e.why, Done: func() {}}:
		default: // who polls finds it
		}
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
