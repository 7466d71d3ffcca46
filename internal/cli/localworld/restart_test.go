package localworld

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// A part that fails is restarted, with pauses up to 30 s, and does not end other parts.
func TestFailedPartIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		r := reporter{&out, slog.New(slog.DiscardHandler)}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		parts := daemon.NewServices(ctx)
		other := make(chan struct{})
		parts.Run("other", func(ctx context.Context) error { defer close(other); <-ctx.Done(); return nil })
		began := time.Now()
		var at []time.Duration
		parts.Run("part", r.keep("part", func(ctx context.Context) error {
			if at = append(at, time.Since(began)); len(at) < 12 {
				return errors.New("no space")
			}
			<-ctx.Done()
			return nil
		}))
		<-time.After(10 * time.Minute)
		synctest.Wait()
		select {
		case <-other:
			t.Error("the other part ended")
		default:
		}
		if len(at) != 12 {
			t.Fatalf("it was tried %d times, at %v, want 12 times", len(at), at)
		}
		for i := range at[1:] {
			if pause := at[i+1] - at[i]; pause < 500*time.Millisecond || pause > 45*time.Second {
				t.Errorf("pause %d is %v, want 0.5 to 45 s", i, pause)
			}
		}
		end()
		if err := parts.Stop(nil); err != nil {
			t.Errorf("Stop = %v", err)
		}
		if n := strings.Count(out.String(), "! part: failed, restart in "); n != 11 {
			t.Errorf("printed %d times:\n%s", n, out.String())
		}
	})
}
