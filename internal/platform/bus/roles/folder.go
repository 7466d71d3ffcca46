package roles

import (
	"fmt"
	"strings"
)

// LocalRows returns the subjects of groups "local:", whose machines are processes. Only the bus of a data folder has
// them; see User.Local.
func LocalRows() []Row {
	return []Row{
		{"weir.{cluster}.local.{pool}.*", []Role{Pool}, []Role{Machines}, OneAnswer, false, "request to the owner of local machines"},
	}
}

// rows returns the subjects of every bus.
func rows() []Row { return append(Rows(), LocalRows()...) }

// isLocal reports whether only the bus of a data folder has the row.
func (r Row) isLocal() bool { return strings.HasPrefix(r.Subject, "weir.{cluster}.local.") }

// Parse returns the user with that name, which is the result of User.Name.
func Parse(name string) (User, error) {
	parts := strings.Split(name, ".")
	u := User{Cluster: parts[0]}
	next := func() (part string) {
		if len(parts) > 1 {
			part, parts = parts[1], parts[1:]
		}
		return part
	}
	u.Role = Role(next())
	if u.Role.hasPool() {
		u.Pool = next()
	}
	if u.Role.hasNode() {
		u.Node = next()
	}
	if err := u.Validate(); err != nil {
		return User{}, fmt.Errorf("user %.80q: %w", name, err)
	}
	if u.Name() != name {
		return User{}, fmt.Errorf("user %.80q: want %s", name, u.Name())
	}
	return u, nil
}

// whole replaces each token of a subject that contains a wildcard by the wildcard: NATS has no wildcard within a token.
func whole(subject string) string {
	if !strings.Contains(subject, "*") {
		return subject
	}
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		if strings.Contains(token, "*") {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}
