package bus

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// AccountsRemedy is what helps against accounts of an earlier layout, or against other imports than those of the table of roles.
const AccountsRemedy = `run "weir nats init" with the same servers, cluster and pools, copy accounts.conf to this server, and reload it twice`

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
