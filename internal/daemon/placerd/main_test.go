package placerd_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/daemon/placerd"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
)

const (
	cluster   = "c"
	heartbeat = time.Second     // a silent node loses its copies, so it is longer than a pause of a busy machine
	leaseTTL  = 6 * time.Second // a start has a third of it
)

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "placer" {
		fmt.Fprintln(os.Stderr, runPlacers(os.Args[2], os.Args[3], os.Args[4:]))
		os.Exit(1)
	}
	localtest.Main(m)
}

// runPlacers runs the placers of the pools until the process is killed.
func runPlacers(folder, holder string, pools []string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("placer", holder)
	ended := make(chan error)
	for _, pool := range pools {
		go func() {
			ctx := context.Background()
			b, err := bus.Find(ctx, bus.Config{Data: folder, Name: holder, User: roles.User{Role: roles.Placer, Cluster: cluster, Pool: pool}, Log: log})
			if err != nil {
				ended <- err
				return
			}
			one, err := placerd.Parts{Bus: b, Cluster: cluster, Pool: pool, Holder: holder, Heartbeat: heartbeat, LeaseTTL: leaseTTL, Log: log}.Wire(ctx)
			if err != nil {
				ended <- err
				return
			}
			for { // as the process does
				log.Error("placer failed, it starts again", "pool", pool, "err", one.Run(ctx))
			}
		}()
	}
	return fmt.Errorf("placer of %s: %w", strings.Join(pools, ", "), <-ended)
}
