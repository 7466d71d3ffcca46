package natsserver

import (
	"crypto/subtle"
	"log/slog"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// ServeRoles starts a server in a folder, with the accounts and permissions of a production bus. A client authenticates with
// the name of its user and the password that bus.Password derives from the secret. It returns after the server listens.
func ServeRoles(folder, secret string, log *slog.Logger) (bus.Server, error) {
	return serve(folder, log, &authenticator{secret: secret, roles: true})
}

// authenticator verifies users by the secret of the folder, and gives each the permissions of its role.
type authenticator struct {
	secret string
	roles  bool           // otherwise the secret is a token, and each client may do everything
	server *server.Server // set before it accepts clients
}

// all returns a user of each account, of all clusters and pools.
func (a *authenticator) all() (users []roles.User) {
	if !a.roles {
		return []roles.User{{Role: roles.Admin}}
	}
	for _, r := range roles.All() {
		if r != roles.Auth {
			users = append(users, local(roles.User{Role: r, Cluster: "*", Pool: "*"}))
		}
	}
	return users
}

// local returns a user of the folder. Which nodes exist is configured for each process, so every receiver of nodes may receive
// legacy DEAs too.
func local(u roles.User) roles.User {
	u.Local, u.LegacyDEAs = true, true
	return u
}

// equal compares a secret without revealing by its time how much of it is right.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Check implements server.Authentication.
func (a *authenticator) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if !a.roles {
		account, err := a.server.LookupAccount(roles.AccountStore)
		if err != nil || !equal(o.Token, a.secret) {
			return false
		}
		c.RegisterUser(&server.User{Account: account})
		return true
	}
	u, err := roles.Parse(o.Username)
	if err != nil || !equal(o.Password, bus.Password(u, a.secret)) {
		return false
	}
	u = local(u)
	account, err := a.server.LookupAccount(u.Account())
	if err != nil {
		return false // a role that this bus does not have
	}
	p := u.Permissions()
	c.RegisterUser(&server.User{
		Username: u.Name(), Account: account,
		Permissions: &server.Permissions{Publish: allow(p.Publish), Subscribe: allow(p.Subscribe), Response: respond(p.Respond)},
	})
	return true
}

// allow permits the subjects and no others. The server reads an empty list as "all".
func allow(subjects []string) *server.SubjectPermission {
	if len(subjects) == 0 {
		return &server.SubjectPermission{Deny: []string{">"}}
	}
	return &server.SubjectPermission{Allow: subjects}
}

// respond permits the answers to the requests that a user receives.
func respond(allowed bool) *server.ResponsePermission {
	if !allowed {
		return nil
	}
	return &server.ResponsePermission{MaxMsgs: natsconf.MaxResponses, Expires: natsconf.ResponseTime}
}
