package natsconf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Site is a cluster of NATS servers and its users.
type Site struct {
	Clusters []Cluster
	Servers  []Server
	// Keys has the public nkeys of each user, by roles.User.Name. Each key of a user is accepted: during a rotation
	// there are two.
	Keys map[string][]string
	// Revoked has the keys that the servers refuse from their next reload on, by user. A user with one may lack a key. A reload may
	// not change the list of the users in the files of the servers, so a revoked key stays in it.
	Revoked map[string][]string
	// SystemKeys are the public nkeys of the servers' administrator.
	SystemKeys []string
	// Issuer is the public nkey of the account that signs the users of agents. If it is empty, the agents are
	// the Nodes of the pools.
	Issuer string
}

// SystemUser is the name of the servers' administrator, in Site.Revoked.
const SystemUser = "sys"

// Cluster is a cluster of weir.
type Cluster struct {
	Name  string `json:"name"`
	Pools []Pool `json:"pools"`
	// LegacyDEAs are nodes of the classic protocol. They share their subjects.
	LegacyDEAs []string `json:"legacy_deas,omitempty"`
}

// Pool is a pool of a cluster.
type Pool struct {
	Name  string   `json:"name"`
	Nodes []string `json:"nodes,omitempty"` // with an nkey of their own each
	// Scheduler: a scheduler without rows speaks for all nodes of the pool, which has neither a placer nor agents.
	Scheduler bool `json:"scheduler,omitempty"`
	// Publish are subjects of the requests of the pool's workflows.
	Publish []string `json:"publish,omitempty"`
}

// Server is one NATS server.
type Server struct {
	Name       string // also the name under which the other servers reach it, unless Host is set
	Host       string
	ClientPort int    // 0: 4222
	RoutePort  int    // 0: 6222
	Listen     string // address to listen on; empty: all
	Folder     string // of server.crt, server.key and ca.crt
	Store      string // folder of the streams
}

const (
	clientPort = 4222
	routePort  = 6222
)

// host returns the name or address of the server for the other servers.
func (s Server) host() string { return cmp.Or(s.Host, s.Name) }

// Users returns all users of the site but those of the system account, in order.
func (s Site) Users() (all []roles.User) {
	for _, c := range s.Clusters {
		legacy := len(c.LegacyDEAs) > 0
		var pools []string
		for _, p := range c.Pools {
			pools = append(pools, p.Name)
		}
		add := func(u roles.User) {
			u.Cluster, u.Pools, u.LegacyDEAs = c.Name, pools, legacy
			all = append(all, u)
		}
		for _, r := range []roles.Role{roles.Admin, roles.Harmonizer, roles.Metrics, roles.Notify, roles.Operator, roles.Viewer} {
			add(roles.User{Role: r})
		}
		if s.Issuer != "" {
			add(roles.User{Role: roles.Auth})
		}
		for _, p := range c.Pools {
			add(roles.User{Role: roles.Pool, Pool: p.Name, Requests: p.Publish})
			if len(p.Publish) > 0 {
				add(roles.User{Role: roles.Workflow, Pool: p.Name, Requests: p.Publish})
			}
			if p.Scheduler {
				add(roles.User{Role: roles.Scheduler, Pool: p.Name})
			} else {
				add(roles.User{Role: roles.Placer, Pool: p.Name})
			}
			for _, node := range p.Nodes {
				add(roles.User{Role: roles.Agent, Pool: p.Name, Node: node})
			}
		}
		for _, node := range c.LegacyDEAs {
			add(roles.User{Role: roles.LegacyDEA, Node: node})
		}
	}
	slices.SortFunc(all, func(a, b roles.User) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}

// Validate returns all mistakes, joined, or nil. Each text that reaches a configuration file is checked.
func (s Site) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(s.Servers) == 0 {
		wrong("no server is given")
	}
	for _, c := range s.Clusters {
		for _, p := range c.Pools {
			if p.Scheduler && len(p.Nodes) > 0 {
				wrong("pool %s of cluster %s has a scheduler, which speaks for all of its nodes, and agents with keys: a pool has only one of both", p.Name, c.Name)
			}
		}
	}
	servers, users, keys := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, server := range s.Servers {
		if servers[server.Name] {
			wrong("server %s is given twice", server.Name)
		}
		servers[server.Name] = true
		errs = append(errs, server.validate())
	}
	own := func(key, name string, kind byte) {
		if !isPublicKey(key, kind) {
			wrong("key %.80q of %s: want a public nkey that begins with %c", key, name, kind)
		}
		if keys[key] != "" {
			wrong("%s and %s have the same key: give each user its own", keys[key], name)
		}
		keys[key] = name
	}
	for _, u := range s.Users() {
		if err := u.Validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		if users[u.Name()] {
			wrong("user %s is given twice", u.Name())
			continue
		}
		users[u.Name()] = true
		if len(s.Keys[u.Name()]) == 0 && len(s.Revoked[u.Name()]) == 0 {
			wrong("user %s has no key", u.Name())
		}
		for _, key := range s.Keys[u.Name()] {
			own(key, u.Name(), 'U')
		}
	}
	for _, key := range s.SystemKeys {
		own(key, "the administrator of the servers", 'U')
	}
	for name, revoked := range s.Revoked {
		for _, key := range revoked {
			own(key, name, 'U')
		}
	}
	if s.Issuer != "" {
		own(s.Issuer, "the issuer of agents", 'A')
	}
	return errors.Join(errs...)
}

func (s Server) validate() error {
	var errs []error
	if err := names.CheckToken("server", s.Name); err != nil {
		errs = append(errs, err)
	}
	for what, text := range map[string]string{
		"host": s.Host, "folder": s.Folder, "store": s.Store, "listen address": s.Listen,
	} {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"'\{}$`, r) }) {
			errs = append(errs, fmt.Errorf("server %.80q: %s %.80q: want printable ASCII without quotes, backslashes, braces and $", s.Name, what, text))
		}
	}
	return errors.Join(errs...)
}

// isPublicKey reports whether the key has the form of a public nkey of that kind.
func isPublicKey(key string, kind byte) bool {
	return len(key) == 56 && key[0] == kind && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '2' || r > '7')
	})
}
