// Package placerbus connects a placer with the agents of its pool, the harmonizer, and the expected state, over NATS.
//
//	b := placerbus.New(placerbus.Config{Cluster: "c", Pool: "p"}, nc, log) // a placer.Bus
//	pending, err := placerbus.GetPending(ctx, nc, "c", "p")
//
// The placer accepts both forms of nudges: api.Start and api.Stop, and the classic api.Nudge of the
// configured partition.
//
// An agent speaks for its own node only: the last token of its subjects is the node. A message about another node is
// unusable. Legacy DEAs publish no facts, so the placer does not receive their messages.
//
// Listen is called once at a time. The other methods may be called concurrently.
package placerbus
