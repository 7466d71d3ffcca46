package apiserver

import (
	"fmt"
	"log/slog"

	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// Ports returns what a Config needs of a cluster, over the bus. configs is the configuration folder: pools that have a
// file and no tick are listed too.
func Ports(b *bus.Bus, cluster, configs string, log *slog.Logger) (Fleet, func(pool string) Pool) {
	fleet := view.Fleet{Bus: b, Cluster: cluster, Configs: configs, Warn: func(format string, args ...any) {
		log.Warn("list of pools incomplete", "err", fmt.Sprintf(format, args...))
	}}
	return fleet, func(pool string) Pool {
		return Pool{
			Now:    view.Pool{Bus: b, Cluster: cluster, Name: pool},
			Past:   history.Pool{JS: b.JetStream(), Cluster: cluster, Pool: pool},
			Orders: view.Orders{Bus: b, Cluster: cluster, Pool: pool},
		}
	}
}
