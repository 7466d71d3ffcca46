package local

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/names"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
)

// owner is who owns a pool's machines, as others reach it.
type owner struct {
	nc            *nats.Conn
	cluster, pool string
}

func (o owner) ask(ctx context.Context, op string, request, reply any) error {
	err := call.Ask(ctx, o.nc, subject(o.cluster, o.pool, op), request, reply)
	if errors.Is(err, nats.ErrNoResponders) {
		return ErrNoOwner
	}
	refusal, ok := errors.AsType[*call.Error](err)
	if !ok {
		return err
	}
	if sentinel := sentinels()[refusal.Code]; sentinel != nil {
		return &refused{sentinel, refusal.Message}
	}
	return refusal
}

// refused is a refusal of the owner that callers find by its sentinel.
type refused struct {
	sentinel error
	message  string // begins with the sentinel's
}

// Error returns what the owner said.
func (r *refused) Error() string { return r.message }

// Unwrap returns the sentinel.
func (r *refused) Unwrap() error { return r.sentinel }

// refusalOf is the inverse of what ask does.
func refusalOf(err error) error {
	for code, sentinel := range sentinels() {
		if errors.Is(err, sentinel) {
			return &call.Error{Code: code, Message: err.Error()}
		}
	}
	return err
}

// sentinels are the errors that travel by their codes.
func sentinels() map[string]error {
	return map[string]error{
		codeBounds: pools.ErrTargetBounds, codeNotOwned: pools.ErrNotOwned, codeUnknownGroup: ErrUnknownGroup,
		codeMendFailed: pools.ErrMendFailed, codeRefused: pools.ErrRefused,
	}
}

func subject(cluster, pool, op string) string {
	return names.Subject(cluster, "local", pool, op)
}
