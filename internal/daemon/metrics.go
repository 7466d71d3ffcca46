package daemon

import (
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// OpenWindows opens the metrics store of the service file for a writer, with the sources of windows beside it.
func OpenWindows(s config.Service, b *bus.Bus, cluster string, w store.Writer) (metrics.Store, error) {
	own, err := OpenMetrics(s, b, cluster, w)
	if err != nil || len(s.Sources) == 0 {
		return own, err
	}
	sources, err := s.OpenSources()
	return source.Router{Store: own, Sources: sources}, err
}

// OpenMetrics opens the metrics store of the service file for a writer.
func OpenMetrics(s config.Service, b *bus.Bus, cluster string, w store.Writer) (metrics.Store, error) {
	kind, settings := s.Metrics.Store()
	return kind.Open(store.Site{Settings: settings, Conn: b.Conn(), Cluster: cluster, Writer: w})
}
