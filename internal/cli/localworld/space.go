package localworld

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/diskspace"
)

// watchSpace prints changes of the full disks of the data folder, until ctx ends. "weir status" checks them itself.
func (r reporter) watchSpace(ctx context.Context, data string) error {
	ticker := time.NewTicker(spaceEvery)
	defer ticker.Stop()
	full := map[string]bool{}
	for {
		now := map[string]bool{}
		for _, one := range diskspace.Watched(data, daemon.DataParts()...) {
			now[one.Path] = true
			if !full[one.Path] {
				r.warn("disk", one.Error())
			}
		}
		for path := range full {
			if !now[path] {
				r.print("disk", "%s has room again", path)
			}
		}
		full = now
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
