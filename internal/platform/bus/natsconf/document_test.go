package natsconf_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// document returns the tables of docs/bus.md, in Markdown: subjects, keys and streams with their roles.
func document() string {
	var b strings.Builder
	line := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line("subject", "publish", "subscribe", "content")
	line("---", "---", "---", "---")
	for _, row := range slices.Concat(roles.Rows(), roles.LocalRows()) {
		content := row.Content
		if slices.Contains(row.Subscribe, roles.Machines) {
			content += "; only on the bus of a data folder"
		}
		switch {
		case row.Legacy:
			content += "; only with legacy DEAs"
		case row.Answers == roles.OneAnswer:
			content += "; answered"
		case row.Answers == roles.Several:
			content += "; several answers"
		}
		line("`"+forReaders(row.Subject)+"`", rolesOf(row.Publish), rolesOf(row.Subscribe), content)
	}
	b.WriteString("\n")
	line("bucket", "keys", "read", "write", "content")
	line("---", "---", "---", "---", "---")
	for _, key := range roles.Keys() {
		line("`"+key.Bucket("C", "P")+"`", "`"+forReaders(key.Name)+"`", rolesOf(key.Read), rolesOf(key.Write), key.Content)
	}
	b.WriteString("\n")
	line("stream", "subjects", "read", "content")
	line("---", "---", "---", "---")
	for _, s := range roles.Streams() {
		line("`"+s.Name("C", "P")+"`", fmt.Sprintf("`%s`", forReaders(strings.Join(s.Subjects, "`, `"))), rolesOf(s.Read), s.Content)
	}
	return b.String()
}

// forReaders replaces the placeholders by the letters that the document explains.
func forReaders(subject string) string {
	return strings.NewReplacer("{cluster}", "C", "{pool}", "P", "{node}", "N").Replace(subject)
}

func rolesOf(all []roles.Role) string {
	if len(all) == 0 {
		return "–"
	}
	var names []string
	for _, r := range all {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// powers returns the table of docs/security.md, in Markdown: all that the key of a role can change, send and request in
// accounts of others. It is derived from the borders of the accounts, so it holds even if a server ignored all permissions of
// the user.
func powers() string {
	var users []roles.User
	for _, r := range roles.All() {
		if r != roles.LegacyDEA && r != roles.Machines {
			users = append(users, roles.User{Role: r, Cluster: "C", Pool: "P", Node: "N", Pools: []string{"P"}})
		}
	}
	crossings := roles.Crossings(users)
	var b strings.Builder
	line := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line("key", "account", "changes in streams and buckets", "sends to", "requests of")
	line("---", "---", "---", "---", "---")
	for _, u := range users {
		if u.Role == roles.Admin {
			line("admin", "`"+u.Account()+"`", "everything", "everybody", "everybody")
			continue
		}
		var changes, sends, requests []string
		for _, c := range crossings {
			subject := "`" + c.Subject + "`"
			switch {
			case c.From == u.Account() && !c.Service:
				sends = append(sends, subject+" ("+rolesAt(users, c.To...)+")")
			case !c.Service || !slices.Contains(c.To, u.Account()):
			case c.From != roles.AccountStore:
				requests = append(requests, subject+" ("+rolesAt(users, c.From)+")")
			case !strings.HasPrefix(c.Subject, "$JS."):
				changes = append(changes, subject)
			}
		}
		line(string(u.Role), "`"+u.Account()+"`", listed(changes), listed(sends), listed(requests))
	}
	return b.String()
}

// rolesAt returns the roles with these accounts.
func rolesAt(users []roles.User, accounts ...string) string {
	var names []string
	for _, u := range users {
		if slices.Contains(accounts, u.Account()) {
			names = append(names, string(u.Role))
		}
	}
	return strings.Join(names, ", ")
}

func listed(all []string) string {
	if len(all) == 0 {
		return "–"
	}
	return strings.Join(all, ", ")
}
