package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// sources reads each window of the pool that comes from a source, as a tick does.
func (s Site) sources(ctx context.Context) []Finding {
	opened, err := s.Service.OpenSources()
	if err != nil {
		return []Finding{{Result: Failed, Detail: err.Error(), Fix: "correct the key sources of weir.yaml"}}
	}
	loop, router, now := config.Autoscaler(s.Service, s.Pool), source.Router{Sources: opened}, time.Now()
	c := ask.Config{Cluster: s.Pool.Cluster, Pool: s.Pool.Name, Tick: loop.Tick}
	var bad []Finding
	read := 0
	for _, signal := range loop.Signals() {
		for _, w := range signal.Windows {
			if w.Source == "" {
				continue
			}
			read++
			if one := c.Try(ctx, router, sigproto.AppOf(signal.App), w, now); one.Problem != "" {
				bad = append(bad, Finding{Result: Failed, Detail: fmt.Sprintf("%s of %s: %s", w.Name, signal.App, one.Problem),
					Fix: `compare with "weir metrics try"; until it is read, the pool does not shrink`})
			}
		}
	}
	if read == 0 || len(bad) > 0 {
		return slices.Clip(bad)
	}
	return []Finding{{Result: OK, Detail: fmt.Sprintf("the sources answer %d windows of the pool's signals", read)}}
}
