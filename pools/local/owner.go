package local

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/pools"
)

// owner sends requests to the owner of a pool's machines.
type owner struct {
	nc            *nats.Conn
	cluster, pool string
}

func (o owner) request(ctx context.Context, op string, request, reply any) error {
	err := call.Request(ctx, o.nc, subject(o.cluster, o.pool, op), request, reply)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoOwner
	case errors.Is(err, nats.ErrPermissionViolation): // the roles of a cluster have no local machines
		return &refused{nats.ErrPermissionViolation, foreignBus}
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

// foreignBus is the error of requests on a bus that "weir up" does not run.
const foreignBus = `this bus has no local machines, which "weir up" runs on a bus of its own: start "weir up --pool-file FILE", or ` +
	`replace the groups "local" of the pool`

// refused is an error of the owner that wraps a sentinel.
type refused struct {
	sentinel error
	message  string // begins with the sentinel's message
}

// Error returns the owner's message.
func (r *refused) Error() string { return r.message }

// Unwrap returns the sentinel.
func (r *refused) Unwrap() error { return r.sentinel }

// refusalOf returns the error to send. It is the inverse of ask.
func refusalOf(err error) error {
	for code, sentinel := range sentinels() {
		if errors.Is(err, sentinel) {
			return &call.Error{Code: code, Message: err.Error()}
		}
	}
	return err
}

// sentinels returns the errors that have a code on the bus.
func sentinels() map[string]error {
	return map[string]error{
		codeBounds: pools.ErrTargetBounds, codeNotOwned: pools.ErrNotOwned, codeUnknownGroup: ErrUnknownGroup,
		codeRepairFailed: pools.ErrRepairFailed, codeRefused: pools.ErrRefused,
	}
}

func subject(cluster, pool, op string) string {
	return names.Subject(cluster, "local", pool, op)
}
