package state

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// electing is a store whose writes have no answer for some time, like a cluster that elects a leader.
type electing struct {
	near
	mu       sync.Mutex
	until    time.Time
	attempts []time.Duration // when writes were tried, since the start of the test
	began    time.Time
}

func (e *electing) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	e.mu.Lock()
	e.attempts = append(e.attempts, time.Since(e.began))
	away := time.Now().Before(e.until)
	e.mu.Unlock()
	if away {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return e.near.update(ctx, key, value, revision)
}

// TestLeaseOutlastsAnElection renews a lease on a cluster whose leader fails just before a renewal. Its longest usual
// election takes 9 s. The lease is not lost, and it is renewed within seconds after the election.
func TestLeaseOutlastsAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &electing{near: near{newModel()}, began: time.Now()}
		l, err := newLease(LeaseConfig{Bucket: "b", Holder: "a", Replicas: 3, Log: slog.New(slog.DiscardHandler)},
			func(context.Context) (register, error) { return s, nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := l.Left(); left != clusterTTL {
			t.Errorf("the lease lasts %v, want %v", left, clusterTTL)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		s.mu.Lock()
		s.until = s.began.Add(clusterTTL/renewals + 9*time.Second)
		s.mu.Unlock()
		least := clusterTTL
		for time.Since(s.began) < 20*time.Second {
			wait(ctx, 100*time.Millisecond)
			least = min(least, l.Left())
		}
		if least < clusterTTL/3 {
			t.Errorf("at least %v are left, want a third of the lease", least)
		}
		s.mu.Lock()
		got := s.attempts[1:4]
		s.mu.Unlock()
		// The first renewal is due after 6 s. Each attempt ends after 3 s, and the next one starts after 0.5 s.
		if want := []time.Duration{6 * time.Second, 9500 * time.Millisecond, 13 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("attempts at %v, want %v", got, want)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}
