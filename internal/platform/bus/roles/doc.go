// Package roles is the table of what each role may do on the bus.
//
// A [Row] has one subject and the roles that publish and subscribe to it. A [Key] has the
// keys of one bucket and the roles that read and write them. From both a [User] gets its
// permissions:
//
//	u := roles.User{Role: roles.Pool, Cluster: "prod", Pool: "web"}
//	p := u.Permissions()         // subjects to publish and subscribe to
//	prefix := u.InboxPrefix()    // for nats.CustomInboxPrefix
//	for _, x := range u.Probes() // acts that show whether a server has these permissions
//
// Answers need no row. If a role subscribes to a request, it may publish to the inboxes of the
// roles that send the request. Each daemon has an inbox prefix of its own.
//
// Operators, viewers and the authentication service have accounts of their own. There each act
// is also an import from the account of the daemons. They have no consumer: a consumer may
// deliver to any subject of the account that has the stream. The durable consumers of a stream
// are those of role Notify.
//
// The package is pure. All functions may be called concurrently. A caller must not change the
// slices of a table.
package roles
