package localworld

import (
	"context"
	"fmt"
	"os"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/state/migrate"
)

// migrate moves data of the old layout before anything uses it, and prints one line if there was any.
func (u *up) migrate(ctx context.Context) error {
	b, err := bus.Find(ctx, u.connection(roles.User{Role: roles.Admin}))
	if err != nil {
		return err
	}
	defer b.Close()
	r, err := migrate.Run(ctx, migrate.Config{
		JS: b.JetStream(), Cluster: u.Cluster, Holder: fmt.Sprintf("weir up, pid %d", os.Getpid()), Replicas: u.bus.Replicas(),
		Exclusive: u.bus.Embedded(), // then all other users of the bus were processes of an earlier "weir up"
		Progress:  func(line string) { u.log.Info("migration", "step", line) },
	})
	if err != nil {
		return err
	}
	if r.Old {
		u.print("stored data", "%v", r)
	}
	return nil
}
