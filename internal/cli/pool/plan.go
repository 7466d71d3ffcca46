package pool

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/resource"
)

// assumed are the flags of "weir plan" for a change that does not happen.
type assumed struct {
	without, need, factors []string
	prices                 string // a file
}

func (cli *tickCommands) planCommand() *cobra.Command {
	var f assumed
	cmd := &cobra.Command{
		Use:   "plan [POOL]",
		Short: "Preview the next tick of a pool, without any change",
		Long: `Preview the next tick of a pool, without any change. The autoscaler of the pool reads
its groups and nodes, and decides with its files, its orders and the last responses of
the signals. It runs the code of a tick up to the point where a tick acts.

With --without and --need the preview is as if that had happened: machines are away, or
apps request other resources. A resource that --need does not name stays as requested.
Each copy on a machine that is away is listed with its new place, or why it has none. A
group that is away, or whose machines are all in a zone that is away, gets no machine.

--prices prints what an hour of the machines costs now and by the plan, by group, and
--price with other prices: of the file, or of the prices block of weir.yaml. A pool with
"distribution: cheapest" decides with the other prices of weir.yaml too.`,
		Example: `  weir plan
  weir plan default --output json
  weir plan --without node/i-1,zone/eu-west-1a
  weir plan web --need web=80cpus --need mail=4cpus,2000mem
  weir plan --price 'spot*2'
  weir plan --prices prices.csv --price group/blue*0.5`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := f.change()
			if err != nil {
				return usage.New(err)
			}
			configs, _ := cli.RunningConfigs()
			costs, err := f.costs(configs)
			if err != nil {
				return usage.New(err)
			}
			w.Prices = costs.factors
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				r, err := view.RequestWhatIf(ctx, b, cli.Cluster, cli.Pool, w)
				if err != nil {
					return err
				}
				rows, err := costs.of(r)
				if err != nil {
					return usage.New(err)
				}
				if cli.Output == "json" {
					err := cli.PrintNext(r)
					if err == nil && rows != nil {
						err = cli.PrintNext(rows)
					}
					return err
				}
				cli.printTick(r)
				if len(w.Without) > 0 {
					cli.printMoves(r)
				}
				cli.printCosts(rows, len(f.factors) > 0)
				return nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&f.without, "without", nil, "as if these machines were away: `node/ID`, group/ID or zone/NAME")
	cmd.Flags().StringArrayVar(&f.need, "need", nil, "as if an app requested this: `APP=AMOUNT`, such as web=80cpus or web=80cpus,2000mem; may be repeated")
	cmd.Flags().StringVar(&f.prices, "prices", "", "`FILE` of prices, as of a scenario of weir simulate (default with --price: of weir.yaml)")
	cmd.Flags().StringArrayVar(&f.factors, "price", nil, "with other prices: `WHAT*FACTOR`, where WHAT is spot, on-demand, a type or group/ID; may be repeated")
	cli.OutputFlag(cmd)
	return cmd
}

// change parses the flags.
func (f assumed) change() (w api.WhatIf, err error) {
	for _, name := range f.without {
		kind, id, _ := strings.Cut(name, "/")
		if id == "" || kind != "node" && kind != "group" && kind != "zone" {
			return w, fmt.Errorf("--without %q: want node/ID, group/ID or zone/NAME", name)
		}
	}
	w.Without = f.without
	for _, text := range f.need {
		app, amounts, _ := strings.Cut(text, "=")
		var r resource.Request
		for amount := range strings.SplitSeq(amounts, ",") {
			digits := strings.TrimRight(amount, "abcdefghijklmnopqrstuvwxyz")
			x, errNumber := strconv.ParseFloat(digits, 64)
			kind, errKind := resource.ParseKind(amount[len(digits):])
			if app == "" || errNumber != nil || errKind != nil || !(x >= 0) {
				return w, fmt.Errorf("--need %q: want APP=AMOUNT, such as web=80cpus; kinds are cpus, mem, disk and gpus", text)
			}
			r = r.With(kind, x)
		}
		if w.Need == nil {
			w.Need = map[string]resource.Request{}
		}
		w.Need[app] = r
	}
	return w, w.Validate()
}

// printMoves prints where the copies of machines that are away would go.
func (cli *tickCommands) printMoves(r api.TickRecord) {
	fmt.Fprintln(cli.Stdout)
	if r.Case == nil || r.Case.Places == nil {
		why := ""
		if r.Case != nil {
			why = ": " + r.Case.NoPlaces
		}
		fmt.Fprintf(cli.Stdout, "the places of copies are unknown%s\n", why)
		return
	}
	p := r.Case.Places
	var moved, waits, none int
	var rows [][]string
	for _, m := range p.Moves {
		place := m.To
		switch {
		case m.Why != "":
			none++
			place = "none: " + m.Why
		case m.To == "":
			waits++
			place = "a machine of group " + m.Group + " that is to come"
		default:
			moved++
		}
		rows = append(rows, []string{m.Copy, m.From, place})
	}
	if len(rows) > 0 {
		cli.PrintTable([]string{"copy", "machine", "new place"}, rows)
	}
	fmt.Fprintf(cli.Stdout, "%d copies lose their machine: %d have a place on another one, %d wait for a machine, %d have no place", p.MovesCount, moved, waits, none)
	if more := p.MovesCount - len(p.Moves); more > 0 {
		fmt.Fprintf(cli.Stdout, ", %d are not listed", more)
	}
	fmt.Fprintln(cli.Stdout)
}
