package natsconf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// AccountsFile is the name of the file with the result of Accounts, which Server includes.
const AccountsFile = "accounts.conf"

const generated = "# Generated from the table in internal/platform/bus/roles: \"weir nats init\" writes it. Do not edit.\n"

// Server returns the configuration of one server. The site must be valid.
func (s Site) Server(name string) string {
	i := slices.IndexFunc(s.Servers, func(x Server) bool { return x.Name == name })
	own := s.Servers[i]
	var b strings.Builder
	b.WriteString(generated)
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("server_name: %q", own.Name)
	line("listen: %q", fmt.Sprintf("%s:%d", cmp.Or(own.Listen, "0.0.0.0"), cmp.Or(own.ClientPort, clientPort)))
	line("max_payload: 8388608  # a record of the ledger has parts of 512 KiB, a page of applications is longer")
	line("tls {\n%s  timeout: 5\n}", files(own.Folder))
	line("jetstream {\n  store_dir: %q", own.Store)
	line("  sync_interval: always  # an acknowledged write survives a power failure of all servers\n}")
	if len(s.Servers) > 1 {
		line("cluster {\n  name: weir")
		line("  listen: %q", fmt.Sprintf("%s:%d", cmp.Or(own.Listen, "0.0.0.0"), cmp.Or(own.RoutePort, routePort)))
		line("  ping_interval: \"2s\"  # a server that hangs is given up after 6 s instead of 50 s\n  ping_max: 2")
		line("  tls {\n%s    verify: true\n    timeout: 5\n  }\n  routes: [", indent(files(own.Folder)))
		for _, peer := range s.Servers {
			line("    \"nats-route://%s:%d\"", peer.host(), cmp.Or(peer.RoutePort, routePort))
		}
		line("  ]\n}")
	}
	line("system_account: %s", roles.AccountSystem)
	line("include %q", AccountsFile)
	return b.String()
}

func files(folder string) string {
	if folder != "" {
		folder = strings.TrimSuffix(folder, "/") + "/"
	}
	return fmt.Sprintf("  cert_file: %q\n  key_file: %q\n  ca_file: %q\n", folder+"server.crt", folder+"server.key", folder+"ca.crt")
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// Accounts returns the accounts, users and permissions, which are equal on all servers. The site must be valid.
func (s Site) Accounts() string {
	var b strings.Builder
	b.WriteString(generated)
	b.WriteString("accounts {\n")
	all := s.Users()
	borders := slices.Clone(all)
	// The agents of a pool share an account, which exists without a configured agent too.
	for _, c := range s.Clusters {
		for _, p := range c.Pools {
			if p.Scheduler {
				continue
			}
			borders = append(borders, roles.User{Role: roles.Agent, Cluster: c.Name, Pool: p.Name, LegacyDEAs: len(c.LegacyDEAs) > 0})
		}
	}
	writeAccounts(&b, borders, func(account string) {
		b.WriteString("    users: [\n")
		for _, u := range all {
			if u.Account() == account && !s.ByCallout(u) {
				s.writeUser(&b, u)
			}
		}
		b.WriteString("    ]\n")
	})
	fmt.Fprintf(&b, "  %s {\n    users: [\n", roles.AccountSystem)
	for _, key := range s.SystemKeys {
		fmt.Fprintf(&b, "      { nkey: %s }\n", key)
	}
	b.WriteString("    ]\n  }\n}\n")
	s.writeCallout(&b)
	return b.String()
}

// Folder returns the accounts of the server of a data folder, without their users: the server has the permissions of each
// user from its name.
func Folder(users []roles.User) string {
	var b strings.Builder
	b.WriteString("accounts {\n")
	writeAccounts(&b, users, func(string) {})
	b.WriteString("}\n")
	return b.String()
}

// writeAccounts writes the accounts of the users, and what writeUsers writes into each.
func writeAccounts(b *strings.Builder, users []roles.User, writeUsers func(account string)) {
	exports, imports := crossings(users)
	for _, account := range accounts(users) {
		fmt.Fprintf(b, "  %q {\n", account)
		writeLimits(b, account)
		writeCrossings(b, exports[account], imports[account])
		writeUsers(account)
		b.WriteString("  }\n")
	}
}

// accounts returns the names of the users' accounts, in order.
func accounts(users []roles.User) (all []string) {
	for _, u := range users {
		all = append(all, u.Account())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Limits of the account of a pool's agents. The servers announce the payload to each client, and end the connection of one
// that sends more.
const (
	maxAgents           = 4096
	maxAgentPayload     = 64 << 10
	subscriptionsOfEach = 12
)

func writeLimits(b *strings.Builder, account string) {
	switch {
	case account == roles.AccountStore:
		b.WriteString("    jetstream: enabled\n")
	case strings.HasPrefix(account, "AGENTS:"):
		fmt.Fprintf(b, "    limits { max_connections: %d, max_payload: %d, max_subscriptions: %d }\n", maxAgents, maxAgentPayload, maxAgents*subscriptionsOfEach)
	}
}

// crossings returns the exports and the imports of each account.
func crossings(users []roles.User) (exports, imports map[string][]string) {
	exports, imports = map[string][]string{}, map[string][]string{}
	for _, c := range roles.Crossings(users) {
		kind, response := "stream", ""
		if c.Service {
			kind = "service"
		}
		if c.Several {
			response = ", response: stream"
		}
		// An export without a list of accounts is open to all of them.
		exports[c.From] = append(exports[c.From], fmt.Sprintf("{ %s: %q%s, accounts: [%s] }", kind, c.Subject, response, quoted(c.To)))
		for _, to := range c.To {
			imports[to] = append(imports[to], fmt.Sprintf("{ %s: { account: %q, subject: %q } }", kind, c.From, c.Subject))
		}
	}
	return exports, imports
}

func quoted(list []string) string {
	all := make([]string, len(list))
	for i, text := range list {
		all[i] = strconv.Quote(text)
	}
	return strings.Join(all, ", ")
}

func writeCrossings(b *strings.Builder, exports, imports []string) {
	for i, list := range [][]string{exports, imports} {
		if len(list) > 0 {
			fmt.Fprintf(b, "    %s: [\n      %s\n    ]\n", []string{"exports", "imports"}[i], strings.Join(list, "\n      "))
		}
	}
}

// writeCallout has the servers verify all users that are not in the file by the authentication service.
func (s Site) writeCallout(b *strings.Builder) {
	if s.Issuer == "" {
		return
	}
	fmt.Fprintf(b, "authorization {\n  timeout: 3\n  auth_callout {\n    issuer: %s\n    account: %s\n    auth_users: [\n", s.Issuer, roles.AccountAuth)
	keys := slices.Concat(s.SystemKeys, s.Revoked[SystemUser])
	for _, u := range s.Users() {
		if !s.ByCallout(u) {
			keys = append(keys, slices.Concat(s.Keys[u.Name()], s.Revoked[u.Name()])...)
		}
	}
	slices.Sort(keys) // the servers compare the list as it is
	for _, key := range keys {
		fmt.Fprintf(b, "      %s\n", key)
	}
	b.WriteString("    ]\n  }\n}\n")
}

// Bounds of the responses to one request.
const (
	MaxResponses = 4096 // pages of counts, chunks of logs
	ResponseTime = 2 * time.Minute
)

func (s Site) writeUser(b *strings.Builder, u roles.User) {
	p := u.Permissions()
	for _, key := range s.Keys[u.Name()] {
		fmt.Fprintf(b, "      # %s\n      {\n        nkey: %s\n        permissions {\n", u.Name(), key)
		writePermission(b, "publish", p.Publish)
		writePermission(b, "subscribe", p.Subscribe)
		if p.Respond {
			fmt.Fprintf(b, "          allow_responses: { max: %d, expires: %q }\n", MaxResponses, ResponseTime)
		}
		b.WriteString("        }\n      }\n")
	}
}

// writePermission writes the allowed subjects. A server reads an empty list as "all".
func writePermission(b *strings.Builder, what string, subjects []string) {
	if len(subjects) == 0 {
		fmt.Fprintf(b, "          %s { deny: [\">\"] }\n", what)
		return
	}
	fmt.Fprintf(b, "          %s {\n            allow: [\n", what)
	for _, subject := range subjects {
		fmt.Fprintf(b, "              %q\n", subject)
	}
	b.WriteString("            ]\n          }\n")
}
