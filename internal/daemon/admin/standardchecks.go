package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/diskspace"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Bus returns the check of a connection to NATS, of the files with its credentials, and of the permissions of its
// subscriptions.
func Bus(b *bus.Bus) Check {
	return Check{Name: "bus", Read: func(context.Context) Result {
		if err := b.Why(); err != nil {
			return Result{State: Failed, Detail: "not connected to NATS: " + err.Error(), Remedy: "run \"weir doctor\""}
		}
		r := Result{State: OK, Detail: "connected to " + b.Conn().ConnectedUrlRedacted()}
		subscriptions, publishes := b.Denied()
		if n := len(subscriptions) + len(publishes); n > 0 {
			if len(subscriptions) > 0 {
				r.State, r.Detail = Failed, subscriptions[0].Error()
			} else {
				r.State, r.Detail = Degraded, publishes[0].Error()
			}
			if n > 1 {
				r.Detail += fmt.Sprintf("; %d more subjects are rejected", n-1)
			}
			return r
		}
		if err := b.Problem(); err != nil {
			return Result{State: Degraded, Detail: r.Detail + "; changed files are not in use: " + err.Error(), Remedy: "correct the files of the block nats"}
		}
		return r
	}}
}

// Stored returns the check of a daemon's bucket: whether the daemon can write what it does, and whether the bucket has the
// replicas of nats.replicas.
func Stored(b *bus.Bus, name string) Check {
	return Check{Name: "state", Read: func(ctx context.Context) Result {
		c := kvbucket.Observe(ctx, b.JetStream(), name)
		switch want := b.Replicas(); {
		case c.Err == nil && c.Replicas < want:
			return Result{State: Degraded, Detail: fmt.Sprintf("bucket %s has %d of %d replicas", name, c.Replicas, want), Remedy: "run \"weir doctor --fix\" with credentials of role admin"}
		case c.Err == nil:
			return Result{State: OK, Detail: fmt.Sprintf("bucket %s can be written", name)}
		case !b.Conn().IsConnected():
			return Result{State: Failed, Detail: fmt.Sprintf("bucket %s is out of reach", name), Remedy: "see the check bus"}
		}
		return Result{State: Failed, Detail: fmt.Sprintf("bucket %s: %v", name, c), Remedy: "run \"weir doctor\""}
	}}
}

// Senders returns the check of the senders that lose messages, because they send more than their share of an inbox. losers
// returns them, those with the most losses first, and name is the sender for people.
func Senders(losers func() []bus.LostOfSender, name func(sender string) string, remedy string) Check {
	return Check{Name: "senders", Read: func(context.Context) Result {
		all := losers()
		if len(all) == 0 {
			return Result{State: OK, Detail: "no sender loses messages"}
		}
		r := Result{State: Degraded, Detail: fmt.Sprintf("%s sends more than its share, or too large messages, and loses them: %d since %s",
			name(all[0].Sender), all[0].Lost, all[0].Since.UTC().Format(time.RFC3339)), Remedy: remedy}
		if more := len(all) - 1; more > 0 {
			r.Detail += fmt.Sprintf("; %d more senders do so too", more)
		}
		return r
	}}
}

// NodeSenders returns the check Senders of an inbox for messages of nodes.
func NodeSenders(losers func() []bus.LostOfSender) Check {
	name := func(sender string) string { return "node " + message.NodeOfSender(sender).String() }
	return Senders(losers, name, "see the log of its agent, and replace its key if it is not yours")
}

// Disk returns the check of the free space below a data folder and its parts.
func Disk(folder string, parts ...string) Check {
	return Check{Name: "disk", Read: func(context.Context) Result {
		if full := diskspace.Watched(folder, parts...); len(full) > 0 {
			return Result{State: Failed, Detail: full[0].Error(), Remedy: "\"weir status\" lists all full disks"}
		}
		return Result{State: OK, Detail: fmt.Sprintf("%s has at least %d MB free", folder, diskspace.Needed>>20)}
	}}
}

// StandbyLease is a lease that reports its holder while this process waits for it.
type StandbyLease interface {
	pools.Lease
	Standby() (holder string, waiting bool)
}

// Lease returns the check of a lease. now returns the lease of the current term; nil before the first one.
func Lease(now func() StandbyLease) Check {
	return Check{Name: "lease", Read: func(context.Context) Result {
		lease := now()
		if lease == nil {
			return Result{State: Unknown, Detail: "starting"}
		}
		if holder, waiting := lease.Standby(); waiting {
			if holder == "" {
				return Result{State: Unknown, Detail: "waits for the lease; its holder is unknown", Remedy: "if this lasts, read the check bus, and check the JetStream of NATS"}
			}
			return Result{State: Standby, Detail: "held by " + holder}
		}
		if left := lease.Left(); left <= 0 {
			return Result{State: Failed, Detail: "the lease has ended, and NATS does not renew it", Remedy: "check the JetStream of NATS"}
		}
		return Result{State: OK, Detail: fmt.Sprintf("held, epoch %d", lease.Epoch())}
	}}
}
