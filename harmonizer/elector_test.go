package harmonizer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// script is a lease and a memory that the test controls.
type script struct {
	left  atomic.Int64 // of the lease
	lost  chan struct{}
	loads chan error // results of Load, in order; closed: nil
}

func (s *script) Acquire(context.Context) error { return nil }
func (s *script) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.lost:
		return errors.New("another holds it")
	}
}
func (s *script) Left() time.Duration                                             { return time.Duration(s.left.Load()) }
func (s *script) Epoch() uint64                                                   { return 1 }
func (s *script) Standby() (string, bool)                                         { return "", false }
func (s *script) Load(context.Context) (SavedState, error)                        { return SavedState{}, <-s.loads }
func (s *script) Save(context.Context, []apps.Memory, map[message.Node]int) error { return nil }

func TestElectorFollowsLease(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(s *script)
		want []string
	}{
		{"held", func(s *script) { close(s.loads) }, []string{"begin"}},
		{"runs out and comes back", func(s *script) {
			close(s.loads)
			retry.Pause(context.Background(), 5*time.Second)
			s.left.Store(0)
			retry.Pause(context.Background(), 5*time.Second)
			s.left.Store(int64(time.Second))
		}, []string{"begin", "lease expired", "begin"}},
		{"lost", func(s *script) {
			close(s.loads)
			retry.Pause(context.Background(), 5*time.Second)
			close(s.lost)
		}, []string{"begin", "lease lost"}},
		{"memory cannot be loaded at first", func(s *script) {
			s.loads <- errors.New("no quorum")
			close(s.loads)
		}, []string{"begin"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{lost: make(chan struct{}), loads: make(chan error)}
				s.left.Store(int64(time.Second))
				ctx, cancel := context.WithCancel(t.Context())
				sent := make(chan struct{})
				close(sent)
				var did []string
				e := elector{
					lease: s, memory: s, log: slog.New(slog.DiscardHandler), sent: sent,
					begin: func(context.Context, SavedState) error { did = append(did, "begin"); return nil },
					follow: func(_ context.Context, why string) {
						did = append(did, why)
						if why == "lease lost" {
							cancel()
						}
					},
				}
				ended := make(chan error, 1)
				go func() { ended <- e.run(ctx) }()
				tt.act(s)
				retry.Pause(t.Context(), 10*time.Second)
				cancel()
				if err := <-ended; err != nil || !slices.Equal(did, tt.want) {
					t.Errorf("did %q, want %q; err %v", did, tt.want, err)
				}
			})
		})
	}
}
