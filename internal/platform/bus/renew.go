package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	filesEvery = 2 * time.Second // see Config.FilesEvery
	spread     = 10              // a renewal waits a random time of at most this many reconnect waits
	firstProbe = 5 * time.Second // mean wait before the second probe of a content; doubled up to lastProbe
	lastProbe  = time.Minute

	resubscribeAfter = 15 // mean interval between two attempts to subscribe again, in intervals of the files
)

// follow renews the connection after each change of the files, and logs why a lost one does not return, until ctx ends.
func (c *client) follow(ctx context.Context) {
	every := c.config.FilesEvery
	if every == 0 {
		every = filesEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	r := renewal{client: c}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if c.login != nil {
				r.step(ctx, now)
			}
			r.resubscribe(now, resubscribeAfter*every)
			c.logLost()
		}
	}
}

// renewal is the state between two looks at the files. It has one owner.
type renewal struct {
	*client
	content material  // newest content that is not in use
	due     time.Time // of its next probe
	wait    time.Duration

	resubscription time.Time // when rejected subscriptions are tried again; zero: none is rejected
}

// step reads the files. New content first proves itself on a connection of its own; only then the process's connection
// changes. So wrong content never ends a working connection.
func (r *renewal) step(ctx context.Context, now time.Time) {
	fresh, err := r.login.block.read()
	switch {
	case err != nil:
		r.reject(material{}, err)
		return
	case r.login.inUse(fresh.digest):
		r.login.use()
		r.content = material{}
		return
	case fresh.digest != r.content.digest:
		// The servers of a fleet would otherwise receive all its connections at once.
		r.content, r.wait = fresh, firstProbe
		r.due = now.Add(rand.N(spread * r.config.wait()))
	}
	if now.Before(r.due) {
		return
	}
	err = r.probe(ctx, fresh)
	// Also after a success: the content is in use only when the renewed connection reports it.
	r.due = now.Add(r.wait/2 + rand.N(r.wait))
	r.wait = min(2*r.wait, lastProbe)
	if err != nil {
		if rejects(err) {
			r.reject(fresh, errors.New(r.config.explain(err)))
		}
		return
	}
	r.login.use()
	r.config.Log.Info("bus credentials renewed")
	if err := r.conn.Load().ForceReconnect(); err != nil {
		r.config.Log.Warn("bus connection not renewed", "err", err)
	}
}

// reject logs why the content is not in use, once for each reason.
func (r *renewal) reject(m material, why error) {
	if r.login.reject(m.digest, why) {
		r.config.Log.Error("bus files rejected, previous credentials stay in use", "err", why)
	}
}

// probe connects once with that content, and disconnects.
func (r *renewal) probe(ctx context.Context, m material) error {
	conn, err := r.try(&login{fixed: true, accepted: m, current: m})
	if err != nil {
		return err
	}
	conn.Close()
	return ctx.Err()
}

// resubscribe renews the connection when the servers accept a subscription that they rejected before, or longer messages. They
// never report that by themselves. It first tries on a connection of its own, since each renewal interrupts the daemon. every is the mean
// interval between two attempts.
func (r *renewal) resubscribe(now time.Time, every time.Duration) {
	denied, _ := r.denied.refused(now)
	short := r.denied.short(now)
	if len(denied) == 0 && !short {
		r.resubscription = time.Time{}
		return
	}
	due := !r.resubscription.IsZero() && !now.Before(r.resubscription)
	if due || r.resubscription.IsZero() {
		r.resubscription = now.Add(every/2 + rand.N(every))
	}
	if !due {
		return
	}
	subject, longer := r.granted(denied)
	switch {
	case subject != "":
		r.config.Log.Info("bus permission granted, subscribing again", "subject", subject)
	case short && longer:
		r.config.Log.Info("bus accepts longer messages, connecting again")
	default:
		return
	}
	if err := r.conn.Load().ForceReconnect(); err != nil {
		r.config.Log.Warn("bus connection not renewed", "err", err)
	}
}

// granted returns the first of these subjects that the servers now accept, and whether they accept longer messages than from the
// process's connection.
func (r *renewal) granted(denied []*Violation) (subject string, longer bool) {
	var l *login
	if r.login != nil {
		m := r.login.now()
		l = &login{fixed: true, accepted: m, current: m}
	}
	conn, err := r.try(l)
	if err != nil {
		return "", false // the next attempt may succeed
	}
	defer conn.Close()
	longer = conn.MaxPayload() > r.conn.Load().MaxPayload()
	subs := make([]*nats.Subscription, len(denied))
	for i, v := range denied {
		if subs[i], err = conn.SubscribeSync(v.Subject); err != nil {
			return "", longer
		}
	}
	if conn.FlushTimeout(connectTimeout) != nil {
		return "", longer
	}
	for _, sub := range subs {
		if _, err := sub.NextMsg(time.Nanosecond); !errors.Is(err, nats.ErrPermissionViolation) {
			return sub.Subject, longer
		}
	}
	return "", longer
}

// try makes one connection beside that of the process. The caller closes it.
func (r *renewal) try(l *login) (*nats.Conn, error) {
	trial := &client{config: r.config, denied: &denials{watches: map[*watch]struct{}{}}, login: l}
	o := trial.options(r.servers, connectTimeout)
	if r.config.Login != nil {
		if err := r.config.Login(&o); err != nil {
			return nil, err
		}
	}
	o.Name += " (probe)"
	o.AllowReconnect, o.RetryOnFailedConnect = false, false
	o.ConnectedCB, o.DisconnectedErrCB, o.ReconnectedCB, o.ReconnectErrCB, o.ClosedCB = nil, nil, nil, nil, nil
	o.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {} // Connect and LastError return the errors
	return o.Connect()
}

// rejects reports whether a server or this client rejected the material: other errors may have other causes.
func rejects(err error) bool {
	_, wrongCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	return wrongCertificate || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrTLS) || errors.Is(err, errControlLine) || alerted(err)
}

// alerted reports whether a server ended the TLS handshake with an alert: it rejects the client's certificate.
func alerted(err error) bool { return strings.Contains(err.Error(), "remote error: tls:") }
