// Package natsbus connects the harmonizer to NATS. [Bus] receives messages of nodes and other
// harmonizers, sends nudges, counts and findings, and answers requests. [Rows] is the expected
// state in a JetStream key-value bucket.
//
//	bus, err := natsbus.NewBus(nc, natsbus.Config{Cluster: "prod"}, log)
//	rows, err := natsbus.NewRows(nc, natsbus.RowsConfig{Cluster: "prod", Folder: dir, By: me}, log)
//	h, err := harmonizer.New(cfg, harmonizer.Ports{Bus: bus, Source: rows}, log)
//
// Use a connection that always reconnects and buffers nothing while it is down
// (nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)), because a late nudge is wrong.
//
// An agent sends on subjects that end with its pool and node: weir.CLUSTER.heartbeat.POOL.NODE and
// weir.CLUSTER.exited.POOL.NODE. Both go with the event, and its receiver compares them with the
// content. Legacy DEAs share dea.heartbeat and droplet.exited, which are received only with
// Features.LegacyDEAs. Config.CloudFoundry adds this and all other messages of Cloud Foundry.
//
// Heartbeats are passed on unread. All other messages are decoded here. Malformed messages are
// counted by subject and cause, and dropped. If messages come faster than they are processed,
// some are counted and dropped too. After a drop, as after a reconnect, the bus sends BusUp
// again, so the known state is incomplete for a while.
//
// A Bus receives its own nudges and ignores them by their id in headerFrom. A request for
// counts is answered in parts, one reply each, which message.Gather joins. Other requests of
// our commands get one reply. A follower answers after a short delay, so the first reply is
// the leader's.
//
// The methods may be called concurrently, but Listen and Watch run only once at a time.
package natsbus
