// Package store describes a metrics store by one value, a [Kind]: its key in the service
// file and how it is opened. internal/stores lists the kinds.
package store

import (
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/strictyaml"
	"github.com/weirkeeper/weirkeeper/metrics"
)

// Kind describes one metrics store.
type Kind struct {
	// Key is the key below "metrics" in the service file. Empty: the store is used if
	// there is no key, and New is nil.
	Key   string
	About string // what it is, in a few words
	// New returns a pointer to an empty struct with yaml tags. The configuration decodes
	// the key's value into it and rejects unknown keys and values of another type.
	New func() Settings
	// Open returns a client. It does not connect: a store that is down is reported by
	// the first request.
	Open func(Site) (metrics.Store, error)
}

// Settings is the decoded value of a store's key.
type Settings interface {
	// Check returns each mistake of the value. Its Key is the path below the store's
	// key, its What is what is wrong and what is allowed.
	Check() strictyaml.Problems
}

// Site is what a store is opened with.
type Site struct {
	Settings Settings // that New has made; nil for the store without a key
	Conn     *nats.Conn
	Cluster  string
}
