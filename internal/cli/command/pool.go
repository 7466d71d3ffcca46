package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// PoolArg accepts the name of the pool as the only argument, in place of --pool.
func (r *Root) PoolArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return OneArg("pool")(cmd, args)
	}
	if len(args) == 1 {
		return r.UsePool(cmd, args[0])
	}
	return nil
}

// UsePool makes the pool that an argument names the pool of the command. Two different names are a mistake.
func (r *Root) UsePool(cmd *cobra.Command, name string) error {
	if cmd.Flags().Changed("pool") && r.Pool != name {
		return usage.New(fmt.Errorf("%s has two pools: %q, and %q of --pool; give one of them\nSee %q", cmd.CommandPath(), name, r.Pool, cmd.CommandPath()+" --help"))
	}
	r.Pool, r.PoolNamed = name, true
	return nil
}

// PoolRule is in the help of commands with a pool and another argument.
const PoolRule = `The pool is the first of two arguments. A single argument is the %s, for the pool of
--pool.`

// PoolThen accepts [POOL] [WHAT]: of two arguments the first is the pool, and a single one is not. LastOf returns WHAT
// of the same arguments.
func (r *Root) PoolThen(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 2:
			return usage.New(fmt.Errorf("%s wants one %s, and a pool before it, but got %d arguments\nSee %q", cmd.CommandPath(), what, len(args), cmd.CommandPath()+" --help"))
		case len(args) == 2:
			return r.UsePool(cmd, args[0])
		}
		return nil
	}
}

// LastOf returns the last argument alone, if there is one.
func LastOf(args []string) []string { return args[max(0, len(args)-1):] }
