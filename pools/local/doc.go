// Package local is a provider of machines that are processes of this host: each
// one is an agent (package agent) with declared resources.
//
// One process owns them:
//
//	p, err := local.NewProvider(cfg, nc, launcher, log)
//	err = p.Run(ctx) // until ctx ends; leaves no machine behind
//
// It keeps the target of each group in a file, starts agents until the target
// is met, and another one when one dies, as an Auto Scaling group does. When the
// owner starts again it starts the targets again, under new ids: an id is never
// used twice. Other processes reach it over the bus, on
// weir.CLUSTER.local.POOL.{snapshot,set_target,terminate}: a [Group] is a
// pools.Group that asks there, [Nodes] is what the nodes say of themselves.
//
// Group and Nodes may be used concurrently; Run of either kind is called once.
package local
