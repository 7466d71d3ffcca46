// Package apiserver serves the HTTP API of a cluster below /api/v1: pools, nodes, applications, signals, ticks and events as
// JSON, and the orders of an operator. /api/v1/openapi.yaml documents it.
//
// A daemon makes a [Config] with [Ports] and [ReadTokens], passes [New] to httpguard.Server, and runs [Live]. Live
// publishes events to the streams of /api/v1/events; each stream is one connection of the server:
//
//	live := api.NewLive(time.Now())
//	fleet, pool := api.Ports(b, cluster, configs, log)
//	tokens := func() ([]api.Token, error) { return api.ReadTokens(path) }
//	h := api.New(api.Config{Cluster: cluster, Fleet: fleet, Pool: pool, Live: live, Tokens: tokens, Own: listener.Addr(), Log: log})
//	parts.Run("events", func(ctx context.Context) error { return live.Run(ctx, b, cluster, log) })
//
// Responses have the objects of the commands' "--output json", with durations in seconds.
//
// Requests of pages of other sites are refused. On an address that other hosts reach, each request needs a token. An
// order needs the token of an operator, and a reason, on any address. The handler may be used concurrently.
package apiserver
