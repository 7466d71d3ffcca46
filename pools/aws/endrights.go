package aws

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aws/smithy-go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// endRightValid is how long the granted right to end instances of a fleet counts before the next dry run.
	endRightValid = 10 * time.Minute
	// endRightRetry is the time to the next dry run after another result.
	endRightRetry = 5 * time.Minute
)

// endRights has whether the account may end the instances of Spot Fleets, by dry runs, so that no node is drained in vain. Auto
// Scaling has no dry run of its termination.
type endRights struct {
	aws *clients
	now func() time.Time

	mu     sync.Mutex
	fleets map[string]endRight
}

// endRight is the result of the last dry run of a fleet.
type endRight struct {
	denied string // empty: granted, or unknown
	err    error  // why it is unknown; nil: it is known, or the server answers no dry run
	next   time.Time
}

// fill sets why no instance of a fleet can be terminated. A result that is unknown changes nothing. It returns why, by fleet.
func (e *endRights) fill(ctx context.Context, readings map[string]*reading) (unknown map[string]error) {
	unknown = map[string]error{}
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, cancel := part(ctx)
	defer cancel()
	for id, r := range readings {
		if r.Kind != string(SpotFleet) {
			continue
		}
		last := e.fleets[id]
		i := slices.IndexFunc(r.instances, func(i instance) bool { return i.State == api.InstanceRunning })
		if now := e.now(); i >= 0 && !now.Before(last.next) {
			last.next = now.Add(endRightRetry)
			var denied string
			switch denied, last.err = e.dryRun(ctx, r.instances[i].ID); {
			case errors.Is(last.err, errNoDryRun):
				last.err = nil
			case last.err != nil:
				last.next = now
			case denied == "":
				last.denied, last.next = "", now.Add(endRightValid)
			default:
				last.denied = denied
			}
			e.fleets[id] = last
		}
		if last.err != nil {
			unknown[id] = last.err
		}
		if r.Keeps == "" {
			r.Keeps = last.denied
		}
	}
	return unknown
}

// errNoDryRun: the server ignores dry runs, so the rights of the account are unknown.
var errNoDryRun = errors.New("the server does not answer the dry run of a read")

// dryRun returns why the account may not terminate an instance; empty: it may. The error has why that is unknown. A server that
// ignores dry runs receives none of a termination.
func (e *endRights) dryRun(ctx context.Context, id string) (denied string, err error) {
	err = e.aws.read(ctx, "ec2:DescribeInstances", "the account", func() error { return describeDry(ctx, e.aws) })
	switch {
	case err == nil:
		return "", errNoDryRun
	case !permitted(err):
		return "", err
	}
	err = e.aws.read(ctx, "ec2:TerminateInstances", id, func() error { return terminateDry(ctx, e.aws, id) })
	switch code := status(err); {
	case permitted(err):
		return "", nil
	case errors.Is(err, pools.ErrRefused) && (code == http.StatusForbidden || code == http.StatusUnauthorized):
		return "terminating is not permitted: " + err.Error(), nil
	}
	return "", err
}

// permitted reports whether a dry run would have succeeded.
func permitted(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == dryRunCode
}
