package web

import (
	"context"
	"testing"
	"time"
)

// Alive returns nil only while the loop of the pages runs.
func TestAliveNeedsTheLoop(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	alive := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return s.Alive(ctx)
	}
	if err := alive(); err == nil {
		t.Error("Alive without a loop = nil, want an error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.publish(ctx) }()
	if err := s.Alive(t.Context()); err != nil {
		t.Errorf("Alive with a loop = %v, want nil", err)
	}
	cancel()
	<-ended
	if err := alive(); err == nil {
		t.Error("Alive after the loop = nil, want an error")
	}
}
