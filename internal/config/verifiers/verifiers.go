// Package verifiers lists the ways in which a machine proves its identity. A new one is a folder
// below internal/platform/identity and an entry here. The list never changes.
//
// The configuration and "weir auth" use the list, and name no verifier. It may be read
// concurrently.
package verifiers

import (
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/awsdocument"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/awssts"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/sharedsecret"
)

// All returns the kinds in the order of error texts.
func All() []identity.Kind {
	return []identity.Kind{
		awssts.Kind(),
		awsdocument.Kind(),
		sharedsecret.Kind(),
	}
}
