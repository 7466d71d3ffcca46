// Package streams has every stream and bucket of a cluster as data, creates them, and reads their messages in batches.
//
// Role admin creates the streams, with the command "weir nats streams" or "weir up". Tests use the same function. No daemon creates
// a stream: one that could would have the server publish in its place (ADR 78). A missing stream is kvbucket.ErrMissing.
//
//	c := streams.Cluster{Name: "prod", Replicas: 3, Pools: []streams.Pool{{Name: "web"}}}
//	results, err := streams.Create(ctx, js, c.Specs()) // as role admin; changes and deletes nothing
//	messages, more, err := streams.Batch(ctx, js, name, streams.Request{Sequence: 1, Subject: ">", Count: 500})
//
// All functions may be called concurrently, and end with their context.
package streams
