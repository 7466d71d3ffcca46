package grpc

import (
	"context"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// ProviderKind returns the description of the provider for the configuration and the daemons.
func ProviderKind() provider.Kind {
	return provider.Kind{
		Name: "the gRPC server",
		Selectors: []provider.Selector{{
			Key: "grpc", About: "groups of a server with cluster-autoscaler's protocol externalgrpc", New: func() provider.Group { return new(selector) },
			Can: judge.Abilities{
				Actions: []api.RepairAction{api.ActionRecreate, api.ActionWorkflow},
				Modes:   []api.DetectionType{api.DetectAgentHeartbeat},
			},
		}},
		Denied: "read the log of the server, and check group and tls in the pool's file",
		Unread: "start the server, or correct address, group or tls in the pool's file",
		Open: func(_ context.Context, site provider.Site) (provider.Opened, error) {
			p, err := open(site)
			if err != nil {
				return provider.Opened{}, err
			}
			return provider.Opened{Provider: p, Rights: p.rights}, nil
		},
	}
}
