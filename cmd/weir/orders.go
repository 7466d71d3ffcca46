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

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
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
func (n *noteFlags) note() (autoscaler.Note, error) {
	if n.length < 0 || n.length > longest {
		return autoscaler.Note{}, &usageError{fmt.Errorf("--for %v: want 0 to %v", n.length, longest)}
	}
	if len(n.why) > longestWhy {
		return autoscaler.Note{}, &usageError{fmt.Errorf("--why has %d bytes: want at most %d", len(n.why), longestWhy)}
	}
	now := time.Now().UTC()
	note := autoscaler.Note{By: operator(), Why: decide.OneLine(n.why), At: now}
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

// ordered says for people who ordered something, why, and until when.
func ordered(n autoscaler.Note) string {
	text := "by " + n.By
	if n.Why != "" {
		text += ": " + n.Why
	}
	if !n.Until.IsZero() {
		text += "; ends " + n.Until.Local().Format(time.DateTime)
	}
	return text
}

// withOrders runs f with the orders of the pool. A pool without a tick is most
// likely a mistyped one.
func (cli *cli) withOrders(ctx context.Context, force bool, f func(context.Context, *state.Orders) error) error {
	return cli.withBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if !force {
			if err := known(ctx, b, cli.cluster, cli.pool); err != nil {
				return err
			}
		}
		orders, err := state.OpenOrders(ctx, b.JetStream(), cli.cluster, cli.pool)
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

// poolArg lets a command name its pool as its argument, as --pool does.
func (cli *cli) poolArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return oneArg("pool")(cmd, args)
	}
	if len(args) == 1 {
		cli.pool = args[0]
	}
	return nil
}

func (cli *cli) pauseCommand() *cobra.Command {
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
				fmt.Fprintf(cli.stdout, "pool %s/%s is paused from its next tick on, %s\n", cli.cluster, cli.pool, ordered(note))
				return nil
			})
		},
	}
	n.add(cmd, pauseFor)
	return cmd
}

func (cli *cli) resumeCommand() *cobra.Command {
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
					fmt.Fprintf(cli.stdout, "pool %s/%s was not paused\n", cli.cluster, cli.pool)
					return nil
				}
				fmt.Fprintf(cli.stdout, "pool %s/%s goes on with its next tick; it was paused %s\n", cli.cluster, cli.pool, ordered(*current.Pause))
				return nil
			})
		},
	}
}

func (cli *cli) offsetCommand() *cobra.Command {
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
				return oneArg("weight")(cmd, args)
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
				return &usageError{fmt.Errorf("weight %q: want a whole number", args[0])}
			}
			weight := float64(whole)
			return cli.withOrders(cmd.Context(), n.force, func(ctx context.Context, o *state.Orders) error {
				if weight == 0 {
					if err := o.ClearOffset(ctx); err != nil {
						return err
					}
					fmt.Fprintf(cli.stdout, "pool %s/%s has no offset from its next tick on\n", cli.cluster, cli.pool)
					return nil
				}
				if err := o.SetOffset(ctx, autoscaler.Offset{Note: note, Weight: weight}); err != nil {
					return err
				}
				fmt.Fprintf(cli.stdout, "pool %s/%s has an offset of %s from its next tick on, %s\n", cli.cluster, cli.pool, signed(weight), ordered(note))
				return nil
			})
		},
	}
	n.add(cmd, offsetFor)
	cli.outputFlag(cmd)
	return cmd
}

func (cli *cli) showOffset(ctx context.Context, o *state.Orders) error {
	current, err := ordersOnly{o}.Read(ctx, time.Now())
	if err != nil {
		return err
	}
	if cli.output == "json" {
		return cli.printJSON(current)
	}
	if current.Offset == nil {
		fmt.Fprintf(cli.stdout, "pool %s/%s has no offset\n", cli.cluster, cli.pool)
		return nil
	}
	fmt.Fprintf(cli.stdout, "pool %s/%s has an offset of %s, %s\n", cli.cluster, cli.pool, signed(current.Offset.Weight), ordered(current.Offset.Note))
	return nil
}

// signed prints a weight that is added.
func signed(x float64) string {
	if x > 0 {
		return "+" + number(x)
	}
	return number(x)
}

func (cli *cli) poolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Order a pool's size and machines by hand",
		Args:  group,
		RunE:  help,
	}
	cmd.AddCommand(cli.poolTargetCommand(), cli.poolRemoveCommand(), cli.poolMarkStaleCommand(), cli.poolGroupsCommand())
	return cmd
}

func (cli *cli) poolTargetCommand() *cobra.Command {
	var n noteFlags
	var clear bool
	cmd := &cobra.Command{
		Use:   "target [WEIGHT|min|max]",
		Short: "Pin a pool's target for a while, in place of what its signals ask for",
		Long: `Pin a pool's target for a while, in place of what its signals ask for: a number, or
one of the pool's limits. The limits and their steps count. When it ends, or with
--clear, the signals count again. Without an argument the pin is shown.`,
		Example: `  weir pool target 40 --for 2h --why "load test"
  weir pool target max
  weir pool target --clear`,
		Args: func(cmd *cobra.Command, args []string) error {
			if clear && len(args) > 0 {
				return &usageError{fmt.Errorf("%s: give a target, or --clear", cmd.CommandPath())}
			}
			if len(args) > 1 {
				return oneArg("weight, min or max")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			note, err := n.note()
			if err != nil {
				return err
			}
			if clear {
				return cli.withOrders(cmd.Context(), n.force, func(ctx context.Context, o *state.Orders) error {
					if err := o.ClearPin(ctx); err != nil {
						return err
					}
					fmt.Fprintf(cli.stdout, "the signals of pool %s/%s count from its next tick on\n", cli.cluster, cli.pool)
					return nil
				})
			}
			if len(args) == 0 {
				return cli.withOrders(cmd.Context(), n.force, cli.showPin)
			}
			pin := autoscaler.Pin{Note: note}
			switch args[0] {
			case "min", "max":
				pin.Bound = args[0]
			default:
				if pin.Target, err = strconv.ParseFloat(args[0], 64); err != nil || !(pin.Target >= 0 && pin.Target < 1e12) {
					return &usageError{fmt.Errorf("target %q: want a number of at least 0, min or max", args[0])}
				}
			}
			return cli.withOrders(cmd.Context(), n.force, func(ctx context.Context, o *state.Orders) error {
				if err := o.SetPin(ctx, pin); err != nil {
					return err
				}
				fmt.Fprintf(cli.stdout, "pool %s/%s is pinned at %s from its next tick on, %s\n", cli.cluster, cli.pool, args[0], ordered(note))
				return nil
			})
		},
	}
	n.add(cmd, pinFor)
	cli.outputFlag(cmd)
	cmd.Flags().BoolVar(&clear, "clear", false, "take the pin back")
	return cmd
}

func (cli *cli) showPin(ctx context.Context, o *state.Orders) error {
	current, err := ordersOnly{o}.Read(ctx, time.Now())
	if err != nil {
		return err
	}
	if cli.output == "json" {
		return cli.printJSON(current)
	}
	if current.Pin == nil {
		fmt.Fprintf(cli.stdout, "pool %s/%s is not pinned: its signals count\n", cli.cluster, cli.pool)
		return nil
	}
	fmt.Fprintf(cli.stdout, "pool %s/%s is pinned at %s, %s\n", cli.cluster, cli.pool, pinned(*current.Pin), ordered(current.Pin.Note))
	return nil
}

func pinned(p autoscaler.Pin) string {
	if p.Bound != "" {
		return p.Bound
	}
	return number(p.Target)
}

func (cli *cli) poolRemoveCommand() *cobra.Command {
	var n noteFlags
	cmd := &cobra.Command{
		Use:   "remove NODE...",
		Short: "Have nodes drained and ended, by name",
		Long: `Have nodes drained and ended, by name, as a prune takes them out: cordoned, emptied,
then terminated, and the pool's target lowered by their weight. The signals say
whether others come in their place. The order is kept until it is carried out.`,
		Example: `  weir pool remove i-0123456789abcdef0 --why "its disk is slow"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{fmt.Errorf("%s wants the nodes' ids, which \"weir status\" shows\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			note, err := n.note()
			if err != nil {
				return err
			}
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.removeNodes(ctx, b, note, args) })
		},
	}
	n.addWhy(cmd)
	return cmd
}

func (cli *cli) removeNodes(ctx context.Context, b *bus.Bus, note autoscaler.Note, nodes []string) error {
	r, err := lastRecord(ctx, b, cli.cluster, cli.pool)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, n := range r.Case.Nodes {
		known[n.ID] = true
	}
	for _, node := range nodes {
		if !known[node] {
			return &usageError{fmt.Errorf("pool %s/%s has no node %s, or it is on its way out already: \"weir status\" shows them", cli.cluster, cli.pool, node)}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.cluster, cli.pool)
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range nodes {
		if err := orders.Remove(ctx, autoscaler.Removal{Note: note, Node: node}); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(cli.stdout, "%s is drained and ended from the next tick on\n", node)
	}
	return errors.Join(errs...)
}

func (cli *cli) poolMarkStaleCommand() *cobra.Command {
	var n noteFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "mark-stale GROUP... | --all",
		Short: "Have all present machines of groups replaced by new ones",
		Long: `Have all machines that groups have now replaced by new ones, such as with a new
image: new ones come beside them, and as these join, the old ones are drained and
ended, within the pool's limits of each step. Machines that come later stay.`,
		Example: `  weir pool mark-stale blue --why "kernel 6.18"
  weir pool mark-stale --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all != (len(args) == 0) {
				return &usageError{fmt.Errorf("%s wants groups, which \"weir pool groups\" shows, or --all\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			note, err := n.note()
			if err != nil {
				return err
			}
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.markStale(ctx, b, note, args) })
		},
	}
	n.addWhy(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all groups of the pool")
	return cmd
}

func (cli *cli) markStale(ctx context.Context, b *bus.Bus, note autoscaler.Note, groups []string) error {
	r, err := lastRecord(ctx, b, cli.cluster, cli.pool)
	if err != nil {
		return err
	}
	var known []string
	for _, g := range r.Snapshot.Groups {
		known = append(known, g.ID)
	}
	if len(groups) == 0 {
		groups = known
	}
	for _, g := range groups {
		if !slices.Contains(known, g) {
			return &usageError{fmt.Errorf("pool %s/%s has no group %q: it has %s", cli.cluster, cli.pool, g, strings.Join(known, ", "))}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.cluster, cli.pool)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := orders.MarkStale(ctx, autoscaler.StaleMark{Note: note, Group: g}); err != nil {
			return err
		}
		fmt.Fprintf(cli.stdout, "the machines that %s has now are replaced from the next tick on\n", g)
	}
	return nil
}

func (cli *cli) poolGroupsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "groups [POOL]",
		Short:   "List a pool's groups, with what keeps them from being changed",
		Example: "  weir pool groups",
		Args:    cli.poolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.withBus(cmd.Context(), cli.listGroups)
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

// groupState is a group in the listing.
type groupState struct {
	autoscaler.GroupRecord
	Quarantined string    `json:"quarantined,omitempty"` // why
	Until       time.Time `json:"until,omitzero"`
	StaleBefore time.Time `json:"stale_before,omitzero"` // instances launched before are rolled away
}

func (cli *cli) listGroups(ctx context.Context, b *bus.Bus) error {
	r, err := lastRecord(ctx, b, cli.cluster, cli.pool)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	orders, err := state.OpenOrders(within, b.JetStream(), cli.cluster, cli.pool)
	if err != nil {
		return err
	}
	current, err := orders.List(within)
	if err != nil {
		return err
	}
	groups := make([]groupState, len(r.Snapshot.Groups))
	for i, g := range r.Snapshot.Groups {
		groups[i].GroupRecord = g
		for _, q := range r.State.Quarantines {
			if q.Group == g.ID {
				groups[i].Quarantined, groups[i].Until = q.Why, q.Until
			}
		}
		for _, mark := range current.Stale {
			if mark.Group == g.ID {
				groups[i].StaleBefore = mark.At
			}
		}
	}
	if cli.output == "json" {
		return cli.printJSON(groups)
	}
	var rows [][]string
	for _, g := range groups {
		rows = append(rows, []string{g.ID, orDash(g.Kind), fmt.Sprint(g.Target), number(g.Fulfilled), fmt.Sprint(g.Min), bound(g.Max), g.note()})
	}
	cli.printTable([]string{"group", "kind", "target", "fulfilled", "min", "max", ""}, rows)
	return nil
}

// note says what is to be known of a group, for people.
func (g groupState) note() string {
	var notes []string
	if g.Quarantined != "" {
		notes = append(notes, fmt.Sprintf("left alone until %s: %s", g.Until.Local().Format(time.TimeOnly), g.Quarantined))
	}
	if g.Busy != "" {
		notes = append(notes, "left alone: "+g.Busy)
	}
	if g.Short != "" && g.Quarantined == "" {
		notes = append(notes, "short: "+g.Short)
	}
	if g.Stale {
		notes = append(notes, "rolled away")
	}
	if !g.StaleBefore.IsZero() {
		notes = append(notes, "machines from before "+g.StaleBefore.Local().Format(time.DateTime)+" are replaced")
	}
	return strings.Join(notes, "; ")
}
