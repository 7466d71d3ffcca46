package roles

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Crossing is a subject that an account offers to other accounts: an export of one, and an import of each of the others.
type Crossing struct {
	From    string // the account that exports
	Subject string
	Service bool // requests to From; otherwise messages from From
	Several bool // a request has several answers
	To      []string
}

// Probe returns one subject of the crossing. A wildcard becomes the token "probe".
func (c Crossing) Probe() string { return probe(c.Subject) }

// Crossings returns all crossings between the accounts of users, in order. Nothing else crosses a border.
func Crossings(users []User) []Crossing {
	found := crossings{}
	all := accounts(users)
	for _, u := range all {
		found.addStore(u)
	}
	for _, row := range rows() {
		if row.isStored() {
			continue // crosses at the store
		}
		for _, sender := range all {
			for _, receiver := range all {
				found.addRow(row, sender, receiver)
			}
		}
	}
	for _, sender := range all {
		for _, receiver := range all {
			found.addWorkflow(sender, receiver)
		}
	}
	return found.sorted()
}

// accounts returns a user of each account: one without a node for the agents of a pool.
func accounts(users []User) []User {
	byAccount := map[string]User{}
	for _, u := range users {
		u.Node = ""
		byAccount[u.Account()] = u
	}
	return slices.SortedFunc(maps.Values(byAccount), func(a, b User) int { return cmp.Compare(a.Account(), b.Account()) })
}

// crossings are crossings by exporting account, kind and subject.
type crossings map[crossingKey]Crossing

type crossingKey struct {
	from, subject string
	service       bool
}

func (all crossings) add(c Crossing, to string) {
	if c.From == to {
		return
	}
	key := crossingKey{c.From, c.Subject, c.Service}
	if have, ok := all[key]; ok {
		c.To, c.Several = have.To, c.Several || have.Several
	}
	if !slices.Contains(c.To, to) {
		c.To = append(c.To, to)
	}
	all[key] = c
}

// addStore adds what a user does with streams and buckets.
func (all crossings) addStore(u User) {
	for _, a := range u.storeActs() {
		all.add(Crossing{From: AccountStore, Subject: a.Subject, Service: a.Direction == Publish, Several: a.Answers == Several}, u.Account())
	}
}

// addRow adds a message that one user sends and another one receives.
func (all crossings) addRow(row Row, sender, receiver User) {
	if sender.Cluster != receiver.Cluster || !row.sends(sender) || !row.receives(receiver) {
		return
	}
	subject, ok := meet(whole(sender.expand(row.Subject)), whole(receiver.expand(row.Subject)))
	switch {
	case !ok:
	case row.Answers == NoAnswer:
		all.add(Crossing{From: sender.Account(), Subject: subject}, receiver.Account())
	default:
		all.add(Crossing{From: receiver.Account(), Subject: subject, Service: true, Several: row.Answers == Several}, sender.Account())
	}
}

// addWorkflow adds the requests of a pool to the program that answers them.
func (all crossings) addWorkflow(sender, receiver User) {
	if sender.Role != Pool || receiver.Role != Workflow || sender.Cluster != receiver.Cluster || sender.Pool != receiver.Pool {
		return
	}
	for _, subject := range receiver.Requests {
		all.add(Crossing{From: receiver.Account(), Subject: subject, Service: true}, sender.Account())
	}
}

func (all crossings) sorted() []Crossing {
	list := slices.SortedFunc(maps.Values(all), func(a, b Crossing) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Subject, b.Subject), compareBool(a.Service, b.Service))
	})
	for i := range list {
		slices.Sort(list[i].To)
	}
	return list
}

// meet returns the subjects that both patterns match, as a pattern; false if no subject does.
func meet(a, b string) (string, bool) {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	var both []string
	for i := range max(len(x), len(y)) {
		switch {
		case i < len(x) && x[i] == ">":
			return strings.Join(append(both, y[i:]...), "."), i < len(y)
		case i < len(y) && y[i] == ">":
			return strings.Join(append(both, x[i:]...), "."), i < len(x)
		case i >= len(x) || i >= len(y):
			return "", false
		case x[i] == "*":
			both = append(both, y[i])
		case y[i] == "*" || x[i] == y[i]:
			both = append(both, x[i])
		default:
			return "", false
		}
	}
	return strings.Join(both, "."), true
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
