// Package events is the way of node health to NATS. A [Bus] is a health.Bus: it hears
// what others know of nodes, and our own voice; it tells findings, and answers
// operators. A [Client] asks.
//
//	bus, err := natsbus.New(nc, natsbus.Config{Cluster: "prod", Pool: "web", Heartbeat: 5 * time.Second}, log)
//	status, err := natsbus.NewClient(nc, "prod", "web").Status(ctx, health.StatusQuery{})
//
// Give a Bus a connection that reconnects for ever and buffers nothing while it is down
// (nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)).
//
// # Subjects
//
//	weir.CLUSTER.lifecycle             a hint about a machine, from whoever knows
//	weir.CLUSTER.health.POOL.events    [nodehealth.Notification, ...]
//	weir.CLUSTER.health.POOL.order     health.Order -> health.Answer
//	weir.CLUSTER.health.POOL.status    health.StatusQuery -> health.Status
//	weir.CLUSTER.health.POOL.canary    our own voice
//
// A hint is one JSON object of at most 8 KiB with Senlin's fields: event, state,
// instance_id, timestamp and publisher, of which instance_id must be there. A timestamp
// is seconds since 1970 or a text; a hint of more than 15 minutes ago is old, and
// dropped. Other keys are passed over. Nothing is believed of a hint but that the node
// should be looked at.
//
// What cannot be read is counted and dropped, as is what comes faster than it is taken.
// A request that cannot be answered gets an error in HeaderError, or in the Answer.
//
// # The path
//
// When a canary comes back, the path of the heartbeats is proven. It is told as down
// when the connection is lost, and when no canary came back for two heartbeat intervals
// since one was sent. Only the last one that was sent counts: an older one says nothing
// of the path as it is now.
//
// A Bus and a Client may be used concurrently, but Listen runs once at a time.
package events
