package natsconf_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natscert"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// bareCertificates returns the files of certificates of one server.
func bareCertificates(t *testing.T) map[string][]byte {
	t.Helper()
	ca, err := natscert.NewCA("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Server("n1", []string{"n1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := natscert.Check(ca.Cert, cert, key, []string{"n1"}, time.Now()); err != nil {
		t.Error(err)
	}
	if err := natscert.Check(ca.Cert, cert, key, []string{"n2"}, time.Now()); err == nil {
		t.Error("the certificate of n1 is valid for n2")
	}
	if err := natscert.Check(ca.Cert, cert, key, nil, time.Now().Add(20*365*24*time.Hour)); err == nil {
		t.Error("the certificate has no end")
	}
	return map[string][]byte{"ca.crt": ca.Cert, "server.crt": cert, "server.key": key}
}

// Each mistake is reported, before a text reaches a configuration file.
func TestInvalidSitesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*natsconf.Site)
		want   string
	}{
		"no server":            {func(s *natsconf.Site) { s.Servers = nil }, "no server"},
		"server twice":         {func(s *natsconf.Site) { s.Servers[1].Name = "n1" }, "server n1 is given twice"},
		"name of a server":     {func(s *natsconf.Site) { s.Servers[0].Name = "a b" }, `server "a b"`},
		"quote in a folder":    {func(s *natsconf.Site) { s.Servers[0].Folder = `/x" }` }, "without quotes"},
		"variable in a folder": {func(s *natsconf.Site) { s.Servers[0].Store = "$HOME" }, "without quotes"},
		"line in a host":       {func(s *natsconf.Site) { s.Servers[0].Host = "a\nb" }, "without quotes"},
		"pool twice":           {func(s *natsconf.Site) { s.Clusters[0].Pools[1].Name = "batch" }, "prod.pool.batch is given twice"},
		"name of a pool":       {func(s *natsconf.Site) { s.Clusters[0].Pools[0].Name = "*" }, `pool "*"`},
		"name of a cluster":    {func(s *natsconf.Site) { s.Clusters[0].Name = ">" }, `cluster ">"`},
		"name of a node":       {func(s *natsconf.Site) { s.Clusters[0].Pools[0].Nodes = []string{"a.b"} }, `node "a.b"`},
		"no key":               {func(s *natsconf.Site) { delete(s.Keys, "prod.viewer") }, "prod.viewer has no key"},
		"shared key":           {func(s *natsconf.Site) { s.Keys["prod.viewer"] = s.Keys["prod.operator"] }, "have the same key"},
		"secret key":           {func(s *natsconf.Site) { s.Keys["prod.viewer"] = []string{"S" + strings.Repeat("A", 57)} }, "want a public nkey"},
		"issuer of users":      {func(s *natsconf.Site) { s.Issuer = s.SystemKeys[0] }, "begins with A"},
	} {
		t.Run(name, func(t *testing.T) {
			s := example(t)
			c.change(&s)
			if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Validate = %v, want %q", err, c.want)
			}
		})
	}
}

// Without an issuer the agents are users of the file. Two keys of a user are two users with the same permissions.
func TestAgentsAndRotatedKeys(t *testing.T) {
	s := example(t)
	s.Issuer = ""
	s.Clusters[0].Pools[0].Nodes = []string{"i-01"}
	node := roles.User{Role: roles.Agent, Cluster: "prod", Pool: "batch", Node: "i-01"}
	s.Keys[node.Name()] = []string{"U" + strings.Repeat("A", 55), "U" + strings.Repeat("B", 55)}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	text := s.Accounts()
	if strings.Contains(text, "auth_callout") {
		t.Error("a callout without an issuer")
	}
	if n := strings.Count(text, "# prod.agent.batch.i-01\n"); n != 2 {
		t.Errorf("the agent has %d entries, want 2", n)
	}
}
