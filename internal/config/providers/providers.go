// Package providers lists the providers of machines. A new provider is a folder below pools and an entry here.
//
// [All] returns a [provider.Kind] for each. The configuration and the daemons use the list, and name no provider.
// The list does not change, so it may be read concurrently.
package providers

import (
	"github.com/weirkeeper/weirkeeper/pools/aws"
	"github.com/weirkeeper/weirkeeper/pools/grpc"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// All returns the kinds in the order of error texts.
func All() []provider.Kind {
	return []provider.Kind{
		aws.ProviderKind(),
		local.ProviderKind(),
		grpc.ProviderKind(),
	}
}
