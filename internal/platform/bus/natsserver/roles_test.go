package natsserver_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// patience bounds one act on a busy machine.
const patience = await.Patience

// users are one user of each role that a data folder has.
func users() map[roles.Role]roles.User {
	all := map[roles.Role]roles.User{}
	for _, r := range roles.All() {
		u, err := roles.Parse("here." + string(r))
		if err != nil {
			u, err = roles.Parse("here." + string(r) + ".web")
		}
		if err != nil {
			u, err = roles.Parse("here." + string(r) + ".web.i-01")
		}
		if err == nil && r != roles.Auth {
			all[r] = u
		}
	}
	return all
}

// open connects to the bus of a folder, and runs its server if no other connection does.
func open(t *testing.T, data string, u roles.User) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{
		Data: data, Name: t.Name(), User: u, Serve: natsserver.ServeRoles,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// Each row of the table reaches its receivers, also from account to account, and so do the answers.
func TestEveryRowDelivers(t *testing.T) {
	data := t.TempDir()
	conns := map[roles.Role]*nats.Conn{}
	admin := open(t, data, users()[roles.Admin]) // is closed last
	bustest.Streams(t, admin.JetStream(), "here", 1, "web")
	for r, u := range users() {
		conns[r] = open(t, data, u).Conn()
	}
	if len(conns) != len(roles.All())-1 {
		t.Fatalf("%d connections, want one of each role but %s", len(conns), roles.Auth)
	}
	acts := 0
	for _, row := range slices.Concat(roles.Rows(), roles.LocalRows()) {
		if strings.HasPrefix(row.Subject, "$") {
			continue // of servers
		}
		subject := strings.NewReplacer("{cluster}", "here", "{pool}", "web", "{node}", "i-01", "*", "x", ">", "x").Replace(row.Subject)
		for _, to := range row.Subscribe {
			for _, from := range row.Publish {
				acts++
				receives := subject
				if isStored(row) {
					receives = names.LiveSubject("here", subject)
				}
				if err := deliver(row, subject, receives, conns[from], conns[to]); err != nil {
					t.Errorf("%s from %s to %s: %v", subject, from, to, err)
				}
			}
		}
	}
	t.Logf("%d messages", acts)
}

// isStored reports whether a stream stores the messages of a row, and republishes them.
func isStored(row roles.Row) bool {
	return slices.ContainsFunc(roles.Streams(), func(s roles.Stream) bool { return slices.Contains(s.Subjects, row.Subject) })
}

// deliver sends a message, which a process accepts on the subject receives, and waits for its answer.
func deliver(row roles.Row, subject, receives string, from, to *nats.Conn) error {
	c := bus.InboxConfig{Messages: 1}
	if row.Answers == roles.NoAnswer {
		c.Events = []string{receives}
	} else {
		c.Requests = []string{subject}
	}
	refused := make(chan error, 1)
	c.Lost = func(_ *nats.Msg, err error) { refused <- err }
	in, err := bus.Receive(to, c)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := to.FlushTimeout(patience); err != nil {
		return err
	}
	answers := make(chan *nats.Msg, 1)
	reply := ""
	if row.Answers != roles.NoAnswer {
		reply = from.NewRespInbox()
		sub, err := from.ChanSubscribe(reply, answers)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	err = errors.Join(from.PublishMsg(&nats.Msg{Subject: subject, Reply: reply}), from.FlushTimeout(patience))
	if err != nil {
		return err
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case m := <-in.Messages():
		if row.Answers == roles.NoAnswer {
			return nil
		}
		if err := m.Respond([]byte("answer")); err != nil {
			return err
		}
	case err := <-refused:
		return err
	case <-limit.C:
		return fmt.Errorf("does not arrive; last errors: %v, %v", from.LastError(), to.LastError())
	}
	select {
	case <-answers:
		return nil
	case <-limit.C:
		return fmt.Errorf("the answer does not arrive; last errors: %v, %v", from.LastError(), to.LastError())
	}
}

// A password is of no use for another user, and an unknown role has no password.
func TestOnlyTheOwnPasswordIsAccepted(t *testing.T) {
	const secret = "the secret of the folder"
	s, err := natsserver.ServeRoles(t.TempDir(), secret, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	agent, admin := users()[roles.Agent], users()[roles.Admin]
	for name, c := range map[string]struct {
		option nats.Option
		want   bool
	}{
		"own":             {nats.UserInfo(agent.Name(), bus.Password(agent, secret)), true},
		"of another":      {nats.UserInfo(admin.Name(), bus.Password(agent, secret)), false},
		"of another node": {nats.UserInfo("here.agent.web.i-02", bus.Password(agent, secret)), false},
		"empty":           {nats.UserInfo(agent.Name(), ""), false},
		"secret as token": {nats.Token(secret), false},
		"secret":          {nats.UserInfo(agent.Name(), secret), false},
		"other secret":    {nats.UserInfo(agent.Name(), bus.Password(agent, "x")), false},
		"no user":         {nats.Name("x"), false},
		"unknown role":    {nats.UserInfo("here.root", bus.Password(roles.User{Role: "root", Cluster: "here"}, secret)), false},
		"wildcard": {nats.UserInfo("here.agent.web.*",
			bus.Password(roles.User{Role: roles.Agent, Cluster: "here", Pool: "web", Node: "*"}, secret)), false},
		"role of other servers": {nats.UserInfo("here.auth", bus.Password(roles.User{Role: roles.Auth, Cluster: "here"}, secret)), false},
	} {
		nc, err := nats.Connect(s.URL(), c.option, nats.MaxReconnects(0))
		if err == nil {
			nc.Close()
		}
		if (err == nil) != c.want || err != nil && !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: connect = %v, want accepted: %v", name, err, c.want)
		}
	}
}

// A process without a role is refused at once, before it waits for the server.
func TestFolderNeedsARole(t *testing.T) {
	data := t.TempDir()
	open(t, data, users()[roles.Admin])
	for name, u := range map[string]roles.User{"has none": {}, `pool ""`: {Role: roles.Pool, Cluster: "here"}} {
		_, err := bus.Find(t.Context(), bus.Config{Data: data, User: u, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("connect as %+v = %v, want an error with %q", u, err, name)
		}
	}
}

// Two clusters and pools that no configuration names are apart.
func TestPoolsAreApart(t *testing.T) {
	data := t.TempDir()
	bustest.Streams(t, open(t, data, roles.User{Role: roles.Admin, Cluster: "here"}).JetStream(), "here", 1, "web", "batch")
	for name, want := range map[string]bool{"here.pool.web": true, "here.pool.batch": false, "there.pool.web": false, "here.operator": false} {
		u, err := roles.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, data, u)
		_, err = b.JetStream().PublishMsg(t.Context(), &nats.Msg{Subject: "$KV." + names.PoolBucket("here", "web") + ".state"})
		if (err == nil) != want || err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s writes the state of pool web: %v, want %v", u.Name(), err, want)
		}
	}
	var none *jetstream.APIError
	viewer := open(t, data, roles.User{Role: roles.Viewer, Cluster: "here"})
	if _, err := viewer.JetStream().Stream(t.Context(), "weir-ledger:here:none"); !errors.As(err, &none) || none.ErrorCode != 10059 {
		t.Errorf("a viewer reads the info of a missing ledger: %v, want that it is missing", err)
	}
}
