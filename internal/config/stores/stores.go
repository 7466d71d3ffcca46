// Package stores lists the metrics stores and the sources of windows. A new one is a folder below metrics and an entry here.
//
// [All] returns a [store.Kind] for each store, [Sources] a [source.Kind] for each kind of source. The configuration and the
// daemons use the lists, and name none of their entries. The lists do not change, so they may be read concurrently.
package stores

import (
	"github.com/weirkeeper/weirkeeper/metrics/cloudwatch"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/influx"
	"github.com/weirkeeper/weirkeeper/metrics/prometheus"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// All returns the kinds in the order of error texts.
func All() []store.Kind {
	return []store.Kind{
		embedded.StoreKind(),
		influx.StoreKind(),
	}
}

// Sources returns the kinds of sources in the order of error texts.
func Sources() []source.Kind {
	return []source.Kind{
		prometheus.Kind(),
		cloudwatch.Kind(),
	}
}
