// Package providers lists the providers of machines. A new provider is a folder below pools and an entry here.
package providers

import (
	"github.com/weirkeeper/weirkeeper/pools/aws"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// All returns the kinds in the order of error texts.
func All() []provider.Kind {
	return []provider.Kind{
		aws.ProviderKind(),
		local.ProviderKind(),
	}
}
