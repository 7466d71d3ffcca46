package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// AccountsRemedy is what helps against accounts of an earlier layout, or against other imports than those of the table of roles.
const AccountsRemedy = `run "weir nats init" with the same servers, cluster and pools, copy accounts.conf to this server, and reload it twice`

// The oldest NATS that is accepted: the one on which the whole test of attacks was run.
const (
	leastMajor = 2
	leastMinor = 15
)

// outdated returns that the server of a connection is older than that; nil too for a version of another form.
func outdated(nc *nats.Conn) error {
	if v := nc.ConnectedServerVersion(); older(v) {
		return fmt.Errorf("server %s has NATS %s, on which the borders of accounts are not proved", nc.ConnectedServerName(), v)
	}
	return nil
}

func older(version string) bool {
	var major, minor int
	n, err := fmt.Sscanf(version, "%d.%d.", &major, &minor)
	return n == 2 && err == nil && (major < leastMajor || major == leastMajor && minor < leastMinor)
}

// misplaced returns that the server has put this client into the account of the streams, where its role does not belong: its
// configuration is of a layout without an account for each role. It reads nothing for a role that may not request a report.
// A server that sends none is not checked.
func (b *Bus) misplaced(ctx context.Context, u roles.User) error {
	if u.Role != roles.Pool && u.Role != roles.Placer && u.Role != roles.Scheduler && u.Role != roles.Harmonizer {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	r, err := b.Report(ctx)
	if err != nil || r.Account != roles.AccountStore {
		return nil
	}
	return fmt.Errorf("server %s has %s in account %s, the account of all streams, and the account of this role is %s: its configuration has an earlier layout",
		r.Server, u.Name(), r.Account, u.Account())
}
