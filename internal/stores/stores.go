// Package stores lists the metrics stores. A new store is a folder below metrics and an entry here.
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
