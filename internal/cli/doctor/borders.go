package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// borders compares, on each server, what the account of this connection reaches in others with the table of roles.
func (x *busExam) borders(ctx context.Context) {
	const check = "borders"
	x.progress(check)
	if x.role.user == nil || x.role.unlimited {
		return // the check of the role has a finding
	}
	u := *x.role.user
	own, others := crossingsOf(u)
	for _, v := range x.visits {
		if !v.usable() {
			continue
		}
		f := x.border(ctx, v, u, own, others)
		f.Check = check
		x.report(f)
	}
}

func (x *busExam) border(ctx context.Context, v visit, u roles.User, own, others []roles.Crossing) Finding {
	ctx, cancel := x.bounded(ctx)
	defer cancel()
	c := v.at(x.Config)
	c.InboxPrefix = u.InboxPrefix()
	b, err := bus.Find(ctx, c)
	if err != nil {
		return Finding{Result: Failed, Detail: causeOf(err), Fix: remedyOf(err)}
	}
	defer b.Close()
	if r, err := b.Report(ctx); err == nil && r.Account != u.Account() { // some roles may not request it
		return Finding{Result: Failed, Fix: bus.AccountsRemedy, Detail: fmt.Sprintf("%s: this user is in account %s, and the account of its role is %s: the configuration of this server has no account for each role", v.shown, r.Account, u.Account())}
	}
	crosses, err := b.Crosses(ctx, slices.Concat(probesOf(own), probesOf(others)))
	if err != nil {
		return Finding{Result: Unknown, Detail: fmt.Sprintf("%s: %v", v.shown, err), Fix: "check the network and the server; --timeout is the limit of each check"}
	}
	var missing, open []string
	for _, one := range own {
		if !crosses[one.Probe()] {
			missing = append(missing, fmt.Sprintf("{ service: { account: %q, subject: %q } }", one.From, one.Subject))
		}
	}
	for _, one := range others {
		if crosses[one.Probe()] {
			open = append(open, one.Subject+" of account "+one.From)
		}
	}
	switch {
	case len(missing) == len(own) && len(own) > 0:
		return Finding{Result: Failed, Fix: bus.AccountsRemedy, Detail: fmt.Sprintf("%s: account %q reaches no other account: an account that a reload has added needs a second reload", v.shown, u.Account())}
	case missing != nil:
		return Finding{Result: Failed, Fix: bus.AccountsRemedy, Detail: fmt.Sprintf("%s: account %q lacks the imports %s", v.shown, u.Account(), list(missing))}
	case open != nil:
		return Finding{Result: Failed, Fix: bus.AccountsRemedy, Detail: fmt.Sprintf("%s: account %q reaches %s, which its role must not reach", v.shown, u.Account(), list(open))}
	}
	return Finding{Result: OK, Detail: fmt.Sprintf("%s: account %q reaches what its role needs in other accounts, and nothing else of those tested", v.shown, u.Account())}
}

// crossingsOf returns the requests that the account of a user sends to others, and those of the other accounts.
func crossingsOf(u roles.User) (own, others []roles.Crossing) {
	var users []roles.User
	for _, r := range roles.All() {
		users = append(users, roles.User{Role: r, Cluster: u.Cluster, Pool: u.Pool, Pools: u.Pools, LegacyDEAs: u.LegacyDEAs})
	}
	for _, c := range roles.Crossings(users) {
		switch {
		case !c.Service || c.From == u.Account():
		case slices.Contains(c.To, u.Account()):
			own = append(own, c)
		default:
			others = append(others, c)
		}
	}
	reached := func(c roles.Crossing) bool { // by a wildcard of the own ones
		return slices.ContainsFunc(own, func(o roles.Crossing) bool { return roles.Includes(o.Subject, c.Probe()) })
	}
	return own, slices.DeleteFunc(others, reached)
}

func probesOf(all []roles.Crossing) (subjects []string) {
	for _, c := range all {
		subjects = append(subjects, c.Probe())
	}
	return subjects
}
