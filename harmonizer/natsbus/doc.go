// Package natsbus is the harmonizer's way to NATS: [Bus] hears the nodes and
// other harmonizers, sends nudges, counts and findings, and answers requests;
// [Rows] is the expected state in a JetStream key-value bucket.
//
//	bus, err := natsbus.NewBus(nc, natsbus.Config{Cluster: "prod"}, log)
//	rows, err := natsbus.NewRows(nc, natsbus.RowsConfig{Cluster: "prod", Folder: dir, By: me}, log)
//	h, err := harmonizer.New(cfg, harmonizer.Ports{Bus: bus, Source: rows}, log)
//
// Give them a connection that reconnects for ever and buffers nothing while it
// is down (nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)): a nudge that is
// sent late is wrong.
//
// Heartbeats go on as they came. All else is decoded here; what cannot be, is
// counted by subject and cause, and dropped. What comes faster than it is taken
// is counted and dropped too, and then, as after a reconnect, hearing begins
// anew.
//
// A Bus hears its own nudges come back and passes over them: each bears its id
// in HeaderFrom. A request for counts is answered in parts, each a reply of its
// own, to be joined by message.Gather; all other requests of ours by one reply.
// A harmonizer that does not lead answers a little later than the one that does,
// so that who takes the first reply has the leader's.
//
// Both may be used concurrently, but Listen and Watch run once at a time.
package natsbus
