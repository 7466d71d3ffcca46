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
// Answers need no row: a role that receives requests may answer each on its reply subject. Only
// nodes have an inbox prefix of their own.
//
// Each role has an account of its own. What crosses the border of an account is derived from the
// same tables: see [Crossings]. No role but Admin creates a stream or a consumer: a consumer may
// deliver to any subject of the account that has the stream.
//
// The package is pure. All functions may be called concurrently. A caller must not change the
// slices of a table.
package roles
