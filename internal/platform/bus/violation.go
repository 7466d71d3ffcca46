package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Violation is the error of a call that the permissions of this user reject. A server answers such a request with an
// error on the connection, never with a response. It wraps nats.ErrPermissionViolation.
type Violation struct {
	Op      string // "publish" or "subscribe"
	Subject string
	User    string // how this process authenticates
}

func (v *Violation) Error() string {
	remedy := "give its role this permission, or use credentials of another role; run \"weir doctor\""
	if v.Op == "publish" && strings.HasPrefix(v.Subject, responsePrefix) {
		remedy = "the server no longer knows the request of this response, for example after a reload of its accounts; the requester asks again"
	}
	return fmt.Sprintf("%s to %s: NATS rejects it for %s: %s", v.Op, v.Subject, v.User, remedy)
}

// responsePrefix begins the subjects of responses to requests of other accounts. No role has a permission for them: a
// server accepts the one response to a request that it has delivered.
const responsePrefix = "_R_."

// Unwrap returns nats.ErrPermissionViolation.
func (v *Violation) Unwrap() error { return nats.ErrPermissionViolation }

// rejection matches the server's text. It begins alike for both operations.
var rejection = regexp.MustCompile(`Permissions Violation for (Publish|Subscription) to "([^"]*)"`)

// parseViolation returns the violation in an error of the connection.
func parseViolation(err error, user string) (*Violation, bool) {
	found := rejection.FindStringSubmatch(err.Error())
	if found == nil {
		return nil, false
	}
	op := "publish"
	if found[1] == "Subscription" {
		op = "subscribe"
	}
	return &Violation{Op: op, Subject: found[2], User: user}, true
}

// denials passes each violation of a connection to the calls under way that it concerns, and keeps the last ones.
type denials struct {
	mu      sync.Mutex
	watches map[*watch]struct{}
	inbox   *Violation // the subscription for responses was rejected since the last connect; nil: it was not
	// subscriptions are those that were rejected since the last connect, by subject. publishes are messages that were rejected, or
	// not sent because they are too long.
	subscriptions, publishes map[string]*denial
}

// denial is a *Violation or a *tooLongError, which may repeat.
type denial struct {
	error
	last   time.Time
	logged time.Time
	times  int
}

const (
	maxDenied   = 16               // bounds the stored subscriptions of a connection, and its stored publishes
	deniedKept  = time.Minute      // since the last time that a publish was rejected
	deniedEvery = 30 * time.Second // interval between two log lines of one subject
)

// watch is one call under way.
type watch struct {
	concerns func(subject string) bool
	end      context.CancelCauseFunc
}

// watch returns a context that ends with a *Violation as cause when a server rejects a subject that concerns the call.
// The caller calls done after the call, and cancel when the context is no longer needed.
func (d *denials) watch(ctx context.Context, concerns func(subject string) bool) (watching context.Context, done, cancel func()) {
	watching, end := context.WithCancelCause(ctx)
	w := &watch{concerns: concerns, end: end}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches[w] = struct{}{}
	if d.inbox != nil {
		end(d.inbox)
	}
	done = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watches, w)
	}
	return watching, done, func() { end(nil) }
}

// report keeps v, and ends the calls under way that it concerns. Without its inbox, no call receives a response. It
// returns how often that was rejected, if it is to be logged now, or else 0.
func (d *denials) report(v *Violation, inbox string, now time.Time) (logged int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := &d.publishes
	if v.Op == "subscribe" {
		kept = &d.subscriptions
	}
	logged = d.keepLocked(kept, v.Subject, v, now)
	all := v.Op == "subscribe" && strings.HasPrefix(v.Subject, inbox)
	if all {
		d.inbox = v
	}
	for w := range d.watches {
		if all || w.concerns(v.Subject) {
			w.end(v)
		}
	}
	return logged
}

// keepLocked keeps the error of a subject. It returns how often it came, if it is to be logged now, or else 0.
func (d *denials) keepLocked(kept *map[string]*denial, subject string, err error, now time.Time) (logged int) {
	if *kept == nil {
		*kept = map[string]*denial{}
	}
	maps.DeleteFunc(d.publishes, func(_ string, one *denial) bool { return now.Sub(one.last) >= deniedKept })
	one := (*kept)[subject]
	if one == nil && len(*kept) < maxDenied {
		one = &denial{}
		(*kept)[subject] = one
	}
	if one != nil {
		one.error, one.last, one.times = err, now, one.times+1
		if now.Sub(one.logged) >= deniedEvery {
			one.logged, logged = now, one.times
		}
	}
	return logged
}

// forget is called after a connect: the server then has the newest permissions.
func (d *denials) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inbox, d.subscriptions = nil, nil
}

// refused returns the rejected subscriptions, and the messages that were rejected or too long within the last minute, by subject.
func (d *denials) refused(now time.Time) (subscriptions []*Violation, publishes []error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, subject := range slices.Sorted(maps.Keys(d.subscriptions)) {
		subscriptions = append(subscriptions, d.subscriptions[subject].error.(*Violation))
	}
	for _, subject := range slices.Sorted(maps.Keys(d.publishes)) {
		if one := d.publishes[subject]; now.Sub(one.last) < deniedKept {
			publishes = append(publishes, one.error)
		}
	}
	return subscriptions, publishes
}

// Rejected returns the violation of a subscription to one of these subjects that the servers reject since the last
// connect, so its messages do not arrive; nil if there is none, or if this package did not open the connection.
func Rejected(nc *nats.Conn, subjects ...string) *Violation {
	c, ok := nc.Opts.CustomDialer.(*client)
	if !ok {
		return nil
	}
	c.denied.mu.Lock()
	defer c.denied.mu.Unlock()
	for _, subject := range subjects {
		if one := c.denied.subscriptions[subject]; one != nil {
			return one.error.(*Violation)
		}
	}
	return nil
}

// watchViolations returns a context that ends when a server rejects a publish or a subscription of nc to one of the subjects,
// which may have wildcards. Its cause is then a *Violation; see Cause. The caller calls done after the call. With a
// connection that this package did not open, the context is ctx.
func watchViolations(ctx context.Context, nc *nats.Conn, subjects ...string) (watching context.Context, done func()) {
	c, ok := nc.Opts.CustomDialer.(*client)
	if !ok {
		return ctx, func() {}
	}
	watching, remove, cancel := c.denied.watch(ctx, func(subject string) bool {
		return slices.ContainsFunc(subjects, func(pattern string) bool { return matches(pattern, subject) })
	})
	return watching, func() { remove(); cancel() }
}

// causeOf returns the violation that ended ctx, or else err.
func causeOf(ctx context.Context, err error) error {
	if v, ok := errors.AsType[*Violation](context.Cause(ctx)); ok && err != nil {
		return v
	}
	return err
}

// Publish is nc.Publish whose error names a lost connection, or the lengths of a message that is too long.
func Publish(nc *nats.Conn, subject string, data []byte) error {
	return PublishMsg(nc, &nats.Msg{Subject: subject, Data: data})
}

// PublishMsg is Publish with headers.
func PublishMsg(nc *nats.Conn, m *nats.Msg) error {
	return unsent(nc, m.Subject, m, nc.PublishMsg(m))
}

// Respond answers a request as m.Respond does, with the errors of Publish.
func Respond(nc *nats.Conn, m *nats.Msg, data []byte) error {
	return unsent(nc, m.Subject, &nats.Msg{Data: data}, m.Respond(data))
}

// Request is nc.RequestWithContext that returns a *Violation at once if the server rejects the request.
func Request(ctx context.Context, nc *nats.Conn, subject string, data []byte) (*nats.Msg, error) {
	return RequestMsg(ctx, nc, &nats.Msg{Subject: subject, Data: data})
}

// RequestMsg is Request with headers.
func RequestMsg(ctx context.Context, nc *nats.Conn, m *nats.Msg) (*nats.Msg, error) {
	watching, done := watchViolations(ctx, nc, m.Subject)
	defer done()
	answer, err := nc.RequestMsgWithContext(watching, m)
	return answer, unsent(nc, m.Subject, m, causeOf(watching, err))
}

// RequestKept is RequestMsg that also returns the subscription of the answers: another message there is the answer of another process.
// The caller ends the subscription.
func RequestKept(ctx context.Context, nc *nats.Conn, m *nats.Msg) (answer *nats.Msg, answers *nats.Subscription, err error) {
	watching, done := watchViolations(ctx, nc, m.Subject)
	defer done()
	if answers, err = nc.SubscribeSync(nc.NewInbox()); err != nil {
		return nil, nil, offline(err)
	}
	m.Reply = answers.Subject
	if err = nc.PublishMsg(m); err == nil {
		answer, err = answers.NextMsgWithContext(watching)
	}
	if err == nil && len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
		err = nats.ErrNoResponders
	}
	if err != nil {
		return nil, nil, errors.Join(unsent(nc, m.Subject, m, causeOf(watching, err)), answers.Unsubscribe())
	}
	return answer, answers, nil
}

// offlineError is the error of a publish while the connection is lost.
type offlineError struct{ err error }

func (e *offlineError) Error() string {
	return "the connection to NATS is lost: check NATS and the network; weir reconnects by itself"
}

func (e *offlineError) Unwrap() error { return e.err }

// offline replaces the misleading text of nats.go for a publish without a connection, "outbound buffer limit exceeded".
func offline(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) {
		return &offlineError{err}
	}
	return err
}
