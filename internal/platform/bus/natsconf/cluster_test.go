package natsconf_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// world is the cluster of servers with a connection of each role.
type world struct {
	*bustest.Cluster
	users map[roles.Role]roles.User
	conns map[roles.Role]*nats.Conn
	// scheduled are those of the pool "k8s", which has a scheduler. The pool of the others is "web".
	scheduled map[roles.Role]*nats.Conn
}

// poolOf returns the pool in which a message passes between roles, and the connection of a role there.
func (w *world) poolOf(all ...roles.Role) (pool string, conn func(roles.Role) *nats.Conn) {
	if !slices.Contains(all, roles.Scheduler) {
		return "web", func(r roles.Role) *nats.Conn { return w.conns[r] }
	}
	return "k8s", func(r roles.Role) *nats.Conn {
		if c := w.scheduled[r]; c != nil {
			return c
		}
		return w.conns[r]
	}
}

// TestRoles runs what each role needs on one cluster of three servers with TLS and the generated configuration.
func TestRoles(t *testing.T) {
	w := &world{users: map[roles.Role]roles.User{}, conns: map[roles.Role]*nats.Conn{}, scheduled: map[roles.Role]*nats.Conn{}}
	w.Cluster = bustest.ServeCluster(t, false, natsconf.Cluster{
		Name:       "prod",
		Pools:      []natsconf.Pool{{Name: "batch"}, {Name: "k8s", Scheduler: true}, {Name: "web", Nodes: []string{"i-01"}}},
		LegacyDEAs: []string{"dea-1"},
	})
	for _, u := range w.Site.Users() {
		if u.Role == roles.Scheduler || u.Role == roles.Pool && u.Pool == "k8s" {
			w.scheduled[u.Role] = w.Connect(t, u, w.firstServer, quiet)
		}
		if u.Pool != "batch" && (u.Pool != "k8s" || u.Role == roles.Scheduler) {
			w.users[u.Role], w.conns[u.Role] = u, w.Connect(t, u, w.firstServer, quiet)
		}
	}
	bustest.Streams(t, w.js(t, roles.Admin), "prod", 3, "batch", "k8s", "web")
	t.Run("every row delivers", w.rowsDeliver)
	t.Run("every key", w.keysAreReadAndWritten)
	t.Run("every stream", w.streamsAreRead)
	t.Run("every permission passes", w.everyPermissionPasses)
	t.Run("forbidden acts are refused", w.forbiddenActsAreRefused)
}

func (w *world) js(t *testing.T, r roles.Role) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(w.conns[r])
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// firstServer connects to the first server only, so that a subscription exists for all once it is flushed.
func (w *world) firstServer(o *nats.Options) error {
	o.Servers = []string{w.URL(0)}
	return nil
}

// violation returns the server's refusal of an act; empty if the server accepted it.
func violation(nc *nats.Conn, d roles.Direction, subject string) (string, error) {
	var want string
	switch d {
	case roles.Publish:
		want = `Permissions Violation for Publish to "` + subject + `"`
		if err := nc.Publish(subject, nil); err != nil {
			return "", err
		}
	default:
		want = `Permissions Violation for Subscription to "` + subject + `"`
		sub, err := nc.SubscribeSync(subject)
		if err != nil {
			return "", err
		}
		defer sub.Unsubscribe()
	}
	if err := nc.FlushTimeout(deadline); err != nil { // the refusal arrives before the answer to the ping
		return "", err
	}
	if err := nc.LastError(); err != nil && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
		return err.Error(), nil
	}
	return "", nil
}

// The program of a pool's workflow answers the requests of its pool, and of no other one. Its key may do nothing else.
func TestWorkflowIsAnswered(t *testing.T) {
	const subject = "repairs.web"
	c := bustest.ServeCluster(t, false, natsconf.Cluster{Name: "prod", Pools: []natsconf.Pool{{Name: "web", Publish: []string{subject}}, {Name: "batch"}}})
	users := map[string]*nats.Conn{}
	for _, u := range c.Site.Users() {
		if u.Role == roles.Pool || u.Role == roles.Workflow {
			users[u.Name()] = c.Connect(t, u, (&world{Cluster: c}).firstServer)
		}
	}
	program := users["prod.workflow.web"]
	if _, err := program.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte("repaired")) }); err != nil {
		t.Fatal(err)
	}
	if err := program.Flush(); err != nil {
		t.Fatal(err)
	}
	answer, err := users["prod.pool.web"].Request(subject, nil, deadline)
	if err != nil || string(answer.Data) != "repaired" {
		t.Errorf("the request of the pool: %v, %v, want an answer", answer, err)
	}
	for user, forbidden := range map[string]string{"prod.workflow.web": "weir.prod.announce", "prod.pool.batch": subject} {
		if refusal, err := violation(users[user], roles.Publish, forbidden); err != nil || refusal == "" {
			t.Errorf("%s publishes to %s: %q, %v, want a violation", user, forbidden, refusal, err)
		}
	}
}

// rowsDeliver sends a message of each row from each of its publishers to each of its subscribers, from account to account. If
// the row has answers, it waits for them. A stored row arrives as what the stream republishes.
func (w *world) rowsDeliver(t *testing.T) {
	acts := 0
	for _, row := range roles.Rows() {
		if strings.HasPrefix(row.Subject, "$") {
			continue // of servers
		}
		for _, to := range row.Subscribe {
			for _, from := range row.Publish {
				both := []roles.Role{from, to}
				if slices.Contains(both, roles.Scheduler) && (slices.Contains(both, roles.Placer) || slices.Contains(both, roles.Agent)) {
					continue // a pool has only one of both
				}
				acts++
				pool, _ := w.poolOf(from, to)
				if err := w.deliver(row, concreteOf(row.Subject, pool), from, to); err != nil {
					t.Errorf("%s from %s to %s: %v", row.Subject, from, to, err)
				}
			}
		}
	}
	t.Logf("%d messages", acts)
}

func isStored(row roles.Row) bool {
	return slices.ContainsFunc(roles.Streams(), func(s roles.Stream) bool { return slices.Contains(s.Subjects, row.Subject) })
}

func (w *world) deliver(row roles.Row, subject string, from, to roles.Role) error {
	_, conn := w.poolOf(from, to)
	sender, receiver, at := conn(from), conn(to), subject
	if isStored(row) {
		at = names.LiveSubject("prod", subject)
	}
	token := nats.NewInbox()
	arrived := make(chan error, 1)
	sub, err := receiver.Subscribe(at, func(m *nats.Msg) {
		if string(m.Data) != token {
			return // of another process
		}
		var err error
		if m.Subject != at {
			err = fmt.Errorf("arrived on %s", m.Subject)
		}
		if row.Answers != roles.NoAnswer {
			err = errors.Join(err, m.Respond([]byte("1")))
		}
		if row.Answers == roles.Several {
			err = errors.Join(err, m.Respond([]byte("2")))
		}
		arrived <- err
	})
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := receiver.FlushTimeout(deadline); err != nil {
		return err
	}
	inbox := sender.NewRespInbox()
	answers := make(chan *nats.Msg, 2)
	if row.Answers == roles.NoAnswer {
		err = sender.Publish(subject, []byte(token))
	} else {
		var reply *nats.Subscription
		if reply, err = sender.ChanSubscribe(inbox, answers); err != nil {
			return err
		}
		defer reply.Unsubscribe()
		err = sender.PublishRequest(subject, inbox, []byte(token))
	}
	if err == nil {
		err = sender.FlushTimeout(deadline)
	}
	if err != nil {
		return err
	}
	timeout := time.NewTimer(deadline)
	defer timeout.Stop()
	select {
	case err := <-arrived:
		if err != nil {
			return err
		}
	case <-timeout.C:
		return fmt.Errorf("does not arrive; last errors: %v, %v", sender.LastError(), receiver.LastError())
	}
	for n := range int(row.Answers) { // OneAnswer is 1, Several is 2
		select {
		case m := <-answers:
			if string(m.Data) != fmt.Sprint(n+1) {
				return fmt.Errorf("answer %d is %q %v", n+1, m.Data, m.Header)
			}
		case <-timeout.C:
			return fmt.Errorf("answer %d does not arrive; last errors: %v, %v", n+1, sender.LastError(), receiver.LastError())
		}
	}
	return nil
}

// keysAreReadAndWritten writes a key of each set as each of its writers, by compare-and-set, and reads it as each of its
// readers. A change of an application reaches those that watch.
func (w *world) keysAreReadAndWritten(t *testing.T) {
	changes := map[roles.Role]*nats.Subscription{}
	for _, r := range []roles.Role{roles.Harmonizer, roles.Placer} {
		sub, err := w.conns[r].SubscribeSync(names.ChangedSubject("prod", names.AppsBucket("prod")))
		if err == nil {
			err = w.conns[r].FlushTimeout(deadline)
		}
		if err != nil {
			t.Fatal(err)
		}
		changes[r] = sub
	}
	for _, k := range roles.Keys() {
		bucketOf := func(r roles.Role) string {
			pool, _ := w.poolOf(r)
			return k.Bucket("prod", pool)
		}
		key := concrete(k.Name)
		if slices.Contains(k.Read, roles.Auth) {
			continue // this cluster has no callout
		}
		for _, r := range k.Write {
			if err := w.write(t, r, bucketOf(r), key); err != nil {
				t.Errorf("%s writes %s of %s: %v", r, key, bucketOf(r), err)
			}
		}
		for _, r := range k.Read {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			e, err := kvbucket.New(w.js(t, r), bucketOf(r)).Get(ctx, key)
			cancel()
			if err != nil || e.Found != (len(k.Write) > 0 || key == "schema") {
				t.Errorf("%s reads %s of %s: %+v, %v", r, key, bucketOf(r), e, err)
			}
		}
	}
	for r, sub := range changes {
		if m, err := sub.NextMsg(deadline); err != nil || m.Header.Get("Nats-Sequence") == "" || len(m.Data) > 0 {
			t.Errorf("%s watches the applications: %v, %v, want the header of a change", r, m, err)
		}
	}
}

// write writes a key over its revision, and is refused over another one.
func (w *world) write(t *testing.T, r roles.Role, bucket, key string) error {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	before, err := kvbucket.New(w.js(t, roles.Admin), bucket).Get(ctx, key)
	if err != nil {
		return err
	}
	b := kvbucket.New(w.js(t, r), bucket)
	if _, err := b.Update(ctx, key, []byte("1"), before.Revision); err != nil {
		return err
	}
	if _, err := b.Update(ctx, key, []byte("2"), before.Revision); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return fmt.Errorf("over an old revision: %v, want %v", err, jetstream.ErrKeyRevisionMismatch)
	}
	return nil
}

// streamsAreRead reads each stream as each of its readers, in a batch and the newest message.
func (w *world) streamsAreRead(t *testing.T) {
	for _, s := range roles.Streams() {
		for _, r := range s.Read {
			name := s.Name("prod", "web")
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			stream, err := w.js(t, r).Stream(ctx, name)
			if err == nil {
				_, err = stream.GetLastMsgForSubject(ctx, concrete(s.Subjects[0]))
			}
			cancel()
			if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
				t.Errorf("%s reads %s: %v", r, name, err)
			}
		}
	}
}

func (w *world) everyPermissionPasses(t *testing.T) {
	acts := 0
	for r, u := range w.users {
		for _, x := range u.Probes() {
			acts++
			if refused, err := violation(w.conns[r], x.Direction, x.Subject); refused != "" || err != nil {
				t.Errorf("%s: %v %s: %s %v", u.Name(), x.Direction, x.Subject, refused, err)
			}
		}
	}
	t.Logf("%d acts", acts)
}

// forbidden lists acts that a server must refuse within an account: the role, "pub" or "sub", and the subjects. It is written by
// hand, and not derived from the table of roles. TestAttack has what the borders of accounts refuse.
const forbidden = `
agent pub weir.prod.heartbeat.web.i-02 weir.prod.heartbeat.batch.i-01 weir.prod.exited.web.i-02 weir.prod.node.web.i-02 weir.prod.lifecycle.web
agent pub dea.heartbeat droplet.exited health.start health.stop droplet.updated weir.prod.announce weir.other.heartbeat.web.i-01
agent pub weir.prod.agent.web.i-01.stop weir.prod.agent.web.i-02.fence weir.prod.agent.web.i-02.claim weir.prod.harmonizer.order
agent pub $KV.weir-apps_prod.shop $KV.weir-pool:prod:web.lease $JS.API.INFO $JS.API.STREAM.NAMES _INBOX.x _INBOX_weir.i-02.x _R_.x $SYS.REQ.SERVER.PING
agent sub > weir.> $JS.> _INBOX.> _INBOX_weir.> _R_.> weir.prod.agent.web.i-02.start weir.prod.agent.*.*.start weir.prod.heartbeat.web.* $SYS.>
pool pub $KV.weir-pool:prod:batch.lease $KV.weir-pool:prod:web.accept.x $KV.weir-placer:prod:web.lease $KV.weir-apps_prod.shop $SYS.REQ.SERVER.PING
pool pub $JS.API.STREAM.CREATE.other $JS.API.CONSUMER.CREATE.KV_weir-pool:prod:web.x $JS.API.STREAM.PURGE.weir-ledger:prod:web weir.prod.decision.batch
pool sub > $KV.> $JS.> _R_.> weir.prod.health.batch.order weir.prod.bootstrap.batch.logs
harmonizer pub $KV.weir-apps_prod.shop $KV.weir-harmonizer:prod.accept.x $KV.weir-pool:prod:web.lease weir.prod.heartbeat.web.i-01
scheduler pub weir.prod.node.web.i-01 weir.prod.heartbeat.web.i-01 weir.prod.placer.web.state weir.prod.exited.k8s.n1 weir.prod.agent.k8s.n1.start $KV.weir-placer:prod:web.lease
scheduler pub $KV.weir-placer:prod:k8s.assignment.x $KV.weir-pool:prod:k8s.lease $JS.API.DIRECT.GET.KV_weir-placer:prod:k8s health.stop weir.prod.placer.k8s.confirmed
scheduler sub weir.prod.agent.web.i-01.cordon weir.prod.agent.*.*.cordon weir.prod.placer.web.pending health.start weir.prod.node.k8s.*
placer pub $KV.weir-apps_prod.shop weir.prod.agent.batch.n1.start weir.prod.agent.web.i-01.fence
notify pub weir.prod.summary.web $KV.weir-pool:prod:web.order.x weir.prod.harmonizer.order
operator pub $KV.weir-pool:prod:web.lease $KV.weir-apps_prod.a.b weir.prod.decision.web weir.prod.agent.web.i-01.stop _R_.x
viewer pub $KV.weir-pool:prod:web.order.pause $KV.weir-apps_prod.shop weir.prod.harmonizer.order weir.prod.agent.web.i-01.logs
metrics pub $KV.weir-pool:prod:web.state $JS.API.INFO
admin pub health.stop weir.prod.heartbeat.web.i-01 $SYS.REQ.SERVER.PING
`

func (w *world) forbiddenActsAreRefused(t *testing.T) {
	acts := 0
	for line := range strings.Lines(forbidden) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		d := map[string]roles.Direction{"pub": roles.Publish, "sub": roles.Subscribe}[fields[1]]
		for _, subject := range fields[2:] {
			acts++
			refused, err := violation(w.conns[roles.Role(fields[0])], d, subject)
			if err != nil || refused == "" {
				t.Errorf("%s may %v %s (error %v)", fields[0], d, subject, err)
			}
		}
	}
	if acts < 70 {
		t.Errorf("%d forbidden acts, want at least 70", acts)
	}
}
