package natsconf_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

// TestAttack has each role try every way to reach every target that it must not reach, on three servers with the generated
// configuration. The attackers have no permissions of a user, except agents: the borders of the accounts hold alone. An attack
// is judged by its effects: what arrives at the victims, and what is stored.
func TestAttack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a fifth of the processor time was the collection of a small heap
	a := newArena(t)
	for _, u := range a.attackers() {
		t.Run(u.Name(), func(t *testing.T) { a.attack(t, u) })
	}
	t.Logf("%d acts, %d effects that are allowed", a.acts, a.allowed)
	if a.acts < 200_000 || a.allowed < 10_000 {
		t.Errorf("%d acts with %d allowed effects: want at least 200000 and 10000", a.acts, a.allowed)
	}
	t.Run("writes of others", a.hindersNobody)
	a.findsEffects(t) // last: its effects stay
}

// hindersNobody has a pool write with headers that name the harmonizer's lease, while the harmonizer renews it: each renewal
// succeeds, and is stored. In one bucket, half of them fail, and a repeated message id swallows them.
func (a *arena) hindersNobody(t *testing.T) {
	const lease, own, renewals = "$KV.weir-harmonizer:prod.lease", "$KV.weir-pool:prod:batch.state", 30
	thief := a.open(t, roles.User{Role: roles.Pool, Cluster: "prod", Pool: "batch"}.Account())
	ended, ctx := make(chan struct{}), t.Context()
	var flood sync.WaitGroup
	flood.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			default:
			}
			m := &nats.Msg{Subject: own, Reply: "_INBOX.thief", Header: nats.Header{
				"Nats-Expected-Last-Subject-Sequence-Subject": {lease}, "Nats-Expected-Last-Subject-Sequence": {"1"}, "Nats-Msg-Id": {fmt.Sprint("renewal", n%renewals)},
			}}
			if thief.PublishMsg(m) != nil || n%100 == 0 && thief.FlushTimeout(deadline) != nil {
				return
			}
		}
	})
	defer flood.Wait()
	defer close(ended)
	js, err := jetstream.New(a.open(t, roles.User{Role: roles.Harmonizer, Cluster: "prod"}.Account()))
	if err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	first, err := js.Publish(within, lease, []byte("taken"))
	if err != nil {
		t.Fatal(err)
	}
	revision := first.Sequence
	for n := range renewals {
		ack, err := js.Publish(within, lease, []byte("renewed"), jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithMsgID(fmt.Sprint("renewal", n)))
		if err != nil || ack.Duplicate {
			t.Fatalf("renewal %d: %v, duplicate %v", n, err, err == nil && ack.Duplicate)
		}
		revision = ack.Sequence
	}
}

// findsEffects has a user in the account of the streams try the same, as each daemon was before the borders. It must reach what
// a pool must not reach: otherwise the test finds nothing.
func (a *arena) findsEffects(t *testing.T) {
	wanted := []string{"direct get", "missing key", "batch", "info", "acknowledgement of a write", "push consumer"}
	found := map[string]bool{}
	ack := slices.IndexFunc(a.targets, func(target string) bool { return strings.HasPrefix(target, "$JS.ACK."+guarded) })
	before := a.unchanged(t) // also now, long after the last attacker
	if err := a.open(t, roles.AccountStore).Publish(a.targets[ack], nil); err != nil || !before {
		t.Errorf("the consumer of the admin is as before: %v; publish an acknowledgement: %v", before, err)
	}
	await.True(t, "a change of the admin's consumer by an acknowledgement without a border", func() bool { return !a.unchanged(t) })
	pool := roles.User{Role: roles.Pool, Cluster: "prod", Pool: "batch"}
	nc := a.open(t, roles.AccountStore)
	a.targets = slices.DeleteFunc(a.targets, func(target string) bool { return strings.HasPrefix(target, "$JS.") }) // they would end the streams
	for _, way := range ways(pool) {
		if !slices.Contains(wanted, way.name) {
			continue
		}
		a.try(t, nc, way)
		a.settle(t, nc)
		a.mu.Lock()
		for _, x := range a.arrived {
			if !a.reaches(pool, x.account, x.target) {
				found[way.name] = true
			}
		}
		a.mu.Unlock()
	}
	for _, name := range wanted {
		if !found[name] {
			t.Errorf("no effect of the way %q without a border", name)
		}
	}
}

// quiet ignores the servers' refusals.
func quiet(o *nats.Options) error {
	o.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {}
	return nil
}

const openUser = "open" // a user without permissions, which each account has in this test

// arena is a cluster with a victim in each account.
type arena struct {
	*bustest.Cluster
	users     []roles.User
	crossings []roles.Crossing
	targets   []string
	stored    []string       // subjects of streams and buckets
	ends      []string       // one of each stream
	written   map[string]int // by subject: messages that the test has stored
	admin     jetstream.JetStream

	mu      sync.Mutex
	arrived []arrival
	victims map[string]*nats.Conn // by account

	guarded jetstream.Consumer // of the admin, with one message that waits for its acknowledgement
	acts    int
	allowed int
}

// guarded is the stream and the name of the admin's consumer, in subjects.
const guarded = "weir-findings:prod.guarded"

// arrival is a message that a victim received on a target.
type arrival struct {
	account, target string
	message         *nats.Msg
}

var prod = natsconf.Cluster{Name: "prod", Pools: []natsconf.Pool{
	{Name: "batch", Nodes: []string{"b-01", "b-02"}}, {Name: "k8s", Scheduler: true}, {Name: "web", Nodes: []string{"i-01"}},
}}

// prodPools are the pools of prod.
func prodPools() []string { return []string{"batch", "k8s", "web"} }

func newArena(t *testing.T) *arena {
	t.Helper()
	a := &arena{victims: map[string]*nats.Conn{}, written: map[string]int{}, stored: stored("prod", prodPools())}
	a.Cluster = bustest.ServeEdited(t, addOpenUsers, prod)
	a.users = a.Site.Users()
	a.crossings = roles.Crossings(a.users)
	a.targets = targets(a.users)
	js, err := jetstream.New(a.open(t, roles.AccountStore))
	if err != nil {
		t.Fatal(err)
	}
	a.admin = js
	a.store(t)
	for _, u := range a.users {
		if a.victims[u.Account()] == nil {
			a.victims[u.Account()] = a.victim(t, u.Account())
		}
	}
	return a
}

// addOpenUsers adds a user without permissions to each account.
func addOpenUsers(accounts string) string {
	var out strings.Builder
	account := ""
	for line := range strings.Lines(accounts) {
		out.WriteString(line)
		if rest, ok := strings.CutPrefix(line, `  "`); ok {
			account, _, _ = strings.Cut(rest, `"`)
		}
		if strings.TrimSpace(line) == "users: [" && account != "" {
			fmt.Fprintf(&out, "      { user: %q, password: %q }\n", openUser+" "+account, openUser)
			account = ""
		}
	}
	return out.String()
}

// open returns a connection as the user without permissions.
func (a *arena) open(t *testing.T, account string) *nats.Conn {
	t.Helper()
	return bustest.Connect(t, a.URL(0), nats.UserInfo(openUser+" "+account, openUser), nats.Secure(a.TLS()), nats.Timeout(deadline), quiet)
}

// isEvent reports whether no daemon answers messages on a target: see bus.InboxConfig.
func isEvent(target string) bool {
	return slices.ContainsFunc(roles.Rows(), func(r roles.Row) bool {
		pattern := strings.NewReplacer("{cluster}", "prod", "{pool}", "*", "{node}", "*").Replace(r.Subject)
		return r.Answers == roles.NoAnswer && roles.Includes(pattern, target)
	})
}

// victim receives all targets in an account, and answers each request.
func (a *arena) victim(t *testing.T, account string) *nats.Conn {
	t.Helper()
	nc := a.open(t, account)
	for _, target := range a.targets {
		answers := !slices.Contains(a.stored, target) && !isEvent(target)
		if account == roles.AccountStore && (strings.HasPrefix(target, "$JS.API.") || strings.HasPrefix(target, "$KV.")) {
			continue // the stores answer; what they have done is read from them
		}
		if _, err := nc.Subscribe(target, func(m *nats.Msg) {
			a.mu.Lock()
			a.arrived = append(a.arrived, arrival{account, target, m})
			a.mu.Unlock()
			if m.Reply != "" && answers {
				_ = m.Respond([]byte("answer")) // the server may refuse it
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, nc)
	return nc
}

// store creates the streams and buckets, and one message of each subject.
func (a *arena) store(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for _, c := range storeOf("prod", prodPools()) {
		if _, err := a.admin.CreateStream(ctx, c); err != nil {
			t.Fatalf("create %s: %v", c.Name, err)
		}
		i := slices.IndexFunc(a.stored, func(subject string) bool { return roles.Includes(c.Subjects[0], subject) })
		a.ends = append(a.ends, a.stored[i])
	}
	a.write(t, a.stored)
	a.guard(t)
}

// guard makes the admin's consumer. Its acknowledgement is a target.
func (a *arena) guard(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	stream, name, _ := strings.Cut(guarded, ".")
	var err error
	a.guarded, err = a.admin.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.guarded.Next(jetstream.FetchMaxWait(deadline))
	if err != nil {
		t.Fatal(err)
	}
	a.targets = append(a.targets, m.Reply())
	for _, api := range []string{"DELETE", "PAUSE", "RESET", "UNPIN", "MSG.NEXT"} {
		a.targets = append(a.targets, "$JS.API.CONSUMER."+api+"."+guarded)
	}
}

// unchanged reports whether the message of the admin's consumer still waits.
func (a *arena) unchanged(t *testing.T) (unchanged bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	info, err := a.guarded.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return info.NumAckPending == 1 && info.Delivered.Consumer == 1 && info.AckFloor.Consumer == 0 && !info.Paused && info.NumWaiting == 0
}

// write stores a message of each of the subjects. It returns when all earlier messages of this server are stored too: they reach a
// stream in order.
func (a *arena) write(t *testing.T, subjects []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	acks := make([]jetstream.PubAckFuture, len(subjects))
	for i, subject := range subjects {
		var err error
		if acks[i], err = a.admin.PublishAsync(subject, []byte("own")); err != nil {
			t.Fatalf("publish %s: %v", subject, err)
		}
	}
	for i, ack := range acks {
		select {
		case <-ack.Ok():
			a.written[subjects[i]]++
		case err := <-ack.Err():
			t.Fatalf("publish %s: %v", subjects[i], err)
		case <-ctx.Done():
			t.Fatalf("publish %s: %v", subjects[i], ctx.Err())
		}
	}
}

// attackers are one user of each account that may be stolen, with the agent's own key.
func (a *arena) attackers() (all []roles.User) {
	for _, u := range a.users {
		if u.Role != roles.Admin && u.Pool != "web" && u.Node != "b-02" && (u.Pool != "k8s" || u.Role == roles.Scheduler) {
			all = append(all, u)
		}
	}
	return all
}

// together is how many ways are tried before what they did is judged: to wait for it takes as long as the acts.
const together = 6

func (a *arena) attack(t *testing.T, u roles.User) {
	nc := a.open(t, u.Account())
	if u.Role == roles.Agent {
		nc = a.Connect(t, u, quiet, nats.DontRandomize()) // to the server of the victims
	}
	for some := range slices.Chunk(ways(u), together) {
		a.try(t, nc, some...)
		a.settle(t, nc)
		a.judge(t, u, some)
	}
	a.judgeStores(t, u)
}

// try sends what the ways need to reach each target.
func (a *arena) try(t *testing.T, nc *nats.Conn, some ...way) {
	t.Helper()
	a.mu.Lock()
	a.arrived = nil
	a.mu.Unlock()
	for _, w := range some {
		for _, target := range a.targets {
			for _, m := range w.messages(target) {
				a.acts++
				if err := nc.PublishMsg(m); err != nil {
					t.Fatalf("%s: %v", w.name, err)
				}
			}
		}
	}
}

// settle waits until the sent messages have had their effects.
func (a *arena) settle(t *testing.T, nc *nats.Conn) {
	t.Helper()
	for range 2 { // to the servers, and back from responders and streams
		flush(t, nc)
		a.flushVictims(t)
	}
	a.write(t, a.ends)
	a.flushVictims(t)
}

// flushVictims flushes all victims at the same time: on a busy machine the round trips last longer than the acts.
func (a *arena) flushVictims(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for account, victim := range a.victims {
		all.Go(func() {
			if err := victim.FlushTimeout(deadline); err != nil {
				t.Errorf("flush the victim of account %s: %v", account, err)
			}
		})
	}
	all.Wait()
}

// judge reports what arrived at a victim that the user cannot reach by a plain publish.
func (a *arena) judge(t *testing.T, u roles.User, some []way) {
	t.Helper()
	var names []string
	for _, w := range some {
		names = append(names, w.name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.arrived {
		switch {
		case string(x.message.Data) == "own" && (x.account == roles.AccountStore || strings.HasPrefix(x.target, "weir.prod.live.") || strings.HasPrefix(x.target, "weir.prod.changed.")): // of settle
		case x.account == u.Account() && u.Role != roles.Agent: // its own account
		case a.reaches(u, x.account, x.target):
			a.allowed++
		default:
			m := x.message
			t.Errorf("one of %q: %s arrived in account %s: %v %.80q reply %s", names, x.target, x.account, m.Header, m.Data, m.Reply)
		}
	}
}

// reaches reports whether the user may send to a target in an account.
func (a *arena) reaches(u roles.User, account, target string) bool {
	if u.Role == roles.Agent && !u.Permissions().May(roles.Publish, target) {
		return false
	}
	own := u.Account()
	if account == own {
		return true
	}
	if subject, republished := strings.CutPrefix(target, "weir.prod.live."); republished { // by a stream that the user may write
		return a.reaches(u, roles.AccountStore, "weir.prod."+subject)
	}
	return slices.ContainsFunc(a.crossings, func(c roles.Crossing) bool {
		from, to := own, account // messages
		if c.Service {
			from, to = account, own
		}
		return c.From == from && slices.Contains(c.To, to) && roles.Includes(c.Subject, target)
	})
}

// judgeStores reports stored values that the user may not write, and streams and consumers that were made or are gone.
func (a *arena) judgeStores(t *testing.T, u roles.User) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var got, want []string
	for _, c := range storeOf("prod", prodPools()) {
		want = append(want, c.Name)
	}
	streams := a.admin.ListStreams(ctx)
	for info := range streams.Info() {
		got = append(got, info.Config.Name)
		s, err := a.admin.Stream(ctx, info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		full, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		consumers := 0
		if strings.HasPrefix(guarded, info.Config.Name+".") {
			consumers = 1
		}
		if full.State.Consumers != consumers {
			t.Errorf("stream %s has %d consumers, want %d", info.Config.Name, full.State.Consumers, consumers)
		}
		for subject, n := range full.State.Subjects {
			if int(n) != a.written[subject] && !a.reaches(u, roles.AccountStore, subject) {
				t.Errorf("stream %s has %d messages of %s, want %d", info.Config.Name, n, subject, a.written[subject])
			}
			a.written[subject] = int(n) // of this and earlier attackers
		}
	}
	if err := streams.Err(); err != nil {
		t.Fatal(err)
	}
	if !a.unchanged(t) {
		t.Error("the consumer of the admin is not as before")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("streams %q, want %q", got, want)
	}
}

// storeOf returns the streams and buckets of a cluster, as "weir nats streams" creates them. They keep all messages of a subject,
// because these are counted, and are in memory, because no disk is attacked.
func storeOf(cluster string, pools []string) (all []jetstream.StreamConfig) {
	c := streams.Cluster{Name: cluster, Replicas: 3}
	for _, pool := range pools {
		c.Pools = append(c.Pools, streams.Pool{Name: pool})
	}
	for _, config := range c.Specs() {
		config.MaxMsgsPerSubject, config.MaxBytes, config.Discard, config.Storage = -1, -1, jetstream.DiscardOld, jetstream.MemoryStorage
		all = append(all, config)
	}
	return all
}

// literal replaces the placeholders of a subject.
func literal(subject, cluster, pool string) string {
	node := map[string]string{"web": "i-01", "batch": "b-02", "k8s": "k-01"}[pool]
	return strings.NewReplacer("{cluster}", cluster, "{pool}", pool, "{node}", node).Replace(subject)
}

// stored returns a subject of each key and of each row that a stream stores.
func stored(cluster string, pools []string) (all []string) {
	for _, pool := range pools {
		for _, key := range roles.Keys() {
			all = append(all, concrete("$KV."+key.Bucket(cluster, pool)+"."+key.Name))
		}
		for _, s := range roles.Streams() {
			for _, subject := range s.Subjects {
				all = append(all, concrete(literal(subject, cluster, pool)))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// targets returns the subjects that are attacked.
func targets(users []roles.User) (all []string) {
	all = stored("prod", prodPools())
	for _, pool := range prodPools() {
		for _, row := range roles.Rows() {
			if !row.Legacy && !strings.HasPrefix(row.Subject, "$") {
				all = append(all, concrete(literal(row.Subject, "prod", pool)))
			}
		}
	}
	for _, c := range storeOf("prod", []string{"batch", "web"}) { // the attacker's own pool, and another one
		for _, api := range []string{"STREAM.DELETE.", "STREAM.PURGE.", "STREAM.UPDATE.", "STREAM.MSG.DELETE.", "STREAM.SNAPSHOT.", "STREAM.RESTORE.", "CONSUMER.CREATE."} {
			all = append(all, "$JS.API."+api+c.Name)
		}
		all = append(all, "$JS.ACK."+c.Name+".x.1.1.1.1.1", "$JS.EVENT.ADVISORY.STREAM.DELETED."+c.Name)
	}
	for _, u := range users {
		all = append(all, u.InboxPrefix()+".x.y")
	}
	all = append(all, "weir.prod.live.decision.web", "weir.prod.live.harmonizer.events", "weir.prod.changed.weir-apps_prod.$KV.weir-apps_prod.x",
		"$JS.API.META.LEADER.STEPDOWN", "_R_.abcdef.abcdef", "weir.other.heartbeat.web.i-01")
	slices.Sort(all)
	return slices.Compact(all)
}

// way is a way to have something arrive at a target.
type way struct {
	name     string
	messages func(target string) []*nats.Msg
}

// ways returns what a user can try. Each reply subject is the target.
func ways(u roles.User) (all []way) {
	var reads, writes, requests []string
	batches, streams := map[string]bool{}, map[string]bool{}
	for _, act := range u.Acts() {
		subject := concrete(act.Subject)
		parts := strings.Split(act.Subject, ".")
		switch {
		case act.Direction != roles.Publish:
		case strings.HasPrefix(subject, "$JS.API.DIRECT.GET.") && len(parts) > 5:
			reads = append(reads, subject)
		case strings.HasPrefix(subject, "$JS.API.DIRECT.GET."):
			batches[subject] = true
			streams[parts[4]] = true
		case strings.HasPrefix(subject, "$JS."):
		case act.Answers != roles.NoAnswer:
			requests = append(requests, subject)
			writes = append(writes, subject)
		default:
			writes = append(writes, subject)
		}
	}
	add := func(name string, subjects []string, body func(target string) string, headers ...func(target string) nats.Header) {
		all = append(all, way{name, func(target string) (messages []*nats.Msg) {
			for _, subject := range subjects {
				m := &nats.Msg{Subject: subject, Reply: target, Data: []byte(body(target))}
				if len(headers) > 0 {
					m.Header = headers[0](target)
				}
				messages = append(messages, m)
			}
			return messages
		}})
	}
	attack := func(string) string { return "attack" }
	text := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(data)
	}
	type object = map[string]any
	every := []string{"KV_weir-pool:prod:web", "KV_weir-apps_prod", "weir-findings:prod"} // another pool's bucket, the cluster's, a stream
	apis := func(name string) (subjects []string) {
		for _, stream := range every {
			subjects = append(subjects, "$JS.API."+name+"."+stream)
		}
		return subjects
	}
	all = append(all, way{"publish", func(target string) []*nats.Msg { return []*nats.Msg{{Subject: target, Data: []byte("attack")}} }})
	add("direct get", first(reads, 4), attack)
	add("missing key", []string{"$JS.API.DIRECT.GET.KV_weir-pool:prod:batch.$KV.weir-pool:prod:batch.drain.none", "$JS.API.DIRECT.GET.KV_weir-apps_prod.$KV.weir-apps_prod.none"}, attack)
	add("batch", append(keys(batches), apis("DIRECT.GET")...), func(string) string { return `{"next_by_subj":">","batch":3}` })
	add("info", append(apis("STREAM.INFO"), "$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST"), attack)
	add("acknowledgement of a write", first(writes, 4), attack)
	add("answer to a request", requests, attack)
	add("read by the leader", apis("STREAM.MSG.GET"), func(string) string { return `{"seq":1}` })
	add("refused API", append(apis("STREAM.DELETE"), apis("STREAM.PURGE")...), attack)
	consumer := func(config object) func(string) string {
		return func(target string) string {
			config["deliver_subject"] = target
			return text(object{"stream_name": every[0], "config": config})
		}
	}
	add("push consumer", append(apis("CONSUMER.CREATE"), apis("CONSUMER.DURABLE.CREATE")...), consumer(object{"ack_policy": "none", "deliver_policy": "all"}))
	add("named push consumer", []string{"$JS.API.CONSUMER.CREATE.KV_weir-apps_prod.x.$KV.weir-apps_prod.>", "$JS.API.CONSUMER.CREATE.weir-findings:prod.notify"}, consumer(object{"name": "x", "ack_policy": "none"}))
	add("pull", []string{"$JS.API.CONSUMER.MSG.NEXT." + guarded, "$JS.API.CONSUMER.MSG.NEXT.KV_weir-apps_prod.x"}, func(string) string { return `{"batch":3}` })
	create := func(config func(target string) object) {
		n := 0
		add("stream of one's own", []string{"$JS.API.STREAM.CREATE.own", "$JS.API.STREAM.UPDATE.weir-notices:prod"}, func(target string) string {
			n++
			c := config(target)
			c["name"] = "own"
			return text(c)
		})
	}
	create(func(target string) object {
		return object{"subjects": []string{"own.>"}, "sources": []object{{"name": "KV_weir-pool:prod:web"}}}
	})
	create(func(target string) object {
		return object{"subjects": []string{"own.>"}, "republish": object{"src": ">", "dest": target}}
	})
	create(func(target string) object {
		return object{"subjects": []string{"own.>"}, "subject_transform": object{"src": "own.*", "dest": target}}
	})
	for name, header := range map[string]func(target string) nats.Header{
		"trace": func(target string) nats.Header { return nats.Header{"Nats-Trace-Dest": {target}} },
		"trace only": func(target string) nats.Header {
			return nats.Header{"Nats-Trace-Dest": {target}, "Nats-Trace-Only": {"true"}}
		},
		"schedule": func(target string) nats.Header {
			return nats.Header{"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {target}}
		},
		"roll-up": func(string) nats.Header { return nats.Header{"Nats-Rollup": {"all"}} },
		"purge of a key": func(string) nats.Header {
			return nats.Header{"Kv-Operation": {"PURGE"}, "KV-Operation": {"PURGE"}, "Nats-Rollup": {"sub"}}
		},
		"delete marker": func(string) nats.Header { return nats.Header{"KV-Operation": {"DEL"}, "Nats-Marker-Reason": {"Purge"}} },
		"end of life":   func(string) nats.Header { return nats.Header{"Nats-TTL": {"1h"}} }, // a shorter one would end in the count of another attacker
		"counter":       func(string) nats.Header { return nats.Header{"Nats-Incr": {"+1"}} },
		"atomic batch": func(target string) nats.Header {
			return nats.Header{"Nats-Batch-Id": {"own"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}, "Nats-Expected-Last-Subject-Sequence-Subject": {target}}
		},
		"forged headers": func(target string) nats.Header {
			return nats.Header{"Nats-Subject": {target}, "Nats-Stream": {"KV_weir-pool:prod:web"}, "Nats-Sequence": {"1"}, "Nats-Reply": {target}}
		},
	} {
		add(name, append(first(writes, 1), first(reads, 1)...), attack, header)
		all = append(all, way{name + " at the target", func(target string) []*nats.Msg {
			return []*nats.Msg{{Subject: target, Data: []byte("attack"), Header: header(target)}}
		}})
	}
	return append(all, chain(first(writes, 2), first(reads, 2)))
}

// chain has a message stored that has the form of a row of another pool, with headers of the server that name the target. Its reads
// are answered to the target, and to the user's own imports with the target as the next reply; its writes are too.
func chain(writes, reads []string) way {
	return way{"chain", func(target string) (messages []*nats.Msg) {
		header := nats.Header{"Nats-Subject": {target}, "Nats-Stream": {"KV_weir-apps_prod"}, "Nats-Reply": {target}, "Reply-To": {target}}
		row := []byte(`{"name":"probe","pool":"web","instances":1,"version":"v1","command":"attack"}`)
		for _, write := range writes {
			for _, next := range append([]string{target}, reads...) {
				messages = append(messages, &nats.Msg{Subject: write, Reply: next, Data: row, Header: header})
			}
		}
		for _, read := range reads {
			for _, next := range append([]string{target}, writes...) {
				messages = append(messages, &nats.Msg{Subject: read, Reply: next, Data: row, Header: header})
			}
		}
		return messages
	}}
}

func first(list []string, n int) []string { return slices.Clone(list[:min(n, len(list))]) }

func keys(set map[string]bool) (all []string) {
	for key := range set {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

func flush(t *testing.T, nc *nats.Conn) {
	t.Helper()
	if err := nc.FlushTimeout(deadline); err != nil {
		t.Fatal(err)
	}
}

// concrete returns one subject of a pattern.
func concrete(subject string) string { return concreteOf(subject, "web") }

func concreteOf(subject, pool string) string {
	subject = literal(subject, "prod", pool)
	return strings.NewReplacer("*", "probe", ">", "probe").Replace(subject)
}

// deadline bounds one act on a busy machine.
const deadline = await.Patience
