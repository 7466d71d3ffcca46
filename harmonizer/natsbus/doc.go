// Package natsbus is the harmonizer's way to NATS: [Bus] hears the nodes, sends
// nudges and counts, and answers requests; [Rows] is the expected state in a
// JetStream key-value bucket.
//
// Give them a connection that reconnects for ever and buffers nothing while it
// is down (nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)): a nudge that is
// sent late is wrong.
//
// Both may be used concurrently, but Listen and Watch run once at a time.
package natsbus
