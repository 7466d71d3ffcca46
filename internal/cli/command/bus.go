package command

import (
	"fmt"
	"os"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// takeNATS completes the flag by the environment, and checks the servers. The environment is not the flag's default,
// because help would print a password in it.
func (r *Root) takeNATS() error {
	switch {
	case r.NATS == "":
		r.NATS, r.NATSFrom = os.Getenv(daemon.VariableNATS), daemon.VariableNATS
	case r.NATSFrom == "":
		r.NATSFrom = daemon.FlagNATS
	}
	for i, server := range bus.Split(r.NATS) {
		if err := bus.CheckServer(server); err != nil {
			return usage.New(fmt.Errorf("%s: server %d %w", r.NATSFrom, i+1, err))
		}
	}
	return nil
}
