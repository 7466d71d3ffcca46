package localworld

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/diskspace"
)

// watchSpace reports which disks of a data folder are full, and which have room again, when
// that changes, until ctx ends. "weir status" looks by itself.
func watchSpace(ctx context.Context, data string, isFull func(*diskspace.Full), hasRoom func(path string)) error {
	look := time.NewTicker(spaceEvery)
	defer look.Stop()
	full := map[string]bool{}
	for {
		now := map[string]bool{}
		for _, one := range diskspace.Watched(data, command.DataParts()...) {
			now[one.Path] = true
			if !full[one.Path] {
				isFull(one)
			}
		}
		for path := range full {
			if !now[path] {
				hasRoom(path)
			}
		}
		full = now
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}
