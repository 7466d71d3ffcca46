package authcallout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

// Subject is where servers send their requests, in the account of the responders.
const Subject = "$SYS.REQ.USER.AUTH"

// queueGroup is the queue group of the responders.
const queueGroup = "weir-auth"

// spread is the part by which the lifetime of users varies, so that they do not return together. The servers apply no limits
// to a single user of a callout: those of its account hold.
const spread = 0.2

// Defaults of a Config.
const (
	defaultTimeout  = 2 * time.Second // of the servers: authorization.timeout of at least 3 s
	defaultLifetime = time.Hour
	defaultWorkers  = 64
	defaultQueue    = 4096
)

// flushTimeout bounds the subscription.
const flushTimeout = 10 * time.Second

// Refusals are logged at this rate, in lines a second, after a burst.
const (
	logRate  = 1
	logBurst = 20
)

// User is a user of the bus. The servers let it into the account.
type User struct {
	Name, Account string
	Permissions   jwt.Permissions
}

// Config of a Responder.
type Config struct {
	Cluster string
	Issuer  nkeys.KeyPair // account key; the servers have its public key as auth_callout.issuer
	XKey    nkeys.KeyPair // curve key for encryption; nil: requests are not encrypted
	// Verifiers are the accepted verifiers by key.
	Verifiers map[string]identity.Verifier
	// Agent returns the user of an agent.
	Agent func(identity.Claim) User
	// Daemon returns the user of a daemon of a pool, by its public nkey; false if no daemon has that key. nil: the servers
	// know all daemons.
	Daemon func(nkey string) (u User, ok bool, err error)
	// Timeout bounds one request, with its time in the queue. It must be below the servers' authorization.timeout.
	Timeout  time.Duration // 0: defaultTimeout
	Lifetime time.Duration // of a user; it varies by a fifth; 0: defaultLifetime
	Workers  int           // concurrent requests; 0: defaultWorkers
	Queue    int           // waiting requests; 0: defaultQueue
	Log      *slog.Logger
}

// Responder answers requests of servers.
type Responder struct {
	c      Config
	issuer string // public key
	lines  *rate.Limiter
	queue  chan waiting

	mu     sync.Mutex
	status Status
	silent int // refusals that were not logged since the last line
}

// waiting is a request in the queue.
type waiting struct {
	*nats.Msg
	since time.Time
}

// Status has the sums of a responder since its start.
type Status struct {
	Ready    bool                       `json:"ready"` // it receives requests
	Accepted uint64                     `json:"accepted"`
	Refused  map[identity.Reason]uint64 `json:"refused"` // has each reason
	Waiting  int                        `json:"waiting"` // requests in the queue
	// LastAccepted is the time of the last accepted connection; zero before the first.
	LastAccepted time.Time `json:"last_accepted,omitzero"`
}

// New returns a Responder.
func New(c Config) (*Responder, error) {
	if c.Issuer == nil || c.Agent == nil || c.Log == nil || len(c.Verifiers) == 0 {
		return nil, errors.New("authcallout: issuer, agent, log and verifiers are required")
	}
	c.Timeout, c.Lifetime = cmp.Or(c.Timeout, defaultTimeout), cmp.Or(c.Lifetime, defaultLifetime)
	c.Workers, c.Queue = cmp.Or(c.Workers, defaultWorkers), cmp.Or(c.Queue, defaultQueue)
	public, err := c.Issuer.PublicKey()
	if err != nil || !nkeys.IsValidPublicAccountKey(public) {
		return nil, errors.Join(errors.New("authcallout: the issuer is not an account key"), err)
	}
	r := &Responder{c: c, issuer: public, lines: rate.NewLimiter(logRate, logBurst), queue: make(chan waiting, c.Queue)}
	r.status.Refused = map[identity.Reason]uint64{}
	for _, reason := range identity.Reasons() {
		r.status.Refused[reason] = 0
	}
	return r, nil
}

// Status returns the sums.
func (r *Responder) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Refused, s.Waiting = maps.Clone(s.Refused), len(r.queue)
	return s
}

// Run answers requests until ctx ends. It may be called once.
func (r *Responder) Run(ctx context.Context, nc *nats.Conn) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	for range r.c.Workers {
		wg.Go(func() { r.work(ctx) })
	}
	sub, err := nc.QueueSubscribe(Subject, queueGroup, r.enqueue)
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
		err = nc.FlushTimeout(flushTimeout)
	}
	// A rejection arrives before the answer to the flush.
	if last := nc.LastError(); err == nil && errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), Subject) {
		err = fmt.Errorf("%w: give the user of this connection the role auth, or permission to subscribe to %s", last, Subject)
	}
	if err != nil {
		return fmt.Errorf("receive requests of the servers on %s: %w", Subject, err)
	}
	r.ready(true)
	defer r.ready(false)
	r.c.Log.Info("auth ready", "cluster", r.c.Cluster, "issuer", r.issuer)
	<-ctx.Done()
	return nil
}

func (r *Responder) ready(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Ready = is
}

// enqueue accepts a request unless the queue is full. Then the server's time limit ends the connection.
func (r *Responder) enqueue(m *nats.Msg) {
	select {
	case r.queue <- waiting{m, time.Now()}:
	default:
		r.refused(attempt{}, identity.Refuse(identity.Overload, "%d requests are waiting: start another \"weir auth\"", r.c.Queue))
	}
}

// work answers requests until ctx ends, and then those that already wait.
func (r *Responder) work(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case w := <-r.queue:
			r.serve(w)
		}
	}
	for {
		select {
		case w := <-r.queue:
			r.serve(w)
		default:
			return
		}
	}
}

func (r *Responder) serve(w waiting) {
	ctx, cancel := context.WithDeadline(context.Background(), w.since.Add(r.c.Timeout))
	defer cancel()
	if ctx.Err() != nil {
		r.refused(attempt{}, identity.Refuse(identity.Overload, "a request waited for more than %v: start another \"weir auth\"", r.c.Timeout))
		return
	}
	answer := r.Answer(ctx, time.Now(), w.Data, w.Header.Get(xkeyHeader))
	if answer == nil {
		return
	}
	if err := w.Respond(answer); err != nil {
		r.c.Log.Warn("answer not sent", "err", err)
	}
}

// Answer returns the answer to one request. It returns nil if the request is not of a server: then no answer can be
// addressed. serverXKey is the server's public curve key, from the header; empty: the request is not encrypted.
func (r *Responder) Answer(ctx context.Context, now time.Time, data []byte, serverXKey string) []byte {
	a, err := r.decode(now, data, serverXKey)
	if err != nil {
		r.refused(a, err)
		return nil
	}
	signed := ""
	user, err := r.verify(ctx, now, a)
	if err == nil {
		signed, err = r.sign(now, a, user)
	}
	answer, failed := r.encode(a, signed, err)
	if failed != nil {
		r.c.Log.Error("answer not encoded", "err", failed)
		return nil
	}
	if err != nil {
		r.refused(a, err)
	} else {
		r.accepted(now, a, user)
	}
	return answer
}

// verify returns the user of a connection: of a daemon by its nkey, of an agent by its proof.
func (r *Responder) verify(ctx context.Context, now time.Time, a attempt) (User, error) {
	if err := a.signed(); err != nil {
		return User{}, err
	}
	if a.token != "" {
		claim, err := r.proven(ctx, now, a)
		if err != nil {
			return User{}, err
		}
		return r.c.Agent(claim), nil
	}
	if r.c.Daemon != nil {
		u, ok, err := r.c.Daemon(a.nkey)
		if err != nil {
			return User{}, identity.Refuse(identity.Unavailable, "%v", err)
		}
		if ok {
			return u, nil
		}
	}
	return User{}, identity.Refuse(identity.Malformed, "no user has the key %s, and it has no token: "+
		"for a daemon, run \"weir nats init\" again, and copy accounts.conf to the servers and daemons.json to the hosts of \"weir auth\"; "+
		"for an agent, add the block identity to its weir.yaml", a.nkey)
}

// proven returns the verified claim of an agent.
func (r *Responder) proven(ctx context.Context, now time.Time, a attempt) (identity.Claim, error) {
	token, err := identity.Decode(a.token)
	if err != nil {
		return identity.Claim{}, identity.Refuse(identity.Malformed, "token: %v; install one version of weir for the agent and \"weir auth\"", err)
	}
	if token.Cluster != r.c.Cluster {
		return token.Claim, identity.Refuse(identity.WrongName, "the agent is of cluster %s, and not of cluster %s: correct --cluster or nats.servers of the agent", token.Cluster, r.c.Cluster)
	}
	verifier, ok := r.c.Verifiers[token.Verifier]
	if !ok {
		return token.Claim, identity.Refuse(identity.UnknownVerifier, "auth.verifiers has no %q: add it there, or choose another verifier in the block identity of the agent", token.Verifier)
	}
	proven, err := verifier.Verify(ctx, identity.Request{
		Statement: identity.Statement{Claim: token.Claim, Key: a.nkey, Nonce: a.nonce, Now: now}, Proof: token.Proof,
	})
	if err != nil {
		if _, refused := errors.AsType[*identity.Refusal](err); !refused {
			err = identity.Refuse(identity.Unavailable, "%v", err)
		}
		err = fmt.Errorf("node %s of pool %s: %w", token.Node, token.Pool, err)
		if reasonOf(err) == identity.Unavailable {
			err = fmt.Errorf("%w; if this lasts, correct what the error names: the agent connects again by itself", err)
		}
		return token.Claim, err
	}
	switch {
	case proven.Node != token.Node:
		return token.Claim, identity.Refuse(identity.WrongName, "node %s: the proof is of node %s: correct --id of the agent", token.Node, proven.Node)
	case proven.Pool != token.Pool:
		return token.Claim, identity.Refuse(identity.WrongName, "node %s is of pool %s, and not of pool %s: correct --pool of the agent", token.Node, proven.Pool, token.Pool)
	}
	return token.Claim, nil
}

// sign returns the JWT of a user. Its audience is the account of the user.
func (r *Responder) sign(now time.Time, a attempt, of User) (string, error) {
	u := jwt.NewUserClaims(a.userKey)
	u.Name, u.Permissions, u.Audience = of.Name, of.Permissions, of.Account
	u.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard}
	u.Expires = now.Add(lifetime(r.c.Lifetime, rand.Float64())).Unix()
	signed, err := u.Encode(r.c.Issuer)
	if err != nil {
		return "", identity.Refuse(identity.Unavailable, "sign the user: %v; check auth.issuer_key_file", err)
	}
	return signed, nil
}

// lifetime returns the mean lifetime, changed by at most a fifth. at is in [0, 1).
func lifetime(mean time.Duration, at float64) time.Duration {
	return time.Duration(float64(mean) * (1 - spread + 2*spread*at))
}

func (r *Responder) accepted(now time.Time, a attempt, u User) {
	r.mu.Lock()
	r.status.Accepted++
	r.status.LastAccepted = now
	r.mu.Unlock()
	r.c.Log.Debug("identity accepted", "user", u.Name, "host", a.host, "key", a.nkey)
}

// refused counts a refusal, and logs it at a bounded rate.
func (r *Responder) refused(a attempt, err error) {
	reason := reasonOf(err)
	write := r.lines.Allow()
	r.mu.Lock()
	r.status.Refused[reason]++
	silent := r.silent
	if write {
		r.silent = 0
	} else {
		r.silent++
	}
	r.mu.Unlock()
	if write {
		r.c.Log.Warn("identity refused", "reason", string(reason), "host", a.host, "server", a.server, "err", err, "not_logged", silent)
	}
}

// reasonOf returns the reason of an error of verify.
func reasonOf(err error) identity.Reason {
	if r, ok := errors.AsType[*identity.Refusal](err); ok {
		return r.Reason
	}
	return identity.Unavailable
}
