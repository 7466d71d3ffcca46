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
	return fmt.Sprintf("%s to %s: NATS rejects it for %s: give its role this permission, or use credentials of another role; run \"weir doctor\"",
		v.Op, v.Subject, v.User)
}

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

// denials passes each violation of a connection to the calls under way that it concerns.
type denials struct {
	mu      sync.Mutex
	watches map[*watch]struct{}
	inbox   *Violation // the subscription for responses was rejected since the last connect; nil: it was not
	// subscriptions are those that were rejected since the last connect, by subject.
	subscriptions map[string]*Violation
}

// maxDenied bounds the stored subscriptions of a connection.
const maxDenied = 16

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

// report ends the calls under way that v concerns. Without its inbox, no call receives a response.
func (d *denials) report(v *Violation, inbox string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.Op == "subscribe" && len(d.subscriptions) < maxDenied {
		if d.subscriptions == nil {
			d.subscriptions = map[string]*Violation{}
		}
		d.subscriptions[v.Subject] = v
	}
	all := v.Op == "subscribe" && strings.HasPrefix(v.Subject, inbox)
	if all {
		d.inbox = v
	}
	for w := range d.watches {
		if all || w.concerns(v.Subject) {
			w.end(v)
		}
	}
}

// forget is called after a connect: the server then has the newest permissions.
func (d *denials) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inbox, d.subscriptions = nil, nil
}

// refused returns the rejected subscriptions, by subject.
func (d *denials) refused() []*Violation {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*Violation
	for _, subject := range slices.Sorted(maps.Keys(d.subscriptions)) {
		list = append(list, d.subscriptions[subject])
	}
	return list
}

// Watch returns a context that ends when a server rejects a publish or a subscription of nc to one of the subjects,
// which may have wildcards. Its cause is then a *Violation; see Cause. The caller calls done after the call. With a
// connection that this package did not open, the context is ctx.
func Watch(ctx context.Context, nc *nats.Conn, subjects ...string) (watching context.Context, done func()) {
	c, ok := nc.Opts.CustomDialer.(*client)
	if !ok {
		return ctx, func() {}
	}
	watching, remove, cancel := c.denied.watch(ctx, func(subject string) bool {
		for _, pattern := range subjects {
			if matches(pattern, subject) {
				return true
			}
		}
		return false
	})
	return watching, func() { remove(); cancel() }
}

// Cause returns the violation that ended ctx, or else err.
func Cause(ctx context.Context, err error) error {
	if v, ok := errors.AsType[*Violation](context.Cause(ctx)); ok && err != nil {
		return v
	}
	return err
}

// Request is nc.RequestWithContext that returns a *Violation at once if the server rejects the request.
func Request(ctx context.Context, nc *nats.Conn, subject string, data []byte) (*nats.Msg, error) {
	return RequestMsg(ctx, nc, &nats.Msg{Subject: subject, Data: data})
}

// RequestMsg is Request with headers.
func RequestMsg(ctx context.Context, nc *nats.Conn, m *nats.Msg) (*nats.Msg, error) {
	watching, done := Watch(ctx, nc, m.Subject)
	defer done()
	answer, err := nc.RequestMsgWithContext(watching, m)
	return answer, offline(Cause(watching, err))
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
