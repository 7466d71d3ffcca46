package authcallout_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/identitytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An agent may publish and subscribe to what its own node may, and to nothing else.
func TestAgentHasThePermissionsOfItsNode(t *testing.T) {
	t.Parallel()
	for name, encrypt := range map[string]bool{"plain": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 0, encrypt)
			r, _ := w.respond(nil)
			violations := make(chan error, 8)
			agent, err := w.dial(w.login("i-01", w.secret), func(o *nats.Options) {
				o.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err }
			})
			if err != nil {
				t.Fatal(err)
			}
			daemon := w.connectAs(w.daemon)
			sub, err := daemon.SubscribeSync("weir.prod.heartbeat.*.*")
			if err = errors.Join(err, daemon.Flush()); err != nil {
				t.Fatal(err)
			}
			if _, err := agent.SubscribeSync("weir.prod.agent.web.i-01.*"); err != nil {
				t.Fatal(err)
			}
			for _, forbidden := range []string{"weir.prod.heartbeat.web.i-02", "$JS.API.INFO", "weir.prod.agent.web.i-02.stop"} {
				if err := agent.Publish(forbidden, nil); err != nil {
					t.Fatal(err)
				}
				if err := <-violations; !strings.Contains(err.Error(), forbidden) {
					t.Errorf("publishing to %s = %v, want a violation", forbidden, err)
				}
			}
			if _, err := agent.SubscribeSync("weir.prod.agent.web.i-02.*"); err != nil {
				t.Fatal(err)
			}
			if err := <-violations; !strings.Contains(err.Error(), "i-02") {
				t.Errorf("subscribing to another node = %v, want a violation", err)
			}
			if err := agent.Publish("weir.prod.heartbeat.web.i-01", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if m, err := sub.NextMsg(patience); err != nil || m.Subject != "weir.prod.heartbeat.web.i-01" {
				t.Errorf("heartbeat = %v, %v", m, err)
			}
			if s := r.Status(); s.Accepted != 1 || s.LastAccepted.IsZero() || total(s) != 0 {
				t.Errorf("status = %+v, want one accepted", s)
			}
		})
	}
}

func total(s authcallout.Status) (n uint64) {
	for _, count := range s.Refused {
		n += count
	}
	return n
}

// Each wrong login is refused, counted by its reason, and logged in one line with what to do.
func TestWrongLoginsAreRefusedAndCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	var mu sync.Mutex
	var text bytes.Buffer
	r, _ := w.respond(func(c *authcallout.Config) {
		c.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &text}, nil))
	})
	foreign, unknown := w.login("i-01", w.secret), identitytest.Key(t, nkeys.CreateUser)
	for _, tc := range []struct {
		name   string
		login  *identity.Login
		change func(*nats.Options)
		want   identity.Reason
		words  string
		remedy string
	}{
		{"another secret", w.login("i-01", w.other), nil, identity.Forged, "no secret of the key file", "the same secret"},
		{"daemon with an unknown key", w.login("i-01", w.secret), func(o *nats.Options) {
			o.TokenHandler = nil
			o.Nkey, o.SignatureCB = identitytest.Public(t, unknown), unknown.Sign
		},
			identity.Malformed, "no user has the key " + identitytest.Public(t, unknown), "copy accounts.conf to the servers and daemons.json to the hosts"},
		{"no token", w.login("i-01", w.secret), func(o *nats.Options) { o.TokenHandler = nil }, identity.Malformed, "has no token", "add the block identity"},
		{"no nkey", w.login("i-01", w.secret), func(o *nats.Options) { o.Nkey, o.SignatureCB = "", nil }, identity.Unsigned, "without an nkey", "the block identity"},
		{"another key", w.login("i-01", w.secret), func(o *nats.Options) { o.SignatureCB = signBoth(o.SignatureCB, foreign.Key.Sign) }, identity.Unsigned, "did not sign", "a key of its own"},
		{"pool of others", changed(w.login("i-01", w.secret), func(l *identity.Login) { l.Pool = "db" }), nil, identity.WrongName, "not for pool db", "correct --pool"},
		{"another cluster", changed(w.login("i-01", w.secret), func(l *identity.Login) { l.Cluster = "test" }), nil, identity.WrongName, "of cluster test", "correct --cluster"},
		{"unknown verifier", changed(w.login("i-01", w.secret), func(l *identity.Login) { l.Verifier = "none" }), nil, identity.UnknownVerifier, `has no \"none\"`, "add it there"},
		{"node of the claim", w.login("i-01", w.secret), func(o *nats.Options) { o.TokenHandler = swap(o.TokenHandler, "i-01", "i-02") }, identity.Forged, "node i-02", "the same secret"},
		{"proof of others", changed(w.login("i-01", w.secret), func(l *identity.Login) { l.Prover = fixed{"x"} }), nil, identity.Malformed, "proof", "install one version"},
		{"hostile token", w.login("i-01", w.secret), func(o *nats.Options) { o.TokenHandler = func() string { return "{\"verifier\":\"\\n\\u001b[2J\"}" } }, identity.Malformed, "verifier", "install one version"},
		{"password", w.login("i-01", w.secret), func(o *nats.Options) { *o = nats.Options{Servers: o.Servers, User: "a", Password: "b"} }, identity.Unsigned, "without an nkey", "the block identity"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := r.Status().Refused[tc.want]
			mu.Lock()
			text.Reset()
			mu.Unlock()
			nc, err := w.dial(tc.login, tc.change)
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), "authorization violation") {
				t.Fatalf("connect = %v, %v, want an authorization violation", nc, err)
			}
			w.wait("the refusal", func() bool { return r.Status().Refused[tc.want] == before+1 })
			w.wait("the line", func() bool {
				mu.Lock()
				defer mu.Unlock()
				line := text.String()
				return strings.Count(line, "\n") == 1 && strings.Contains(line, tc.words) && strings.Contains(line, tc.remedy) && strings.Contains(line, "identity refused")
			})
		})
	}
	if s := r.Status(); s.Accepted != 0 {
		t.Errorf("%d connections were accepted", s.Accepted)
	}
}

// signBoth makes the token of the login, and signs with another key.
func signBoth(made, other nats.SignatureHandler) nats.SignatureHandler {
	return func(nonce []byte) ([]byte, error) {
		if _, err := made(nonce); err != nil {
			return nil, err
		}
		return other(nonce)
	}
}

func swap(token nats.AuthTokenHandler, from, to string) nats.AuthTokenHandler {
	return func() string { return strings.Replace(token(), from, to, 1) }
}

func changed(l *identity.Login, change func(*identity.Login)) *identity.Login {
	change(l)
	return l
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// A token of 4 KB never leaves the agent. A client that sends one is refused by the server, and by the responder if the
// server accepts longer lines.
func TestTokenOfFourKilobytesIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	r, _ := w.respond(nil)
	long := changed(w.login("i-01", w.secret), func(l *identity.Login) { l.Prover = fixed{strings.Repeat("x", 4000)} })
	if _, err := w.dial(long, nil); err == nil || !strings.Contains(err.Error(), "a server accepts 3500") {
		t.Errorf("agent with a long token = %v, want its length", err)
	}
	_, err := w.dial(w.login("i-01", w.secret), func(o *nats.Options) { o.TokenHandler = func() string { return strings.Repeat("x", 4096) } })
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "maximum control line") {
		t.Errorf("client with a long token = %v, want the server's limit", err)
	}
	if s := r.Status(); s.Accepted+total(s) != 0 {
		t.Errorf("status = %+v, want no request", s)
	}
}

// A user ends after its lifetime. The agent proves its identity again and goes on.
func TestAgentReturnsWhenItsUserEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	r, _ := w.respond(func(c *authcallout.Config) { c.Lifetime = 2 * time.Second })
	back := make(chan struct{}, 8)
	_, err := w.dial(w.login("i-01", w.secret), func(o *nats.Options) {
		o.ReconnectWait, o.ReconnectJitter = 10*time.Millisecond, 0
		o.ReconnectedCB = func(*nats.Conn) { back <- struct{}{} }
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-back:
	case <-time.After(patience):
		t.Fatal("the agent does not return")
	}
	if got := r.Status().Accepted; got < 2 {
		t.Errorf("%d proofs, want one for each connection", got)
	}
}

// Two responders share the requests. Each of them goes on alone.
func TestRespondersReplaceEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0, false)
	first, stop := w.respond(nil)
	second, _ := w.respond(nil)
	connect := func(n int) {
		t.Helper()
		for range n {
			nc, err := w.dial(w.login("i-01", w.secret), nil)
			if err != nil {
				t.Fatal(err)
			}
			nc.Close()
		}
	}
	connect(1)
	w.wait("both responders answer", func() bool {
		connect(1)
		return first.Status().Accepted > 0 && second.Status().Accepted > 0
	})
	stop()
	answered := first.Status().Accepted
	before := second.Status().Accepted
	connect(3)
	if got := second.Status().Accepted - before; got != 3 || first.Status().Accepted != answered {
		t.Errorf("after the end of one, the other answered %d of 3", got)
	}
}

// Without a responder the daemons connect. The agents return when there is one.
func TestAgentsReturnWithTheResponder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	login := w.login("i-01", w.secret)
	attempts := &counted{Prover: login.Prover}
	login.Prover = attempts
	connected := make(chan struct{}, 1)
	begin := time.Now()
	nc, err := w.dial(login, func(o *nats.Options) {
		o.RetryOnFailedConnect, o.Timeout = true, 200*time.Millisecond
		o.ReconnectWait, o.ReconnectJitter = 50*time.Millisecond, 0
		o.ConnectedCB = func(*nats.Conn) { connected <- struct{}{} }
	})
	if err != nil {
		t.Fatal(err)
	}
	w.connectAs(w.daemon)
	w.wait("four attempts", func() bool { return attempts.n.Load() >= 4 })
	if took := time.Since(begin); took < 3*50*time.Millisecond {
		t.Errorf("4 attempts within %v, want the pauses of the backoff", took)
	}
	if nc.IsClosed() {
		t.Fatal("the connection is closed for good")
	}
	w.respond(nil)
	select {
	case <-connected:
	case <-time.After(patience):
		t.Fatal("the agent does not return")
	}
}

// counted counts the attempts of an agent.
type counted struct {
	identity.Prover
	n atomic.Int64
}

func (c *counted) Prove(ctx context.Context, s identity.Statement) (any, error) {
	c.n.Add(1)
	return c.Prover.Prove(ctx, s)
}

// A refused agent goes on, at most once at each server in a pause, without end.
func TestRefusedAgentKeepsToItsPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	r, _ := w.respond(nil)
	login := w.login("i-01", w.other)
	const pause = 100 * time.Millisecond
	begin := time.Now()
	nc, err := w.dial(login, func(o *nats.Options) {
		o.RetryOnFailedConnect, o.ReconnectWait, o.ReconnectJitter = true, pause, 0
	})
	if err != nil {
		t.Fatal(err)
	}
	w.wait("five refusals", func() bool { return r.Status().Refused[identity.Forged] >= 5 })
	refused, took := r.Status().Refused[identity.Forged], time.Since(begin)
	if most := uint64(took/pause) + 1; refused > most || nc.IsClosed() {
		t.Errorf("%d attempts within %v, want at most %d and an open connection", refused, took, most)
	}
}

// slow is a verifier that waits for its context, and counts.
type slow struct{ inside atomic.Int64 }

func (s *slow) Verify(ctx context.Context, _ identity.Request) (identity.Identity, error) {
	s.inside.Add(1)
	<-ctx.Done()
	return identity.Identity{}, ctx.Err()
}

// A verifier that does not answer ends at the deadline, and requests beyond the queue are dropped.
func TestSlowVerifierHoldsNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	s := new(slow)
	r, _ := w.respond(func(c *authcallout.Config) {
		c.Verifiers, c.Timeout, c.Workers, c.Queue = map[string]identity.Verifier{verifier: s}, 500*time.Millisecond, 1, 1
	})
	var wg sync.WaitGroup
	for range 8 {
		l := w.login("i-01", w.secret)
		wg.Go(func() {
			if nc, err := w.dial(l, nil); err == nil {
				t.Errorf("connect = %v, want an error", nc)
			}
		})
	}
	w.wait("refusals", func() bool {
		refused := r.Status().Refused
		return refused[identity.Overload] > 0 && refused[identity.Unavailable] > 0
	})
	wg.Wait()
	w.wait("the end of all requests", func() bool { return total(r.Status()) == 8 })
	if got := uint64(s.inside.Load()); got != r.Status().Refused[identity.Unavailable] {
		t.Errorf("%d requests reached the verifier, %d were refused by it", got, r.Status().Refused[identity.Unavailable])
	}
}

func TestUserHasAnEndAndLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	for range 20 {
		r, _ := w.respond(nil)
		now := time.Now()
		claims := answerOf(t, r, now, request(t, w, w.login("i-01", w.secret), now))
		if claims.Jwt == "" || claims.Error != "" {
			t.Fatalf("answer = %+v, want a user", claims)
		}
		user, err := jwt.DecodeUserClaims(claims.Jwt)
		if err != nil {
			t.Fatal(err)
		}
		life := time.Unix(user.Expires, 0).Sub(now)
		if user.Audience != "WEIR" || user.Name != "prod.agent.web.i-01" ||
			life < 47*time.Minute || life > 73*time.Minute {
			t.Errorf("user = %+v, ends after %v", user, life)
		}
	}
}

// A user that may not receive the requests of servers is named, and the responder is not ready.
func TestResponderWithoutPermissionIsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	r, err := authcallout.New(authcallout.Config{
		Cluster: "prod", Issuer: w.issuer, Agent: agentUser, Verifiers: map[string]identity.Verifier{verifier: nil}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	limited := identitytest.Key(t, nkeys.CreateUser)
	s := bustest.Serve(t, server.Options{Nkeys: []*server.NkeyUser{{
		Nkey: identitytest.Public(t, limited), Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{authcallout.Subject}}},
	}}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = r.Run(ctx, bustest.Connect(t, s.ClientURL(), nats.Nkey(identitytest.Public(t, limited), limited.Sign)))
	if err == nil || !strings.Contains(err.Error(), authcallout.Subject) || !strings.Contains(err.Error(), "role auth") || r.Status().Ready {
		t.Errorf("Run = %v, ready %v, want the subject and the role", err, r.Status().Ready)
	}
}

// A daemon of a pool logs in by its key, into the account of its pool, as long as it is one of the daemons.
func TestDaemonsLogInByTheirKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, false)
	key := identitytest.Key(t, nkeys.CreateUser)
	var mu sync.Mutex
	var known, broken bool
	r, _ := w.respond(func(c *authcallout.Config) {
		c.Daemon = func(nkey string) (authcallout.User, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return authcallout.User{}, false, errors.New("no such file")
			}
			return authcallout.User{Name: "prod.pool.web", Account: poolAccount}, known && nkey == identitytest.Public(t, key), nil
		}
	})
	dial := func() (*nats.Conn, error) {
		return w.dial(w.login("i-01", w.secret), func(o *nats.Options) {
			o.TokenHandler = nil
			o.Nkey, o.SignatureCB = identitytest.Public(t, key), key.Sign
		})
	}
	for _, c := range []struct {
		known, broken bool
		want          identity.Reason
	}{{false, false, identity.Malformed}, {true, true, identity.Unavailable}, {true, false, ""}} {
		mu.Lock()
		known, broken = c.known, c.broken
		mu.Unlock()
		before := r.Status().Refused[c.want]
		nc, err := dial()
		if c.want != "" {
			if err == nil {
				t.Errorf("known %v, broken %v: the daemon connects", c.known, c.broken)
			}
			w.wait("the refusal", func() bool { return r.Status().Refused[c.want] == before+1 })
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		m, err := nc.Request("$SYS.REQ.USER.INFO", nil, patience)
		if err != nil || !strings.Contains(string(m.Data), `"account":"`+poolAccount+`"`) {
			t.Errorf("the servers hold %s, %v, want account %s", m.Data, err, poolAccount)
		}
	}
}
