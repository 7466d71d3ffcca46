package embedded

import (
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// StoreKind returns the embedded store's kind, which has no configuration key.
func StoreKind() store.Kind {
	return store.Kind{
		About: "the embedded store of the data folder",
		Open:  func(s store.Site) (metrics.Store, error) { return NewClient(s.Conn, s.Cluster), nil },
	}
}
