package aws

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	received     = 10              // messages of one response, the maximum at AWS.
	longPoll     = 20              // seconds that AWS waits for a message.
	visibility   = 30              // seconds after which a message that is not done is received again.
	released     = 3               // seconds after which another pool may receive a message.
	useful       = 5 * time.Minute // age after which a warning is useless.
	hinting      = time.Minute     // age after which a hint is useless.
	maxBody      = 64 << 10        // bytes of one message.
	pendingDone  = 256             // capacity of the channel of deletions.
	maxHintIDs   = 1000            // number of hints by which a repeated hint is detected.
	pollsASecond = 4
	// After a failed poll the next one waits, twice as long each time.
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
)

// ReceiveNotices receives EventBridge events from the configured queue until ctx ends, and then returns nil.
// It selects events about instances that the latest read found in the pool's groups. Without a
// configured queue it returns an error.
//
// EC2's warnings go to warnings. The message is deleted when Done is called. Until then the queue
// repeats it. If warnings is nil, warnings go to hints.
//
// Other events go to hints, as pools.Hint: a changed state, a launch or termination by the group,
// an incident of AWS Health. Each hint is sent once, and dropped if the channel is not ready. Its
// Done does nothing. hints may be nil.
//
// Messages about other instances stay in the queue for other pools, and are deleted when they are
// useless.
func (p *Provider) ReceiveNotices(ctx context.Context, warnings, hints chan<- pools.Notice) error {
	if p.cfg.Queue == "" {
		return errors.New("receive warnings: no queue is configured")
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
		p.log.Warn("EC2 warnings not received", "queue", p.cfg.Queue, "err", err)
		_ = retry.Pause(ctx, pause) // budget.Wait returns the end of ctx
		pause = min(2*pause, maxPause)
	}
	return nil
}

// queueFailures are the kinds of calls to the queue that failed last time.
type queueFailures struct {
	mu  sync.Mutex
	err map[string]error // by action
	at  map[string]time.Time
}

// queueTimeout bounds a call to the queue, beside the time that the queue waits for a message.
const queueTimeout = 10 * time.Second

// failureCounts is how long a failure counts that no later call confirms or ends, as of a message that another pool took.
const failureCounts = 5 * time.Minute

// result records the result of a call, and returns its error.
func (f *queueFailures) result(now time.Time, action, queue string, err error) error {
	err = failure(action, queue, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err, f.at = map[string]error{}, map[string]time.Time{}
	}
	f.err[action], f.at[action] = err, now
	return err
}

// current returns the failures that count, by action.
func (f *queueFailures) current(now time.Time) map[string]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := maps.Clone(f.err)
	maps.DeleteFunc(out, func(action string, err error) bool { return err == nil || now.Sub(f.at[action]) > failureCounts })
	return out
}

// result records the result of a call to the queue, and returns its error. A call that ended with the process is not a failure.
func (q *queue) result(ctx context.Context, action string, err error) error {
	if ctx.Err() != nil {
		return failure(action, q.p.cfg.Queue, err)
	}
	return q.p.queueFailures.result(q.p.cfg.Now(), action, q.p.cfg.Queue, err)
}

// queue is the SQS queue during ReceiveNotices.
type queue struct {
	p    *Provider
	url  string      // set by the first poll
	done chan string // receipts of messages to delete
	// failed: the last message could not be received.
	failed bool

	warnings, hints chan<- pools.Notice
	reported        []string // ids of the latest hints, oldest first
}

// remove deletes messages that are done.
func (q *queue) remove(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case receipt := <-q.done:
			if err := q.delete(ctx, receipt); err != nil && ctx.Err() == nil {
				q.p.log.Warn("EC2 warning not deleted; the queue repeats it", "err", err)
			}
		}
	}
}

func (q *queue) delete(ctx context.Context, receipt string) error {
	call, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	_, err := q.p.aws.sqs.DeleteMessage(call, &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: &receipt})
	return q.result(ctx, "sqs:DeleteMessage", err)
}

// poll receives some messages, and forwards those about the pool's instances. A failed message does
// not block the others, and is received again after its visibility timeout.
func (q *queue) poll(ctx context.Context) error {
	if err := q.find(ctx); err != nil {
		return err
	}
	wait := int32(longPoll)
	if q.failed {
		wait = 0 // so that the end of the failure is known at once
	}
	call, cancel := context.WithTimeout(ctx, longPoll*time.Second+queueTimeout)
	defer cancel()
	answer, err := q.p.aws.sqs.ReceiveMessage(call, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: received, WaitTimeSeconds: wait, VisibilityTimeout: visibility,
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
	})
	q.failed = err != nil
	if err := q.result(ctx, "sqs:ReceiveMessage", err); err != nil {
		return err
	}
	var errs []error
	for _, m := range answer.Messages {
		errs = append(errs, q.handle(ctx, m))
	}
	return errors.Join(errs...)
}

// find finds the queue's URL.
func (q *queue) find(ctx context.Context) error {
	if strings.Contains(q.p.cfg.Queue, "://") {
		q.url = q.p.cfg.Queue
	}
	if q.url != "" {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	found, err := q.p.aws.sqs.GetQueueUrl(call, &sqs.GetQueueUrlInput{QueueName: &q.p.cfg.Queue})
	if err == nil && aws.ToString(found.QueueUrl) == "" {
		err = errors.New("the response has no URL")
	}
	if err := q.result(ctx, "sqs:GetQueueUrl", err); err != nil {
		return err
	}
	q.url = aws.ToString(found.QueueUrl)
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
		return nil // there are many; the queue repeats it
	case errors.Is(err, errNoInstance): // AWS Health sends many
	case (err != nil || e.kind != pools.Hint) && age <= useful:
		return q.release(ctx, receipt)
	case err != nil:
		q.p.log.Warn("unrecognized SQS message deleted", "queue", q.p.cfg.Queue, "err", err)
	}
	return q.delete(ctx, receipt)
}

// give forwards an event about instances of the pool.
func (q *queue) give(ctx context.Context, e event, ours []string, receipt string) error {
	done := func() {
		select {
		case q.done <- receipt:
		default: // the queue repeats it, and it is done then
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
	select { // a warning has one instance
	case q.warnings <- pools.Notice{Instance: ours[0], Kind: e.kind, At: e.at, Why: e.why, Done: done}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hint sends a hint about the instances once. It drops the hint if the channel is not ready.
func (q *queue) hint(e event, ours []string) {
	if e.id != "" {
		if slices.Contains(q.reported, e.id) {
			return
		}
		q.reported = append(q.reported, e.id)
		q.reported = q.reported[max(0, len(q.reported)-maxHintIDs):]
	}
	for _, id := range ours {
		select {
		case q.hints <- pools.Notice{Instance: id, Kind: pools.Hint, At: e.at, Why: e.why, Done: func() {}}:
		default: // a poll of the health finds the change
		}
	}
}

// release makes a message visible again soon. Another pool may receive it, or the next read may
// find the instance.
func (q *queue) release(ctx context.Context, receipt string) error {
	call, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	_, err := q.p.aws.sqs.ChangeMessageVisibility(call, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: &receipt, VisibilityTimeout: released,
	})
	return q.result(ctx, "sqs:ChangeMessageVisibility", err)
}

// sentAt returns when the queue received a message, or now if that is missing.
func sentAt(m sqstypes.Message, now time.Time) time.Time {
	ms, err := strconv.ParseInt(m.Attributes[string(sqstypes.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return now
	}
	return time.UnixMilli(ms)
}
