package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Default lengths of orders. An order ends by itself, so an operator can forget it safely.
const (
	pauseFor  = 30 * time.Minute
	offsetFor = time.Hour
	pinFor    = 30 * time.Minute
	longest   = 365 * 24 * time.Hour

	longestWhy = 200 // bytes: the reason is stored in the record of each tick
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
	cmd.Flags().DurationVar(&n.length, "for", length, "duration, such as 90m; 0 lasts until it is withdrawn")
	n.addForce(cmd)
	n.addWhy(cmd)
}

func (n *noteFlags) addWhy(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.why, "why", "", "reason, shown in status and in the ledger")
}

// note returns the author, reason, time and end of an order that is given now.
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

// operator returns USER@HOST of the person who runs the command.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// poolCommands are the commands for orders, decisions and plans of a pool.
type poolCommands struct{ *shared }

// withOrders runs f with the orders of the pool. Without force it rejects a pool that
// has no tick and no order: its name is probably mistyped.
func (cli *poolCommands) withOrders(ctx context.Context, force bool, f func(context.Context, *state.Orders) error) error {
	return cli.withBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if !force {
			if err := known(ctx, b, cli.Cluster, cli.Pool); err != nil {
				return err
			}
		}
		orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool, b.Replicas())
		if err != nil {
			return err
		}
		if err := f(ctx, orders); err != nil {
			return err
		}
		if _, err := cli.askBootstrap(ctx, b); err != nil {
			fmt.Fprintf(cli.Stderr, "weir: warning: no tick reads the orders of the pool now: %v\n", err)
		}
		return nil
	})
}

// known returns an error if the pool has neither a recorded tick nor an order.
func known(ctx context.Context, b *bus.Bus, cluster, pool string) error {
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cluster, pool)
	if err == nil {
		_, err = ledger.Last(ctx)
	}
	if !errors.Is(err, state.ErrNoRecord) {
		return err
	}
	orders, err := state.OpenOrders(ctx, b.JetStream(), cluster, pool, state.CreateNothing)
	if err != nil {
		return err
	}
	if has, err := orders.List(ctx); err != nil || !has.Empty() {
		return err
	}
	return noTick(ctx, b, cluster, pool)
}

// noTickError is a state.ErrNoRecord with what is known of the pool.
type noTickError struct{ text string }

func (e *noTickError) Error() string { return e.text }
func (e *noTickError) Unwrap() error { return state.ErrNoRecord }

// noTick returns the error for a pool that has no recorded tick. If its bootstrap does not
// run, and other pools of the cluster have ticked, it is a mistake in the name.
func noTick(ctx context.Context, b *bus.Bus, cluster, pool string) error {
	var s bootstrapd.Status
	err := askJSON(ctx, b.Conn(), bootstrapd.Subject(cluster, pool, "status"), "bootstrap", nil, &s)
	if err == nil {
		return &noTickError{fmt.Sprintf("pool %s/%s has not ticked yet: its autoscaler is %s; wait for the first tick, or see \"weir status\"",
			cluster, pool, s.Autoscaler.State)}
	}
	if _, absent := errors.AsType[*absentError](err); !absent {
		return &noTickError{fmt.Sprintf("pool %s/%s has not ticked yet, and its bootstrap does not answer: %v; see its log", cluster, pool, err)}
	}
	others, err := state.Pools(ctx, b.JetStream(), cluster)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return command.Usage(&noTickError{fmt.Sprintf("cluster %s has no tick of pool %q, and no bootstrap of it runs%s; a new pool needs \"weir bootstrap --pool %s\"",
			cluster, pool, command.Suggest(pool, others), pool)})
	}
	return &noTickError{fmt.Sprintf("pool %s/%s has not ticked yet: start it with \"weir up\" or \"weir bootstrap\"", cluster, pool)}
}

// poolMistake returns the error of a command about a part of the pool that does not run. If the cluster has other
// pools, and this one has never ticked, it is a mistake in the name.
func poolMistake(ctx context.Context, b *bus.Bus, cluster, pool string, err error) error {
	absent, isAbsent := errors.AsType[*absentError](err)
	isAbsent = isAbsent && strings.HasPrefix(absent.part, "bootstrap")
	if !isAbsent && !errors.Is(err, events.ErrNoResponse) && !errors.Is(err, autoscalerd.ErrNoAutoscaler) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ticked, errPools := state.Pools(ctx, b.JetStream(), cluster)
	if errPools != nil || len(ticked) == 0 || slices.Contains(ticked, pool) {
		return err
	}
	if mistake, ok := errors.AsType[*command.UsageError](noTick(ctx, b, cluster, pool)); ok {
		return mistake
	}
	return err
}

func (cli *poolCommands) pauseCommand() *cobra.Command {
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
		Short:   "End the pause of a pool",
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
				fmt.Fprintf(cli.Stdout, "pool %s/%s continues with its next tick; it was paused %s\n", cli.Cluster, cli.Pool, explain.Note(*current.Pause))
				return nil
			})
		},
	}
}

func (cli *poolCommands) offsetCommand() *cobra.Command {
	var n noteFlags
	cmd := &cobra.Command{
		Use:   "offset [POOL] [WEIGHT]",
		Short: "Add a weight to the target of a pool for a limited time",
		Long: `Add a weight to the target of a pool for a limited time, for example before an event.
The weight may be negative (write "--" before it). The limits of the pool apply. When
the offset ends, exactly the added weight is removed. 0 ends the offset. Without
WEIGHT the command shows it.

` + fmt.Sprintf(poolRule, "weight"),
		Example: `  weir offset 20 --for 3h --why "the sale begins"
  weir offset web 20
  weir offset --for 1h -- -5
  weir offset 0
  weir offset`,
		Args: cli.poolThen("weight"),
		RunE: func(cmd *cobra.Command, args []string) error {
			args = lastOf(args)
			note, err := n.note()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return cli.withOrders(cmd.Context(), n.force, cli.showOffset)
			}
			whole, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil {
				return command.Usage(fmt.Errorf("weight %q: want a whole number; \"%s --pool POOL\" shows the offset of a pool", args[0], cmd.CommandPath()))
			}
			weight := float64(whole)
			return cli.withOrders(cmd.Context(), n.force, func(ctx context.Context, o *state.Orders) error {
				if weight == 0 {
					if err := o.ClearOffset(ctx); err != nil {
						return err
					}
					if cli.output == "json" {
						return cli.showOffset(ctx, o)
					}
					fmt.Fprintf(cli.Stdout, "pool %s/%s has no offset from its next tick on\n", cli.Cluster, cli.Pool)
					return nil
				}
				if err := o.SetOffset(ctx, pools.Offset{Note: note, Weight: weight}); err != nil {
					return err
				}
				if cli.output == "json" {
					return cli.showOffset(ctx, o)
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

// signed formats a weight with its sign.
func signed(x float64) string {
	if x > 0 {
		return "+" + explain.Number(x)
	}
	return explain.Number(x)
}

// warnOfOrders adds the current orders of operators to the status. The last tick may be
// older than they are.
func (cli *statusCommands) warnOfOrders(ctx context.Context, b *bus.Bus, s *poolStatus) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool, state.CreateNothing)
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
		s.warn("an offset of %s applies, %s", signed(current.Offset.Weight), explain.Note(current.Offset.Note))
	}
	if current.Pin != nil {
		s.warn("the target is pinned at %s, %s", pinned(*current.Pin), explain.Note(current.Pin.Note))
	}
}
