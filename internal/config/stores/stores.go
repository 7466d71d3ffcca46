// Package stores lists the metrics stores. A new store is a folder below metrics and an entry here.
//
// [All] returns a [store.Kind] for each. The configuration and the daemons use the list, and name
// no store. The list does not change, so it may be read concurrently.
package stores

import (
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/influx"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// All returns the kinds in the order of error texts.
func All() []store.Kind {
	return []store.Kind{
		embedded.StoreKind(),
		influx.StoreKind(),
	}
}
