package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Defaults of how long an order counts: one that is forgotten ends by itself.
const (
	pauseFor  = 30 * time.Minute
	offsetFor = time.Hour
	pinFor    = 30 * time.Minute
	longest   = 365 * 24 * time.Hour

	longestWhy = 200 // bytes: it is in the record of each tick that it counts for
)

// noteFlags are those of every order that ends.
type noteFlags struct {
	length time.Duration
	why    string
	force  bool
}

func (n *noteFlags) addForce(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&n.force, "force", false, "also for a pool that nobody has heard of yet")
}

func (n *noteFlags) add(cmd *cobra.Command, length time.Duration) {
	cmd.Flags().DurationVar(&n.length, "for", length, "how long, such as 90m; 0 is until it is taken back")
	n.addForce(cmd)
	n.addWhy(cmd)
}

func (n *noteFlags) addWhy(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.why, "why", "", "the reason, for who finds it")
}

// note says who orders, now.
func (n *noteFlags) note() (pools.Note, error) {
	if n.length < 0 || n.length > longest {
		return pools.Note{}, command.Usage(fmt.Errorf("--for %v: want 0 to %v", n.length, longest))
	}
	if len(n.why) > longestWhy {
		return pools.Note{}, command.Usage(fmt.Errorf("--why has %d bytes: want at most %d", len(n.why), longestWhy))
	}
	now := time.Now().UTC()
	note := pools.Note{By: operator(), Why: decide.OneLine(n.why), At: now}
	if n.length > 0 {
		note.Until = now.Add(n.length)
	}
	return note, nil
}

// operator names who types the command.
func operator() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// poolCommands are the orders of a pool, what it decided, and what it would do.
type poolCommands struct{ *shared }

// withOrders runs f with the orders of the pool. A pool without a tick is most
// likely a mistyped one.
func (cli *poolCommands) withOrders(ctx context.Context, force bool, f func(context.Context, *state.Orders) error) error {
	return cli.withBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if !force {
			if err := known(ctx, b, cli.Cluster, cli.Pool); err != nil {
				return err
			}
		}
		orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool)
		if err != nil {
			return err
		}
		return f(ctx, orders)
	})
}

// known returns an error if no tick of the pool was ever recorded.
func known(ctx context.Context, b *bus.Bus, cluster, pool string) error {
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cluster, pool)
	if err != nil {
		return err
	}
	if _, err = ledger.Last(ctx); errors.Is(err, state.ErrNoRecord) {
		return fmt.Errorf("pool %s of cluster %s: %w; is its name right, and does its autoscaler run?", pool, cluster, err)
	}
	return err
}

func (cli *poolCommands) pauseCommand() *cobra.Command {
	var n noteFlags
	cmd := &cobra.Command{
		Use:   "pause [POOL]",
		Short: "Have a pool left as it is for a while",
		Long: `Have a pool left as it is for a while: its autoscaler reads it and its signals no
more, starts and ends no machine, and goes on with no drain. Each tick is recorded
as paused. It ends by itself, or with "weir resume".`,
		Example: `  weir pause --why "moving the database"
  weir pause default --for 2h --why "network work"
  weir pause --for 0      # until weir resume`,
		Args: cli.poolArg,
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
	n.add(cmd, pauseFor)
	return cmd
}

func (cli *poolCommands) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "resume [POOL]",
		Short:   "End a pool's pause",
		Example: "  weir resume",
		Args:    cli.poolArg,
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
				fmt.Fprintf(cli.Stdout, "pool %s/%s goes on with its next tick; it was paused %s\n", cli.Cluster, cli.Pool, explain.Note(*current.Pause))
				return nil
			})
		},
	}
}

func (cli *poolCommands) offsetCommand() *cobra.Command {
	var n noteFlags
	cmd := &cobra.Command{
		Use:   "offset [WEIGHT]",
		Short: "Add a weight to what a pool's signals ask for, for a while",
		Long: `Add a weight to what a pool's signals ask for, for a while: before an event, say.
It may be negative (write "--" before it), and counts within the pool's limits.
When it ends, exactly what was added is taken away. 0 ends it; without WEIGHT it
is shown.`,
		Example: `  weir offset 20 --for 3h --why "the sale begins"
  weir offset --for 1h -- -5
  weir offset 0
  weir offset`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.OneArg("weight")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			note, err := n.note()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return cli.withOrders(cmd.Context(), n.force, cli.showOffset)
			}
			whole, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil {
				return command.Usage(fmt.Errorf("weight %q: want a whole number", args[0]))
			}
			weight := float64(whole)
			return cli.withOrders(cmd.Context(), n.force, func(ctx context.Context, o *state.Orders) error {
				if weight == 0 {
					if err := o.ClearOffset(ctx); err != nil {
						return err
					}
					fmt.Fprintf(cli.Stdout, "pool %s/%s has no offset from its next tick on\n", cli.Cluster, cli.Pool)
					return nil
				}
				if err := o.SetOffset(ctx, pools.Offset{Note: note, Weight: weight}); err != nil {
					return err
				}
				fmt.Fprintf(cli.Stdout, "pool %s/%s has an offset of %s from its next tick on, %s\n", cli.Cluster, cli.Pool, signed(weight), explain.Note(note))
				return nil
			})
		},
	}
	n.add(cmd, offsetFor)
	cli.outputFlag(cmd)
	return cmd
}

func (cli *poolCommands) showOffset(ctx context.Context, o *state.Orders) error {
	current, err := o.List(ctx)
	if err != nil {
		return err
	}
	current = current.InForce(time.Now())
	if cli.output == "json" {
		return cli.printJSON(current)
	}
	if current.Offset == nil {
		fmt.Fprintf(cli.Stdout, "pool %s/%s has no offset\n", cli.Cluster, cli.Pool)
		return nil
	}
	fmt.Fprintf(cli.Stdout, "pool %s/%s has an offset of %s, %s\n", cli.Cluster, cli.Pool, signed(current.Offset.Weight), explain.Note(current.Offset.Note))
	return nil
}

// signed prints a weight that is added.
func signed(x float64) string {
	if x > 0 {
		return "+" + explain.Number(x)
	}
	return explain.Number(x)
}

// warnOfOrders prints what operators want of the pool now, which its last tick may not
// know yet.
func (cli *statusCommands) warnOfOrders(ctx context.Context, b *bus.Bus, s *poolStatus) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		s.warn("%v", err)
		return
	}
	current, err := orders.List(ctx)
	if err != nil {
		s.warn("%v", err)
		return
	}
	current = current.InForce(time.Now())
	if current.Pause != nil {
		s.warn("the pool is paused %s; \"weir resume\" ends it", explain.Note(*current.Pause))
	}
	s.Orders = &current
	if current.Offset != nil {
		s.warn("an offset of %s counts, %s", signed(current.Offset.Weight), explain.Note(current.Offset.Note))
	}
	if current.Pin != nil {
		s.warn("the target is pinned at %s, %s", pinned(*current.Pin), explain.Note(current.Pin.Note))
	}
}
