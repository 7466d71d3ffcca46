package embedded

import (
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// StoreKind returns the store as the configuration and the daemons use it: the one
// without a key.
func StoreKind() store.Kind {
	return store.Kind{
		About: "the embedded store of the data folder",
		Open:  func(s store.Site) (metrics.Store, error) { return NewClient(s.Conn, s.Cluster), nil },
	}
}
