package state

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

var errNoAnswer = errors.New("no answer")

// unanswered is a store whose writes take effect, and are not answered.
type unanswered struct {
	near
	on bool
}

func (u *unanswered) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := u.near.update(ctx, key, value, revision)
	if err == nil && u.on {
		return 0, errNoAnswer
	}
	return next, err
}

// TestDeleteOfARecordWhoseWriteWasNotAnswered deletes a drain record whose only write failed, as the
// caller finds it: it is gone from the bucket, too, and no later holder follows it.
func TestDeleteOfARecordWhoseWriteWasNotAnswered(t *testing.T) {
	s := &unanswered{near: near{newModel()}}
	lease, err := newLease(LeaseConfig{Bucket: "b", Holder: "a", TTL: time.Minute, Log: slog.New(slog.DiscardHandler)},
		func(context.Context) (register, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := openHolder(t.Context(), s, lease, nil, "web")
	if err != nil {
		t.Fatal(err)
	}
	s.on = true
	if err := h.Records().Put(t.Context(), api.Drain{Node: "a-1"}); !errors.Is(err, errNoAnswer) {
		t.Fatalf("Put = %v, want %v", err, errNoAnswer)
	}
	s.on = false
	if found := s.model.read("drain.a-1", 0).entry.found; !found {
		t.Fatal("the write has not taken effect")
	}
	if all, err := h.Records().Load(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("Load = %v, %v, want none", all, err)
	}
	for range 2 {
		if err := h.Records().Delete(t.Context(), "a-1"); err != nil {
			t.Fatal(err)
		}
		if found := s.model.read("drain.a-1", 0).entry.found; found {
			t.Error("the record is still in the bucket")
		}
	}
}
