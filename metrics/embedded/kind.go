package embedded

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// LeastRetention is the shortest time for which the store keeps values.
const LeastRetention = 2 * time.Hour

// Settings is the value of the key "metrics.embedded" in the service file.
type Settings struct {
	// Retention is how long the process of the store keeps values; 0: its default. Clients do not use it.
	Retention time.Duration `yaml:"retention"`
}

// StoreKind returns the embedded store's kind.
func StoreKind() store.Kind {
	return store.Kind{
		Key: "embedded", Default: true, About: "the embedded store of the data folder", New: func() store.Settings { return new(Settings) },
		Open: func(s store.Site) (metrics.Store, error) { return NewClient(s.Conn, s.Cluster, s.Writer), nil },
	}
}

// Check implements store.Settings.
func (s *Settings) Check() strictyaml.Problems {
	if s.Retention != 0 && s.Retention < LeastRetention {
		return strictyaml.Problems{{Key: "retention", What: fmt.Sprintf("is %v: want at least %v", s.Retention, LeastRetention)}}
	}
	return nil
}
