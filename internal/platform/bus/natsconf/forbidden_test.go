package natsconf_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// forbidden lists acts that a server must refuse: the role, "pub" or "sub", and the subjects. It is written by hand, and
// not derived from the table of roles.
const forbidden = `
agent pub weir.prod.heartbeat.i-02 weir.prod.exited.i-02 weir.prod.node.i-02 weir.prod.lifecycle.i-02 weir.prod.lifecycle
agent pub dea.heartbeat droplet.exited health.start health.stop droplet.updated weir.prod.announce weir.other.heartbeat.i-01
agent pub weir.prod.agent.web.i-01.stop weir.prod.agent.web.i-02.fence weir.prod.harmonizer.order weir.prod.health.web.order
agent pub $KV.weir-orders_prod.order.web.pause $KV.weir-apps_prod.shop $KV.weir-state_prod.lease.pool.web weir.prod.decision.web
agent pub $JS.API.INFO $JS.API.STREAM.INFO.KV_weir-state_prod $JS.API.STREAM.NAMES $JS.API.CONSUMER.CREATE.KV_weir-state_prod.x
agent pub _INBOX_weir.prod.harmonizer.x _INBOX_weir.prod.pool.batch.x _INBOX.x weir.prod.metrics.write $SYS.REQ.SERVER.PING
agent sub > weir.> $JS.> $KV.> _INBOX.> _R_.> weir.prod.agent.web.i-02.start weir.prod.agent.*.*.start weir.prod.agent.web.i-01.>
agent sub weir.prod.heartbeat.* weir.prod.node.* _INBOX_weir.prod.pool.web.> health.start $SYS.>

pool pub $KV.weir-state_prod.lease.pool.batch $KV.weir-state_prod.pool.batch $KV.weir-state_prod.drain.batch.n1
pool pub $KV.weir-state_prod.lease.harmonizer $KV.weir-state_prod.lease.placer.web $KV.weir-state_prod.identity.i-01
pool pub $KV.weir-orders_prod.order.batch.pause $KV.weir-orders_prod.accept.pool.web $KV.weir-apps_prod.shop $KV.weir-state_other.pool.web
pool pub $JS.API.DIRECT.GET.KV_weir-state_prod.$KV.weir-state_prod.pool.batch $JS.API.DIRECT.GET.KV_weir-state_prod
pool pub $JS.API.CONSUMER.CREATE.KV_weir-state_prod.x.$KV.weir-state_prod.> $JS.API.CONSUMER.CREATE.KV_weir-state_prod.x
pool pub $JS.API.CONSUMER.CREATE.KV_weir-state_prod $JS.API.CONSUMER.DURABLE.CREATE.KV_weir-state_prod.x
pool pub $JS.API.STREAM.PURGE.KV_weir-state_prod $JS.API.STREAM.DELETE.KV_weir-state_prod $JS.API.STREAM.UPDATE.KV_weir-state_prod
pool pub $JS.API.STREAM.MSG.GET.KV_weir-state_prod $JS.API.STREAM.INFO.KV_weir_other $JS.API.STREAM.MSG.DELETE.KV_weir-state_prod $JS.API.STREAM.CREATE.KV_weir-apps_prod $JS.API.STREAM.CREATE.other
pool pub $JS.API.STREAM.PURGE.weir-ledger:prod:web $JS.API.STREAM.UPDATE.weir-ledger:prod:web $JS.API.STREAM.DELETE.weir-evidence:prod:web
pool pub $JS.API.STREAM.INFO.weir-ledger:prod:batch $JS.API.DIRECT.GET.weir-ledger:prod:batch weir.prod.decision.batch weir.prod.evidence.batch.n1
pool pub health.start health.stop droplet.updated weir.prod.agent.batch.n1.fence weir.prod.agent.web.i-01.start weir.prod.heartbeat.i-01
pool pub weir.prod.health.batch.order weir.prod.harmonizer.order _INBOX_weir.prod.harmonizer.x $SYS.REQ.SERVER.PING $JS.API.META.LEADER.STEPDOWN
pool sub > _INBOX.> _INBOX_weir.prod.pool.batch.> _INBOX_weir.prod.pool.> weir.prod.health.batch.order weir.prod.bootstrap.batch.logs $KV.> $JS.>

harmonizer pub $KV.weir-apps_prod.shop $KV.weir-state_prod.lease.pool.web $KV.weir-state_prod.pool.web $KV.weir-orders_prod.order.web.pause
harmonizer pub weir.prod.agent.web.i-01.stop weir.prod.heartbeat.i-01 weir.prod.exited.i-01 weir.prod.node.i-01 dea.heartbeat weir.prod.decision.web
harmonizer pub $JS.API.STREAM.PURGE.KV_weir-apps_prod $JS.API.STREAM.DELETE.KV_weir-apps_prod $JS.API.STREAM.UPDATE.KV_weir-apps_prod
harmonizer sub > _INBOX.> _INBOX_weir.prod.pool.web.> weir.prod.health.web.order weir.prod.agent.web.i-01.start

placer pub $KV.weir-apps_prod.shop $KV.weir-state_prod.lease.harmonizer $KV.weir-state_prod.placer.batch.app weir.prod.agent.web.i-01.fence
placer pub health.start health.stop weir.prod.agent.batch.n1.start $JS.API.STREAM.PURGE.KV_weir-state_prod $JS.API.STREAM.CREATE.KV_weir-apps_prod
placer sub > _INBOX.> _INBOX_weir.prod.placer.batch.> weir.prod.harmonizer.order

notify pub weir.prod.summary.web weir.prod.health.web.events weir.prod.harmonizer.events weir.prod.harmonizer.order weir.prod.heartbeat.i-01 health.stop
notify pub $KV.weir-orders_prod.order.web.pause $KV.weir-state_prod.pool.web $JS.API.DIRECT.GET.KV_weir-state_prod $JS.API.DIRECT.GET.weir-ledger:prod:web
notify pub $JS.API.CONSUMER.CREATE.weir-findings:prod.other $JS.API.CONSUMER.DELETE.weir-findings:prod.notify $JS.API.CONSUMER.CREATE.weir-summaries:prod:web.notify
notify pub $JS.API.CONSUMER.CREATE.weir-notices:prod $JS.API.STREAM.DELETE.weir-notices:prod $JS.API.STREAM.PURGE.weir-notices:prod $JS.API.STREAM.UPDATE.weir-notices:prod
notify pub $JS.ACK.KV_weir-state_prod.x.1.1.1.1.1 $JS.API.STREAM.CREATE.weir-ledger:prod:web _INBOX_weir.prod.pool.web.x
notify sub > weir.> _INBOX.> weir.prod.heartbeat.* weir.prod.harmonizer.events _INBOX_weir.prod.pool.web.>
pool pub weir.prod.notice weir.prod.notice.web $JS.API.STREAM.INFO.weir-notices:prod
harmonizer pub weir.prod.notice weir.prod.notice.web
viewer pub weir.prod.notice weir.prod.notice.web $JS.API.CONSUMER.CREATE.weir-notices:prod.x

operator pub $KV.weir-state_prod.lease.pool.web $KV.weir-state_prod.pool.web $KV.weir-orders_prod.schema weir.prod.decision.web weir.prod.heartbeat.i-01
operator pub weir.prod.agent.web.i-01.stop weir.prod.agent.web.i-01.fence health.stop weir.prod.announce _R_.x _INBOX_weir.prod.pool.web.x
operator pub $JS.API.STREAM.DELETE.KV_weir-state_prod $JS.API.STREAM.PURGE.KV_weir-orders_prod $JS.API.STREAM.CREATE.KV_weir-state_prod
operator pub $JS.API.CONSUMER.CREATE.KV_weir-apps_prod.x.$KV.weir-apps_prod.> $JS.API.CONSUMER.CREATE.weir-ledger:prod:web.x.weir.prod.decision.web
operator sub > weir.> weir.prod.heartbeat.* weir.prod.agent.web.i-01.logs _R_.> weir.prod.harmonizer.order

viewer pub $KV.weir-orders_prod.order.web.pause $KV.weir-apps_prod.shop $KV.weir-state_prod.seen.a weir.prod.harmonizer.order weir.prod.health.web.order
viewer pub weir.prod.bootstrap.web.restart weir.prod.bootstrap.web.logs weir.prod.agent.web.i-01.logs weir.prod.metrics.write droplet.updated
viewer pub $JS.API.CONSUMER.CREATE.weir-ledger:prod:web.x.weir.prod.decision.web $JS.API.CONSUMER.CREATE.KV_weir-state_prod.x weir.prod.lifecycle
viewer pub $JS.API.STREAM.MSG.GET.KV_weir-state_prod $JS.API.STREAM.CREATE.weir-ledger:prod:web $JS.API.STREAM.PURGE.KV_weir-apps_prod
viewer sub > weir.> _R_.> weir.prod.heartbeat.* weir.prod.node.*

legacydea pub weir.prod.heartbeat.dea-1 health.stop $KV.weir-apps_prod.shop $JS.API.INFO droplet.updated
legacydea sub > dea.heartbeat dea.dea-2.start health.start _INBOX.>
metrics pub $KV.weir-state_prod.pool.web health.stop weir.prod.heartbeat.i-01 $JS.API.INFO
metrics sub > weir.prod.heartbeat.* _INBOX.>
admin pub health.stop weir.prod.heartbeat.i-01 weir.prod.agent.web.i-01.fence $SYS.REQ.SERVER.PING
admin sub > _INBOX.> _INBOX_weir.prod.pool.web.> weir.prod.heartbeat.*
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
	t.Logf("%d acts", acts)
	if acts < 70 {
		t.Errorf("%d forbidden acts, want at least 70", acts)
	}
}

// waysRound proves that no role gets around its permissions by what a server does in its name.
func (w *world) waysRound(t *testing.T) {
	t.Run("rollup header", w.rollupIsRefused)
	t.Run("reply of a read", w.readsReplyInTheirAccount)
	t.Run("deliver subject", w.consumersNeedTheAccount)
	t.Run("foreign reply", w.respondersAnswerInboxesOnly)
	t.Run("purge with a filter", w.purgeIsRefused)
}

func (w *world) js(t *testing.T, r roles.Role) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(w.conns[r])
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// A write with a rollup header would replace all keys of the bucket by one.
func (w *world) rollupIsRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	before := w.count(ctx, t)
	for _, scope := range []string{"all", "sub"} {
		m := &nats.Msg{Subject: "$KV." + state + ".pool.web", Header: nats.Header{"Nats-Rollup": {scope}}, Data: []byte("x")}
		_, err := w.js(t, roles.Pool).PublishMsg(ctx, m)
		if e, ok := errors.AsType[*jetstream.APIError](err); !ok || e.ErrorCode != 10111 {
			t.Errorf("a write with rollup %s returned %v, want error 10111", scope, err)
		}
	}
	if after := w.count(ctx, t); after != before || before < 5 {
		t.Errorf("the bucket has %d keys after the writes, %d before", after, before)
	}
}

func (w *world) count(ctx context.Context, t *testing.T) uint64 {
	t.Helper()
	s, err := w.js(t, roles.Pool).Stream(ctx, "KV_"+state)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// A person reads a stream and names a command's subject as the place for the answer. The answer stays in the person's
// account. The same request of a pool arrives at the agent, so the agent must detect it: it has headers of a stream.
func (w *world) readsReplyInTheirAccount(t *testing.T) {
	const target = "weir.prod.agent.web.i-01.fence"
	commands := make(chan *nats.Msg, 16)
	sub, err := w.conns[roles.Agent].ChanSubscribe(target, commands)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	flush(t, w.conns[roles.Agent])
	reads := map[string]string{
		"$JS.API.DIRECT.GET.KV_" + state + ".$KV." + state + ".pool.web": "",
		"$JS.API.STREAM.INFO.KV_" + state:                                "",
	}
	for _, r := range []roles.Role{roles.Operator, roles.Viewer, roles.Pool} {
		nc := w.conns[r]
		for request, body := range reads {
			if err := nc.PublishRequest(request, target, []byte(body)); err != nil {
				t.Fatal(err)
			}
			// The server answers in order: after the second answer the first one has been sent.
			if _, err := nc.Request(request, []byte(body), deadline); err != nil {
				t.Fatalf("%s: %s: %v", r, request, err)
			}
		}
		if r == roles.Pool {
			break
		}
		// A command that is sent now arrives after the answers.
		w.end(t, target)
		if m := next(t, commands); string(m.Data) != "end" {
			t.Errorf("a read of %s arrived at the agent: %s %v", r, m.Data, m.Header)
		}
	}
	for range reads {
		if m := next(t, commands); m.Reply != "" {
			t.Errorf("the server's answer to a pool arrived with reply %s: receivers cannot tell it from a command", m.Reply)
		}
	}
	if n := len(commands); n > 0 {
		t.Errorf("%d more messages arrived at the agent", n)
	}
}

func (w *world) end(t *testing.T, subject string) {
	t.Helper()
	if err := w.conns[roles.Pool].Publish(subject, []byte("end")); err != nil {
		t.Fatal(err)
	}
	flush(t, w.conns[roles.Pool])
}

func flush(t *testing.T, nc *nats.Conn) {
	t.Helper()
	if err := nc.FlushTimeout(deadline); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, messages chan *nats.Msg) *nats.Msg {
	t.Helper()
	select {
	case m := <-messages:
		return m
	case <-time.After(deadline):
		t.Fatal("no message arrives")
		return nil
	}
}

// A consumer delivers to any subject of its account. Only daemons create one, and what it delivers has the reply of a
// consumer.
func (w *world) consumersNeedTheAccount(t *testing.T) {
	const target = "weir.prod.agent.web.i-01.cordon"
	request := "$JS.API.CONSUMER.CREATE." + ledger + ".forged.weir.prod.decision.web"
	body := `{"stream_name":"` + ledger + `","config":{"name":"forged","deliver_subject":"` + target +
		`","filter_subject":"weir.prod.decision.web","ack_policy":"none","deliver_policy":"all","mem_storage":true,"num_replicas":1}}`
	commands := make(chan *nats.Msg, 16)
	sub, err := w.conns[roles.Agent].ChanSubscribe(target, commands)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	flush(t, w.conns[roles.Agent])
	for _, r := range []roles.Role{roles.Operator, roles.Viewer, roles.Agent, roles.Metrics, roles.LegacyDEA} {
		if err := w.conns[r].Publish(request, []byte(body)); err != nil {
			t.Fatal(err)
		}
		flush(t, w.conns[r])
		if err := w.conns[r].LastError(); err == nil || !strings.Contains(err.Error(), request) {
			t.Errorf("%s may create a consumer: last error %v", r, err)
		}
	}
	w.end(t, target)
	if m := next(t, commands); string(m.Data) != "end" {
		t.Errorf("a record arrived as a command: %v", m)
	}
	if _, err := w.conns[roles.Pool].Request(request, []byte(body), deadline); err != nil {
		t.Fatal(err)
	}
	if m := next(t, commands); !strings.HasPrefix(m.Reply, "$JS.ACK.") {
		t.Errorf("a record of the pool's consumer arrived with reply %q: receivers cannot tell it from a command", m.Reply)
	}
	if _, err := w.conns[roles.Pool].Request("$JS.API.CONSUMER.DELETE."+ledger+".forged", nil, deadline); err != nil {
		t.Error(err)
	}
}

// A request names a foreign subject as its reply. The responder may not publish there.
func (w *world) respondersAnswerInboxesOnly(t *testing.T) {
	if strings.Contains(w.Site.Accounts(), "allow_responses") {
		t.Error("a user may publish to any reply")
	}
	for _, c := range []struct {
		from, to       roles.Role
		subject, reply string
	}{
		{roles.Pool, roles.Agent, "weir.prod.agent.web.i-01.cordon", "health.stop"},
		{roles.Pool, roles.Agent, "weir.prod.agent.web.i-01.cordon", "weir.prod.heartbeat.i-02"},
		{roles.Placer, roles.Agent, "weir.prod.agent.web.i-01.stop", "_INBOX_weir.prod.harmonizer.x"},
		{roles.Pool, roles.Harmonizer, "weir.prod.counts.web.get", "weir.prod.agent.web.i-01.fence"},
		{roles.Pool, roles.Metrics, "weir.prod.metrics.window", "health.start"},
	} {
		requests := make(chan *nats.Msg, 1)
		sub, err := w.conns[c.to].ChanSubscribe(c.subject, requests)
		if err != nil {
			t.Fatal(err)
		}
		flush(t, w.conns[c.to])
		if err := w.conns[c.from].PublishRequest(c.subject, c.reply, nil); err != nil {
			t.Fatal(err)
		}
		m := next(t, requests)
		if m.Reply != c.reply {
			t.Errorf("%s received reply %q, want %q", c.to, m.Reply, c.reply)
		}
		if refused, err := violation(w.conns[c.to], roles.Publish, m.Reply); err != nil || refused == "" {
			t.Errorf("%s sent its answer to %s (error %v)", c.to, m.Reply, err)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
}

// A purge with a filter removes keys without a marker. No role may purge, and the buckets refuse it even to an admin.
func (w *world) purgeIsRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	before := w.count(ctx, t)
	request := "$JS.API.STREAM.PURGE.KV_" + state
	for r := range w.conns {
		if r == roles.Admin {
			continue
		}
		if refused, err := violation(w.conns[r], roles.Publish, request); err != nil || refused == "" {
			t.Errorf("%s may purge (error %v)", r, err)
		}
	}
	m, err := w.conns[roles.Admin].RequestWithContext(ctx, request, []byte(`{"filter":"$KV.`+state+`.pool.web"}`))
	if err != nil || !strings.Contains(string(m.Data), `"error"`) {
		t.Errorf("a purge by an admin returned %v, %v, want an error", m, err)
	}
	if after := w.count(ctx, t); after != before {
		t.Errorf("the bucket has %d keys after the purges, %d before", after, before)
	}
}
