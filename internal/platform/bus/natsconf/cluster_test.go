package natsconf_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// deadline bounds one act on a busy machine.
const deadline = await.Patience

// world is the cluster of servers with a connection of each role.
type world struct {
	*bustest.Cluster
	users map[roles.Role]roles.User
	conns map[roles.Role]*nats.Conn
}

// TestRoles runs all tests of permissions on one cluster of three servers with TLS and the generated configuration.
func TestRoles(t *testing.T) {
	w := &world{users: map[roles.Role]roles.User{}, conns: map[roles.Role]*nats.Conn{}}
	w.Cluster = bustest.ServeCluster(t, false, natsconf.Cluster{
		Name:       "prod",
		Pools:      []natsconf.Pool{{Name: "batch"}, {Name: "web", Nodes: []string{"i-01"}}},
		LegacyDEAs: []string{"dea-1"},
	})
	for _, u := range w.Site.Users() {
		if u.Pool != "batch" {
			w.users[u.Role], w.conns[u.Role] = u, w.Connect(t, u, w.firstServer, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		}
	}
	t.Run("every row delivers", w.rowsDeliver)
	t.Run("needed acts pass", w.neededActsPass)
	t.Run("every permission passes", w.everyPermissionPasses)
	t.Run("forbidden acts are refused", w.forbiddenActsAreRefused)
	t.Run("ways round", w.waysRound)
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

// concrete returns one subject of a row.
func concrete(subject string) string {
	subject = strings.NewReplacer("{cluster}", "prod", "{pool}", "web", "{node}", "i-01").Replace(subject)
	return strings.NewReplacer("*", "probe", ">", "probe").Replace(subject)
}

// rowsDeliver sends a message of each row from each of its publishers to each of its subscribers, also from account to
// account. If the row has answers, it waits for two.
func (w *world) rowsDeliver(t *testing.T) {
	acts := 0
	for _, row := range roles.Rows() {
		if strings.HasPrefix(row.Subject, "$") {
			continue // of servers
		}
		subject := concrete(row.Subject)
		for _, to := range row.Subscribe {
			for _, from := range row.Publish {
				acts++
				if err := w.deliver(row, subject, from, to); err != nil {
					t.Errorf("%s from %s to %s: %v", subject, from, to, err)
				}
			}
		}
	}
	t.Logf("%d messages", acts)
}

func (w *world) deliver(row roles.Row, subject string, from, to roles.Role) error {
	sender, receiver := w.conns[from], w.conns[to]
	token := nats.NewInbox()
	arrived := make(chan error, 1)
	sub, err := receiver.Subscribe(subject, func(m *nats.Msg) {
		if string(m.Data) != token {
			return // of another process
		}
		var err error
		if m.Subject != subject {
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

// step is an act as a process does it.
type step struct {
	role roles.Role
	name string
	do   func(ctx context.Context, js jetstream.JetStream) error
}

func bucketConfig(bucket string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, Replicas: 3,
		AllowDirect: true, DenyDelete: true, DenyPurge: true, AllowMsgTTL: true,
	}
}

// create creates a stream. The servers of a new cluster can lose the answer, and then the stream is read, as
// kvbucket.Ensure does.
func create(c jetstream.StreamConfig) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		bounded, cancel := context.WithTimeout(ctx, deadline/4)
		defer cancel()
		_, err := js.CreateStream(bounded, c)
		if errors.Is(err, context.DeadlineExceeded) {
			_, err = js.Stream(ctx, c.Name)
		}
		return err
	}
}

// rewrite creates, updates and reads a key.
func rewrite(bucket, key string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		kv, err := js.KeyValue(ctx, bucket)
		if err != nil {
			return err
		}
		revision, err := kv.Create(ctx, key, []byte("1"))
		if err == nil {
			_, err = kv.Update(ctx, key, []byte("2"), revision)
		}
		// A new leader of the stream may not have applied the last write yet.
		for errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			var e jetstream.KeyValueEntry
			if e, err = kv.Get(ctx, key); err == nil {
				_, err = kv.Update(ctx, key, []byte("2"), e.Revision())
			}
		}
		if err != nil {
			return err
		}
		return get(bucket, key)(ctx, js)
	}
}

func put(bucket, key string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		kv, err := js.KeyValue(ctx, bucket)
		if err == nil {
			_, err = kv.Put(ctx, key, []byte("3"))
		}
		return err
	}
}

// get reads a key from any replica, which may lag behind.
func get(bucket, key string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		kv, err := js.KeyValue(ctx, bucket)
		if err == nil {
			_, err = kv.Get(ctx, key)
		}
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		return err
	}
}

// list reads the subjects of a bucket, and one of its keys, as package integrity does.
func list(bucket, filter, key string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, "KV_"+bucket)
		if err != nil {
			return err
		}
		subject := "$KV." + bucket + "."
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject+filter))
		if err != nil {
			return err
		}
		if info.State.Subjects[subject+key] != 1 {
			return fmt.Errorf("key %s is not listed: %v", key, info.State.Subjects)
		}
		return get(bucket, key)(ctx, js)
	}
}

func watch(bucket, filter string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		kv, err := js.KeyValue(ctx, bucket)
		if err != nil {
			return err
		}
		w, err := kv.Watch(ctx, filter)
		if err != nil {
			return err
		}
		for {
			select {
			case e := <-w.Updates():
				if e == nil { // the end of the existing keys
					return w.Stop()
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// unmark deletes a key by a marker that expires.
func unmark(bucket, key string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		m := &nats.Msg{Subject: "$KV." + bucket + "." + key, Header: nats.Header{"KV-Operation": {"DEL"}, "Nats-TTL": {"1h"}}}
		_, err := js.PublishMsg(ctx, m)
		return err
	}
}

func publish(subject string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.Publish(ctx, subject, []byte("record"))
		return err
	}
}

func lastOf(stream, subject string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		_, err = s.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // the replica lags behind
			err = nil
		}
		return err
	}
}

// batch reads two records of a stream by one direct get. The last message of the answer is empty.
func batch(stream, subject string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		inbox := js.Conn().NewRespInbox()
		sub, err := js.Conn().SubscribeSync(inbox)
		if err != nil {
			return err
		}
		defer sub.Unsubscribe()
		body := `{"seq":1,"batch":2,"next_by_subj":"` + subject + `"}`
		if err := js.Conn().PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, []byte(body)); err != nil {
			return err
		}
		for records := 0; ; records++ {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return err
			}
			if len(m.Data) > 0 {
				continue
			}
			if status := m.Header.Get("Status"); status != "204" && status != "404" || status == "204" && records != 2 {
				return fmt.Errorf("%d records, then %v", records, m.Header)
			}
			return nil
		}
	}
}

// records reads a stream by an ordered consumer.
func records(stream, subject string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		c, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
		if err != nil {
			return err
		}
		if _, err := c.Info(ctx); err != nil {
			return err
		}
		messages, err := c.Messages()
		if err != nil {
			return err
		}
		defer messages.Stop()
		_, err = messages.Next(jetstream.NextContext(ctx))
		return err
	}
}

// consume creates a durable consumer, takes a message, and waits until the server has its acknowledgement.
func consume(stream, durable string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1})
		if err == nil {
			c, err = s.Consumer(ctx, durable)
		}
		if err != nil {
			return err
		}
		messages, err := c.Messages(jetstream.PullMaxMessages(1))
		if err != nil {
			return err
		}
		defer messages.Stop()
		for {
			m, err := messages.Next(jetstream.NextContext(ctx))
			if err != nil {
				return err
			}
			if meta, err := m.Metadata(); err != nil || meta.NumDelivered > 1 {
				return errors.Join(err, m.DoubleAck(ctx))
			}
			if err := m.Nak(); err != nil {
				return err
			}
		}
	}
}

func streamNames(want string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		all := js.StreamNames(ctx)
		found := false
		for name := range all.Name() {
			found = found || name == want
		}
		if !found {
			return errors.Join(all.Err(), errors.New("stream "+want+" is not listed"))
		}
		return all.Err()
	}
}

var (
	state, orders, apps = names.StateBucket("prod"), names.OrdersBucket("prod"), names.AppsBucket("prod")
	ledger, evidence    = names.LedgerStream("prod", "web"), names.EvidenceStream("prod", "web")
	summaries           = names.SummaryStream("prod", "web")
	findings, notices   = names.FindingsStream("prod"), names.NoticesStream("prod")
)

// steps are what the processes do with JetStream, in order.
func steps() []step {
	record, proof, summary := "weir.prod.decision.web", "weir.prod.evidence.web.i-01", "weir.prod.summary.web"
	stream := func(name string, subjects ...string) jetstream.StreamConfig {
		return jetstream.StreamConfig{Name: name, Subjects: subjects, Replicas: 3, AllowDirect: true, DenyDelete: true, DenyPurge: true}
	}
	all := []step{
		{roles.Pool, "create the state bucket", create(bucketConfig(state))},
		{roles.Pool, "create the orders bucket", create(bucketConfig(orders))},
		{roles.Harmonizer, "create the apps bucket", create(bucketConfig(apps))},
		{roles.Pool, "create the ledger", create(stream(ledger, record, record+".part"))},
		{roles.Pool, "create the evidence", create(stream(evidence, "weir.prod.evidence.web.*"))},
		{roles.Harmonizer, "create an existing bucket again", create(bucketConfig(state))},

		{roles.Pool, "write the schema", rewrite(state, "schema")},
		{roles.Pool, "hold the lease", rewrite(state, "lease.pool.web")},
		{roles.Pool, "save the state", rewrite(state, "pool.web")},
		{roles.Pool, "save node health", rewrite(state, "health.web")},
		{roles.Pool, "save a drain record", rewrite(state, "drain.web.i-01")},
		{roles.Pool, "save a drain record of a node with dots", rewrite(state, "drain.web.a.b/c=d")},
		{roles.Pool, "save a trial", rewrite(state, "trial.web.app")},
		{roles.Pool, "save a first-seen digest", rewrite(state, "seen.a.b")},
		{roles.Pool, "raise an alarm", rewrite(state, "alarm.pool.web")},
		{roles.Pool, "watch drain records", watch(state, "drain.web.>")},
		{roles.Pool, "list drain records", list(state, "drain.web.>", "drain.web.i-01")},
		{roles.Pool, "delete a drain record", unmark(state, "drain.web.i-01")},
		{roles.Pool, "append to the ledger", publish(record)},
		{roles.Pool, "append a part", publish(record + ".part")},
		{roles.Pool, "append another", publish(record)},
		{roles.Pool, "read the last record", lastOf(ledger, record)},
		{roles.Pool, "read records by a consumer", records(ledger, record)},
		{roles.Pool, "read records by a batch", batch(ledger, record)},
		{roles.Pool, "save evidence", publish(proof)},
		{roles.Pool, "read evidence", lastOf(evidence, proof)},

		{roles.Harmonizer, "hold the lease", rewrite(state, "lease.harmonizer")},
		{roles.Harmonizer, "save its memory", rewrite(state, "harmonizer.apps.0f")},
		{roles.Harmonizer, "raise an alarm", rewrite(state, "alarm.apps")},
		{roles.Harmonizer, "list its memory", list(state, "harmonizer.>", "harmonizer.apps.0f")},
		{roles.Harmonizer, "watch its memory", watch(state, "harmonizer.>")},
		{roles.Placer, "hold the lease", rewrite(state, "lease.placer.web")},
		{roles.Placer, "save an assignment", rewrite(state, "placer.web.app.0")},
		{roles.Placer, "watch its assignments", watch(state, "placer.web.>")},

		{roles.Operator, "write an app", rewrite(apps, "shop")},
		{roles.Operator, "list apps", list(apps, ">", "shop")},
		{roles.Operator, "pause a pool", rewrite(orders, "order.web.pause")},
		{roles.Operator, "order a removal", rewrite(orders, "order.web.remove.i-01")},
		{roles.Operator, "list orders", list(orders, "order.web.>", "order.web.pause")},
		{roles.Operator, "accept a loss", rewrite(orders, "accept.apps")},
		{roles.Operator, "accept a loss of a pool", rewrite(orders, "accept.pool.web")},
		{roles.Operator, "forget a release", put(state, "seen.a.b")},
		{roles.Operator, "read a lease", get(state, "lease.pool.web")},
		{roles.Operator, "list alarms", list(state, "alarm.>", "alarm.apps")},
		{roles.Operator, "delete an app", unmark(apps, "shop")},
		{roles.Operator, "list streams", streamNames(ledger)},
		{roles.Operator, "read the last record", lastOf(ledger, record)},
		{roles.Operator, "read records by a batch", batch(ledger, record)},
		{roles.Operator, "read evidence", lastOf(evidence, proof)},

		{roles.Pool, "watch its orders", watch(orders, "order.web.>")},
		{roles.Pool, "list its orders", list(orders, "order.web.>", "order.web.pause")},
		{roles.Pool, "end an order", unmark(orders, "order.web.pause")},
		{roles.Pool, "read the accepted loss", get(orders, "accept.pool.web")},
		{roles.Harmonizer, "read the accepted loss", get(orders, "accept.apps")},
		{roles.Harmonizer, "watch apps", watch(apps, ">")},
		{roles.Harmonizer, "list apps", list(apps, ">", "shop")},
		{roles.Placer, "watch apps", watch(apps, ">")},

		{roles.Viewer, "list apps", list(apps, ">", "shop")},
		{roles.Viewer, "list the state", list(state, ">", "pool.web")},
		{roles.Viewer, "list orders", list(orders, ">", "accept.apps")},
		{roles.Viewer, "read a lease", get(state, "lease.harmonizer")},
		{roles.Viewer, "list streams", streamNames(ledger)},
		{roles.Viewer, "read the last record", lastOf(ledger, record)},
		{roles.Viewer, "read records by a batch", batch(ledger, record)},

		{roles.Notify, "create the notices", create(stream(notices, "weir.prod.notice", "weir.prod.notice.*"))},
		{roles.Notify, "create the findings", create(stream(findings, "weir.prod.harmonizer.events", "weir.prod.health.*.events"))},
		{roles.Notify, "list streams", streamNames(ledger)},
		{roles.Pool, "create the summaries", create(stream(summaries, summary))},
		{roles.Pool, "append a summary", publish(summary)},
		{roles.Pool, "append another", publish(summary)},
		{roles.Notify, "read the last summary", lastOf(summaries, summary)},
		{roles.Notify, "read summaries by a batch", batch(summaries, summary)},
		{roles.Pool, "publish a finding", publish("weir.prod.health.web.events")},
		{roles.Notify, "consume a finding", consume(findings, "notify")},
		{roles.Notify, "publish a notice", publish("weir.prod.notice.web")},
		{roles.Notify, "read the last notice", lastOf(notices, "weir.prod.notice.web")},
		{roles.Notify, "consume a notice", consume(notices, "pager")},
		{roles.Notify, "delete a consumer", func(ctx context.Context, js jetstream.JetStream) error {
			s, err := js.Stream(ctx, notices)
			if err != nil {
				return err
			}
			all := s.ConsumerNames(ctx)
			for name := range all.Name() {
				err = errors.Join(err, s.DeleteConsumer(ctx, name))
			}
			return errors.Join(err, all.Err())
		}},

		{roles.Admin, "raise the replicas", func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.UpdateStream(ctx, stream(evidence, "weir.prod.evidence.web.*"))
			return err
		}},
		{roles.Admin, "write any key", rewrite(state, "lease.pool.batch")},
		{roles.Admin, "watch all keys", watch(state, ">")},
		{roles.Admin, "copy a record", publish(record)},
	}
	for _, r := range []roles.Role{roles.Pool, roles.Harmonizer, roles.Placer, roles.Notify, roles.Operator, roles.Viewer, roles.Admin} {
		all = append(all, step{r, "read the account", func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.AccountInfo(ctx)
			return err
		}})
	}
	return all
}

func (w *world) neededActsPass(t *testing.T) {
	for _, s := range steps() {
		js, err := jetstream.New(w.conns[s.role])
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		if err := s.do(ctx, js); err != nil {
			t.Errorf("%s: %s: %v (last error of the connection: %v)", s.role, s.name, err, w.conns[s.role].LastError())
		}
		cancel()
	}
	if n := len(steps()); n < 55 {
		t.Errorf("%d needed acts, want at least 55", n)
	}
}

func (w *world) everyPermissionPasses(t *testing.T) {
	acts := 0
	for r, u := range w.users {
		for _, x := range u.Probes() {
			if x.Direction == roles.Publish && (strings.HasPrefix(x.Subject, "$KV.") || strings.HasPrefix(x.Subject, "weir.prod.decision") || strings.HasPrefix(x.Subject, "weir.prod.evidence")) {
				continue // these acts write, and neededActsPass has them
			}
			acts++
			if refused, err := violation(w.conns[r], x.Direction, x.Subject); refused != "" || err != nil {
				t.Errorf("%s: %v %s: %s %v", u.Name(), x.Direction, x.Subject, refused, err)
			}
		}
	}
	t.Logf("%d acts", acts)
}
