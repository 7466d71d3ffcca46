package pool

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// noteFlags are the flags of every order with an end.
type noteFlags struct {
	length time.Duration
	why    string
	force  bool
}

func (n *noteFlags) addForce(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&n.force, "force", false, "also for a pool that has not ticked yet")
}

func (n *noteFlags) add(cmd *cobra.Command, length time.Duration) {
	command.DurationVar(cmd.Flags(), &n.length, "for", length, "duration, such as 90m; 0 lasts until it is withdrawn")
	n.addForce(cmd)
	n.addWhy(cmd)
}

func (n *noteFlags) addWhy(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.why, "why", "", "reason, shown in status and in the ledger")
}

// note returns the author, reason, time and end of an order that is given now.
func (n *noteFlags) note() (api.Note, error) {
	if n.length < 0 || n.length > view.LongestOrder {
		return api.Note{}, usage.New(fmt.Errorf("--for %s: want 0 to %s", seconds.Short(n.length), seconds.Short(view.LongestOrder)))
	}
	if len(n.why) > view.LongestWhy {
		return api.Note{}, usage.New(fmt.Errorf("--why has %d bytes: want at most %d", len(n.why), view.LongestWhy))
	}
	return view.NewNote(time.Now(), command.Operator(), n.why, n.length)
}

// commands are the commands for orders, decisions and plans of a pool.
type commands struct{ *connect.CLI }

// withOrders runs f with the orders of the pool. Without force it rejects a pool that
// has no tick and no order: its name is probably mistyped.
func (cli *commands) withOrders(ctx context.Context, force bool, f func(context.Context, *state.Orders) error) error {
	return cli.WithBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		ctx, cancel := context.WithTimeout(ctx, view.Timeout)
		defer cancel()
		if !force {
			if err := view.Known(ctx, b, cli.Cluster, cli.Pool); err != nil {
				return err
			}
		}
		orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool)
		if err != nil {
			return err
		}
		if err := f(ctx, orders); err != nil {
			return err
		}
		if _, err := cli.RequestBootstrap(ctx, b); err != nil {
			fmt.Fprintf(cli.Stderr, "weir: warning: no tick reads the orders of the pool now: %v\n", err)
		}
		return nil
	})
}

func (cli *commands) pauseCommand() *cobra.Command {
	var n noteFlags
	cmd := &cobra.Command{
		Use:   "pause [POOL]",
		Short: "Pause a pool",
		Long: `Pause a pool. Its autoscaler does not read the pool or its signals, does not change
any group, and continues no drain. Each tick is recorded as paused. The pause ends at
its time, or with "weir resume".`,
		Example: `  weir pause --why "moving the database"
  weir pause default --for 2h --why "network work"
  weir pause --for 0      # until weir resume`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			note, err := n.note()
			if err != nil {
				return err
			}
			return cli.withOrders(cmd.Context(), n.force, func(ctx context.Context, o *state.Orders) error {
				if err := o.Pause(ctx, note); err != nil {
					return err
				}
				fmt.Fprintf(cli.Stdout, "pool %s/%s is paused from its next tick on, %s\n", cli.Cluster, cli.Pool, explain.Note(note))
				return nil
			})
		},
	}
	n.add(cmd, view.PauseFor)
	return cmd
}

func (cli *commands) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "resume [POOL]",
		Short:   "End the pause of a pool",
		Example: "  weir resume",
		Args:    cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.withOrders(cmd.Context(), false, func(ctx context.Context, o *state.Orders) error {
				current, err := o.Read(ctx, time.Now())
				if err != nil {
					return err
				}
				if err := o.Resume(ctx); err != nil {
					return err
				}
				if current.Pause == nil {
					fmt.Fprintf(cli.Stdout, "pool %s/%s was not paused\n", cli.Cluster, cli.Pool)
					return nil
				}
				fmt.Fprintf(cli.Stdout, "pool %s/%s continues with its next tick; it was paused %s\n", cli.Cluster, cli.Pool, explain.Note(*current.Pause))
				return nil
			})
		},
	}
}

func (cli *commands) offsetCommand() *cobra.Command {
	var n noteFlags
	var clear bool
	cmd := &cobra.Command{
		Use:   "offset [POOL] [WEIGHT]",
		Short: "Add a weight to the target of a pool for a limited time",
		Long: `Add a weight to the target of a pool for a limited time, for example before an event.
The weight may be negative (write "--" before it). The limits of the pool apply. When
the offset ends, exactly the added weight is removed. 0 or --clear ends the offset. Without
WEIGHT the command shows it.

` + fmt.Sprintf(command.PoolRule, "weight") + ` With --clear it is the pool.`,
		Example: `  weir offset 20 --for 3h --why "the sale begins"
  weir offset web 20
  weir offset --for 1h -- -5
  weir offset web --clear
  weir offset`,
		Args: func(cmd *cobra.Command, args []string) error {
			if !clear {
				return cli.PoolThen("weight")(cmd, args)
			}
			if len(args) > 1 || len(args) == 1 && isTarget(args[0]) {
				return usage.New(fmt.Errorf("%s: give a weight, or --clear", cmd.CommandPath()))
			}
			return cli.PoolArg(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			args = command.LastOf(args)
			if clear {
				args = []string{"0"}
			}
			note, err := n.note()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return cli.withOrders(cmd.Context(), n.force, cli.showOffset)
			}
			whole, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil {
				return usage.New(fmt.Errorf("weight %q: want a whole number; \"%s --pool POOL\" shows the offset of a pool", args[0], cmd.CommandPath()))
			}
			weight := float64(whole)
			return cli.withOrders(cmd.Context(), n.force, func(ctx context.Context, o *state.Orders) error {
				if weight == 0 {
					if err := o.ClearOffset(ctx); err != nil {
						return err
					}
					if cli.Output == "json" {
						return cli.showOffset(ctx, o)
					}
					fmt.Fprintf(cli.Stdout, "pool %s/%s has no offset from its next tick on\n", cli.Cluster, cli.Pool)
					return nil
				}
				if err := o.SetOffset(ctx, api.Offset{Note: note, Weight: weight}); err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.showOffset(ctx, o)
				}
				fmt.Fprintf(cli.Stdout, "pool %s/%s has an offset of %s from its next tick on, %s\n", cli.Cluster, cli.Pool, view.Signed(weight), explain.Note(note))
				return nil
			})
		},
	}
	n.add(cmd, view.OffsetFor)
	cli.OutputFlag(cmd)
	cmd.Flags().BoolVar(&clear, "clear", false, "remove the offset")
	return cmd
}

func (cli *commands) showOffset(ctx context.Context, o *state.Orders) error {
	current, err := o.List(ctx)
	if err != nil {
		return err
	}
	current = current.InForce(time.Now())
	if cli.Output == "json" {
		return cli.PrintJSON(current)
	}
	if current.Offset == nil {
		fmt.Fprintf(cli.Stdout, "pool %s/%s has no offset\n", cli.Cluster, cli.Pool)
		return nil
	}
	fmt.Fprintf(cli.Stdout, "pool %s/%s has an offset of %s, %s\n", cli.Cluster, cli.Pool, view.Signed(current.Offset.Weight), explain.Note(current.Offset.Note))
	return nil
}
