// Package store describes a metrics store by one value, a [Kind]: its key in the service file and how to open it.
// internal/config/stores lists the kinds.
//
// The package of a store returns its Kind. The configuration decodes and checks the settings, and the daemons open
// the store. A Kind does not change, so it may be read concurrently.
package store

import (
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/metrics"
)

// Kind describes one metrics store.
type Kind struct {
	Key     string // below "metrics" in the service file
	Default bool   // used without a key in the file; one kind
	About   string // description in a few words
	// New returns a pointer to an empty struct with yaml tags. The configuration decodes
	// the key's value into it and rejects unknown keys and values of another type.
	New func() Settings
	// Open returns a client. It does not connect: a store that is down is reported by
	// the first request.
	Open func(Site) (metrics.Store, error)
}

// Settings is the decoded value of a store's key.
type Settings interface {
	// Check returns each mistake of the value. Its Key is the path below the store's key. Its What has the mistake
	// and the valid values.
	Check() strictyaml.Problems
}

// Site has the parameters of opening a store.
type Site struct {
	Settings Settings // from New; nil without a key in the file
	Conn     *nats.Conn
	Cluster  string
	Writer   Writer // this process
}
