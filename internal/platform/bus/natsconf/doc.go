// Package natsconf generates the configuration of NATS servers, and the tables of docs/bus.md, from the table of
// roles.
//
//	site := natsconf.Site{Clusters: ..., Servers: ..., Keys: ...}
//	err := site.Validate()
//	shared := site.Accounts()     // accounts.conf, equal on all servers
//	own := site.Server("n1")      // nats.conf of one server; includes accounts.conf
//
// The account of the daemons exports exactly what operators, viewers and the authentication
// service may do, and their accounts import it. So a message that a person has the server
// send stays in the person's account.
//
// The package is pure: it reads no file and makes no key. All functions may be called
// concurrently.
package natsconf
