// Package cluster has the commands about a cluster as a whole: "weir nats", "metrics", "config", "doctor" and "context".
//
// They write the files of its NATS servers, check its configuration and all that a pool needs, and write and read its
// metrics. A context names the flags for one cluster. [Commands] returns the commands. One goroutine uses them.
package cluster

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
)

// Compare compares the file of a pool with its recorded past. It returns an error if the file is worse.
type Compare func(ctx context.Context, c *connect.CLI, with command.Comparison, poolFile string) error

// Commands returns the commands about a cluster.
func Commands(c *connect.CLI, compare Compare) []*cobra.Command {
	return []*cobra.Command{
		(&natsCommands{c}).natsCommand(), (&metricsCommands{c}).metricsCommand(), (&configCommands{c, compare}).configCommand(),
		(&doctorCommands{c}).doctorCommand(), (&contextCommands{c}).contextCommand(),
	}
}
