package kvbucket_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

func TestMain(m *testing.M) {
	if bustest.RunServer() {
		return
	}
	m.Run()
}

// A write is unanswered because the leader of three real servers hangs, and then is killed or continues. The write is
// unknown. A later read and the next write over what it found settle it: exactly one of both values is stored, and no
// write is lost that was acknowledged.
func TestUnansweredWriteOfALostLeader(t *testing.T) {
	for what, after := range map[string]func(p *bustest.Processes, t *testing.T, leader int){
		"killed":    func(p *bustest.Processes, t *testing.T, leader int) { p.Kill(t, leader) },
		"continues": func(p *bustest.Processes, t *testing.T, leader int) { p.Resume(t, leader) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := bustest.StartProcesses(t, false, natsconf.Cluster{Name: "prod", Pools: []natsconf.Pool{{Name: "web"}}})
			admin := roles.User{Role: roles.Admin, Cluster: "prod"}
			first := connect(t, p, admin, 0, 1, 2)
			create(t, first.JetStream(), 3)
			b, leader, revision := writeWithoutAnswer(t, p, admin, first)
			after(p, t, leader)

			var settled uint64
			await.True(t, "a write over what was read", func() bool {
				one, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				e, err := b.Get(one, "k")
				if err != nil {
					return false
				}
				if got := string(e.Value); got != "1" && got != "2" && got != "3" {
					t.Fatalf("the key has %q, which nobody wrote", got)
				}
				if string(e.Value) == "3" { // an earlier attempt without an answer
					settled = e.Revision
					return true
				}
				settled, err = b.Update(one, "k", []byte("3"), e.Revision)
				return err == nil
			})
			if _, err := b.Update(within(t), "k", []byte("2"), revision); err == nil || errors.Is(err, kvbucket.ErrUnknown) && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
				t.Errorf("the unanswered write again = %v, want a refusal", err)
			}
			await.True(t, "a replica that is not behind", func() bool {
				e, err := b.Get(within(t), "k")
				return err == nil && e.Revision == settled && string(e.Value) == "3"
			})
		})
	}
}

// connect connects as a user to these servers, in this order.
func connect(t *testing.T, p *bustest.Processes, u roles.User, order ...int) *bus.Bus {
	t.Helper()
	seed, err := p.Seed(t, u.Name()).Seed()
	file := filepath.Join(t.TempDir(), "user.nk")
	if err == nil {
		err = os.WriteFile(file, seed, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var servers []string
	for _, i := range order {
		servers = append(servers, p.URL(i))
	}
	b, err := bus.Open(t.Context(), bus.Config{
		NATS: bus.NATS{Servers: servers, NKeyFile: file, TLS: bus.TLS{CAFile: p.CAFile()}},
		Name: "test", User: u, Log: slog.New(slog.DiscardHandler),
		Login: func(o *nats.Options) error { o.NoRandomize = true; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// writeWithoutAnswer writes "1" under the key k, hangs the leader, and writes "2", which has no answer. If the lead has moved
// before, the write has an answer, and it hangs the next leader instead.
func writeWithoutAnswer(t *testing.T, p *bustest.Processes, u roles.User, first *bus.Bus) (b *kvbucket.Bucket, leader int, revision uint64) {
	t.Helper()
	await.True(t, "a write without an answer", func() bool {
		leader = leaderOf(t, p, first)
		b = kvbucket.New(connect(t, p, u, (leader+1)%3, (leader+2)%3, leader).JetStream(), name)
		revision = put(t, b, "k", "1")
		p.Suspend(t, leader)
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // no election ends so soon
		defer cancel()
		_, err := b.Update(short, "k", []byte("2"), revision)
		if err == nil {
			p.Resume(t, leader)
			return false
		}
		if !errors.Is(err, kvbucket.ErrUnknown) || !kvbucket.Unavailable(err) {
			t.Fatalf("Update while the leader hangs = %v, want %v", err, kvbucket.ErrUnknown)
		}
		return true
	})
	return b, leader, revision
}

// leaderOf returns the server that leads the bucket.
func leaderOf(t *testing.T, p *bustest.Processes, b *bus.Bus) (leader int) {
	t.Helper()
	await.True(t, "a leader", func() bool {
		stream, err := kvbucket.Check(within(t), b.JetStream(), name)
		for i, s := range p.Site.Servers {
			if err == nil && s.Name == stream.CachedInfo().Cluster.Leader {
				leader = i
			}
		}
		return err == nil
	})
	return leader
}
