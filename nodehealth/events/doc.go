// Package events connects node health with NATS. A [Bus] is a nodehealth.Bus: it receives hints and
// the loopback probe, publishes findings, and serves operators' requests. A [Client] sends these
// requests.
//
//	bus, err := events.New(nc, events.Config{Cluster: "prod", Pool: "web", Heartbeat: 5 * time.Second}, log)
//	status, err := events.NewClient(nc, "prod", "web").Status(ctx, api.HealthQuery{})
//
// The connection of a Bus must reconnect for ever, and buffer nothing while it is down
// (nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)).
//
// # Subjects
//
//	weir.CLUSTER.lifecycle.POOL        a hint about any machine of the pool, from operators
//	weir.CLUSTER.lifecycle.POOL.NODE   a hint about that machine, from its agent
//	weir.CLUSTER.health.POOL.events    [api.HealthNotification, ...]
//	weir.CLUSTER.health.POOL.order     api.RepairOrder -> api.RepairOrderResponse
//	weir.CLUSTER.health.POOL.status    api.HealthQuery -> api.HealthStatus
//	weir.CLUSTER.health.POOL.loopback  the loopback probe
//
// A hint is one JSON object of at most 8 KiB with Senlin's fields: event, state, instance_id,
// timestamp and publisher. Only instance_id is required. A timestamp is a number of seconds since
// 1970 or a text. Hints older than 15 minutes are dropped. Other keys are ignored. A hint only
// causes an observation of the node: its content is not trusted.
//
// Messages that cannot be decoded, and messages beyond the queue or the rate, are counted and
// dropped. A failed request gets an error in headerError or in the Answer.
//
// # The path
//
// When a loopback probe returns, the path of the heartbeats is proven. The path is reported as down
// when the connection is lost. It is also down when no probe returned for two heartbeat intervals
// after one was sent. Only the last probe counts: an older one does not prove that the path works
// now.
//
// A Bus and a Client may be used concurrently, but only one Listen may run at a time.
package events
