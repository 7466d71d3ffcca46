package natsconf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	if own.MonitorListen != "" {
		line("http: %q", own.MonitorListen)
	}
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
	for _, account := range []string{roles.AccountWeir, roles.AccountOperator, roles.AccountViewer, roles.AccountAuth} {
		users := slices.DeleteFunc(slices.Clone(all), func(u roles.User) bool { return u.Role.Account() != account })
		if len(users) == 0 {
			continue
		}
		fmt.Fprintf(&b, "  %s {\n", account)
		if account == roles.AccountWeir {
			b.WriteString("    jetstream: enabled\n")
			writeExports(&b, all)
		} else {
			writeImports(&b, users)
		}
		b.WriteString("    users: [\n")
		for _, u := range users {
			s.writeUser(&b, u)
		}
		b.WriteString("    ]\n  }\n")
	}
	fmt.Fprintf(&b, "  %s {\n    users: [\n", roles.AccountSystem)
	for _, key := range s.SystemKeys {
		fmt.Fprintf(&b, "      { nkey: %s }\n", key)
	}
	b.WriteString("    ]\n  }\n}\n")
	s.writeCallout(&b)
	return b.String()
}

// Folder returns the accounts of the server of a data folder. They have no users: the server has the permissions of
// each user from its name, so clusters and pools need no configuration. The imports have wildcards for their names.
func Folder() string {
	people := []roles.User{{Role: roles.Operator, Cluster: "*", Local: true}, {Role: roles.Viewer, Cluster: "*", Local: true}}
	var b strings.Builder
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n", roles.AccountWeir)
	writeExports(&b, people)
	b.WriteString("  }\n")
	for i, u := range people {
		fmt.Fprintf(&b, "  %s {\n", u.Role.Account())
		writeImports(&b, people[i:i+1])
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// writeCallout has the servers verify all users that are not in the file by the authentication service.
func (s Site) writeCallout(b *strings.Builder) {
	if s.Issuer == "" {
		return
	}
	fmt.Fprintf(b, "authorization {\n  timeout: 3\n  auth_callout {\n    issuer: %s\n    account: %s\n    auth_users: [\n", s.Issuer, roles.AccountAuth)
	keys := slices.Clone(s.SystemKeys)
	for _, u := range s.Users() {
		keys = append(keys, s.Keys[u.Name()]...)
	}
	for _, key := range keys {
		fmt.Fprintf(b, "      %s\n", key)
	}
	b.WriteString("    ]\n  }\n}\n")
}

func (s Site) writeUser(b *strings.Builder, u roles.User) {
	p := u.Permissions()
	for _, key := range s.Keys[u.Name()] {
		fmt.Fprintf(b, "      # %s\n      {\n        nkey: %s\n        permissions {\n", u.Name(), key)
		writePermission(b, "publish", p.Publish)
		writePermission(b, "subscribe", p.Subscribe)
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

// crossing is what one account imports from the account of the daemons.
type crossing struct {
	services []string
	answers  map[string]roles.Answers // of the services
	streams  []string
}

// crossingOf returns what the users of an account need. A pattern that another one includes is left out: it would
// deliver each message twice.
func crossingOf(users []roles.User) crossing {
	c := crossing{answers: map[string]roles.Answers{}}
	for _, u := range users {
		for _, a := range u.Acts() {
			switch {
			case strings.HasPrefix(a.Subject, "_"), strings.HasPrefix(a.Subject, "$SYS."):
				// an inbox, or a subject of the account itself
			case a.Direction == roles.Subscribe:
				c.streams = append(c.streams, a.Subject)
			default:
				c.services = append(c.services, a.Subject)
				c.answers[a.Subject] = max(c.answers[a.Subject], a.Answers)
			}
		}
	}
	c.services, c.streams = sorted(roles.Widest(c.services)), sorted(roles.Widest(c.streams))
	return c
}

func sorted(list []string) []string { slices.Sort(list); return list }

func writeImports(b *strings.Builder, users []roles.User) {
	c := crossingOf(users)
	b.WriteString("    imports: [\n")
	for _, subject := range c.services {
		fmt.Fprintf(b, "      { service: { account: %s, subject: %q } }\n", roles.AccountWeir, subject)
	}
	for _, subject := range c.streams {
		fmt.Fprintf(b, "      { stream: { account: %s, subject: %q } }\n", roles.AccountWeir, subject)
	}
	b.WriteString("    ]\n")
}

// writeExports writes each import of the other accounts as an export to exactly these accounts.
func writeExports(b *strings.Builder, all []roles.User) {
	services, streams, answers := map[string][]string{}, map[string][]string{}, map[string]roles.Answers{}
	for _, account := range []string{roles.AccountAuth, roles.AccountOperator, roles.AccountViewer} {
		c := crossingOf(slices.DeleteFunc(slices.Clone(all), func(u roles.User) bool { return u.Role.Account() != account }))
		for _, subject := range c.services {
			services[subject] = append(services[subject], account)
			answers[subject] = max(answers[subject], c.answers[subject])
		}
		for _, subject := range c.streams {
			streams[subject] = append(streams[subject], account)
		}
	}
	b.WriteString("    exports: [\n")
	for _, subject := range slices.Sorted(maps.Keys(services)) {
		response := ""
		if answers[subject] == roles.Several {
			response = ", response: stream"
		}
		fmt.Fprintf(b, "      { service: %q%s, accounts: [%s] }\n", subject, response, strings.Join(services[subject], ", "))
	}
	for _, subject := range slices.Sorted(maps.Keys(streams)) {
		fmt.Fprintf(b, "      { stream: %q, accounts: [%s] }\n", subject, strings.Join(streams[subject], ", "))
	}
	b.WriteString("    ]\n")
}
