package signal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func (cli *commands) psCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ps [POOL]",
		Aliases: []string{"list", "ls", "status"},
		Short:   "List the signal processes of a pool",
		Example: `  weir signal ps
  weir signal ps web --output json`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				s, err := cli.RequestBootstrap(ctx, b)
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.PrintJSON(s.Signals)
				}
				if s.Refused != "" {
					fmt.Fprintf(cli.Stdout, "! configuration files rejected, running processes unchanged: %s\n", s.Refused)
				}
				cli.PrintTable(cell.Processes(s.Signals, time.Now()))
				return nil
			})
		},
	}
	cli.WatchFlag(cmd)
	cli.NamesFlag(cmd, command.EachName(func(p api.Process) string { return p.App }))
	return cmd
}

// signalArg accepts the app of one signal: that of the default signal has a name of its own.
func signalArg(cmd *cobra.Command, args []string) error {
	if err := command.OneArg("app")(cmd, args); err != nil {
		return err
	}
	if args[0] != sigproto.DefaultApp && !names.Valid(args[0]) {
		return usage.New(fmt.Errorf("app %q: %s, or %s", args[0], names.Rule, sigproto.DefaultApp))
	}
	return nil
}

func (cli *commands) restartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart APP",
		Short: "Restart the signal of an app, and reset its failure count",
		Example: `  weir signal restart web
  weir signal restart __default__`,
		Args: signalArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				var a api.RestartAnswer
				err := view.Request(ctx, b.Conn(), names.BootstrapSubject(cli.Cluster, cli.Pool, "restart"), cli.bootstrapName(), api.RestartRequest{App: args[0]}, &a)
				if err != nil {
					return err
				}
				if a.Error != "" {
					return fmt.Errorf("restart the signal of %s: %w", args[0], cli.noSignal(ctx, b, args[0], a.Error))
				}
				fmt.Fprintf(cli.Stdout, "signal of %s is being restarted\n", args[0])
				return nil
			})
		},
	}
}

func (cli *commands) logsCommand() *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs APP",
		Short: "Show the last output of an app's signal",
		Example: `  weir signal logs web
  weir signal logs web --follow --lines 200`,
		Args: signalArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return usage.New(fmt.Errorf("--lines %d: want at least 0", lines))
			}
			return cli.OnBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				return cli.logs(ctx, b, api.ProcessLogsRequest{App: args[0], Last: lines}, follow)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until Ctrl-C")
	cmd.Flags().IntVar(&lines, "lines", 100, "how many of the last lines; 0 is all that are kept")
	return cmd
}

// followEvery is how often "logs --follow" requests more.
const followEvery = 250 * time.Millisecond

func (cli *commands) logs(ctx context.Context, b *bus.Bus, request api.ProcessLogsRequest, follow bool) error {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		var a api.ProcessLogsAnswer
		if err := view.Request(ctx, b.Conn(), names.BootstrapSubject(cli.Cluster, cli.Pool, "logs"), cli.bootstrapName(), request, &a); err != nil {
			return err
		}
		if a.Error != "" {
			return fmt.Errorf("read the output of the signal of %s: %w", request.App, cli.noSignal(ctx, b, request.App, a.Error))
		}
		for _, l := range a.Lines {
			fmt.Fprintf(cli.Stdout, "%s %s\n", l.At.Local().Format("2006-01-02T15:04:05.000Z07:00"), l.Text)
		}
		if !follow && len(a.Lines) == 0 || !follow && !a.More {
			return nil
		}
		request.After, request.Last = a.Next, 0
		if a.More {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// noSignal returns the reason why bootstrap refused an order for the signal of an app: if the
// pool has no such signal, a mistake with the names of those that it has.
func (cli *commands) noSignal(ctx context.Context, b *bus.Bus, app, refused string) error {
	s, err := cli.RequestBootstrap(ctx, b)
	if err != nil || slices.ContainsFunc(s.Signals, func(p api.Process) bool { return p.App == app }) {
		return errors.New(refused)
	}
	var apps []string
	for _, p := range s.Signals {
		apps = append(apps, p.App)
	}
	return usage.New(fmt.Errorf("pool %s/%s has no signal for app %q%s", cli.Cluster, cli.Pool, app, spelling.Suggest(app, apps)))
}

func (cli *commands) shadowCommand() *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "shadow [APP]",
		Short: "Compare a shadow's answers with those of the pinned version",
		Long: `Compare a shadow's answers with those of the pinned version: the state of its trial,
and each recent tick in the ledger with a response of both.`,
		Example: `  weir signal shadow
  weir signal shadow web --since 24h --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return signalArg(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			app := strings.Join(args, "")
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				return cli.shadow(ctx, b, app, since)
			})
		},
	}
	command.SinceVar(cmd.Flags(), &since, "since", time.Hour, "begin of the window")
	cli.OutputFlag(cmd)
	return cmd
}

// shadowReport is what "weir signal shadow" prints.
type shadowReport struct {
	Trials []api.TrialStatus `json:"trials"` // as bootstrap has them now
	Ticks  []shadowTick      `json:"ticks"`  // oldest first
}

// shadowTick is one tick in which a shadow received a request.
type shadowTick struct {
	At time.Time `json:"at"`
	api.ShadowRecord
	Pinned string `json:"pinned"` // what the pinned version answered
}

func (cli *commands) shadow(ctx context.Context, b *bus.Bus, app string, since time.Duration) error {
	report := shadowReport{Trials: []api.TrialStatus{}, Ticks: []shadowTick{}}
	s, err := cli.RequestBootstrap(ctx, b)
	if err != nil {
		fmt.Fprintf(cli.Stderr, "weir: %v: only the ledger is read\n", err)
	}
	for _, p := range s.Signals {
		if p.Trial != nil && (app == "" || app == p.App) {
			report.Trials = append(report.Trials, *p.Trial)
		}
	}
	known := app == ""
	named := map[string]bool{}
	for _, p := range s.Signals {
		named[p.App] = true
	}
	pool := history.Pool{JS: b.JetStream(), Cluster: cli.Cluster, Pool: cli.Pool}
	unreadable, err := pool.Records(ctx, time.Now().Add(-since), time.Time{}, func(r api.TickRecord) error {
		for name := range opinionsOf(r) {
			named[name] = true
			known = known || name == app
		}
		report.Ticks = append(report.Ticks, shadowTicks(r, app)...)
		return nil
	})
	if err != nil {
		return err
	}
	if unreadable > 0 {
		fmt.Fprintf(cli.Stderr, "weir: %d records of the ledger cannot be read\n", unreadable)
	}
	if !known && len(report.Trials) == 0 {
		err := fmt.Errorf("no tick of pool %s/%s in the last %v has an app %q%s", cli.Cluster, cli.Pool, since, app, spelling.Suggest(app, slices.Sorted(maps.Keys(named))))
		if len(named) > 0 && !named[app] {
			err = usage.New(err)
		}
		return err
	}
	if cli.Output == "json" {
		return cli.PrintJSON(report)
	}
	cli.printShadow(report)
	return nil
}

// shadowTicks returns the shadows in the record of a tick.
func shadowTicks(r api.TickRecord, app string) (ticks []shadowTick) {
	for _, s := range r.Shadows {
		if app != "" && app != s.App {
			continue
		}
		t := shadowTick{At: r.At, ShadowRecord: s}
		if o, ok := opinionsOf(r)[s.App]; ok {
			t.Pinned = answerText(string(o.Verdict), o.Request.String(), o.Why)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// opinionsOf returns the opinions of the apps and of their advisors in a tick; nil if the tick ended before its decision.
func opinionsOf(r api.TickRecord) map[string]api.Opinion {
	if r.Case == nil {
		return nil
	}
	all := map[string]api.Opinion{}
	for _, a := range r.Case.Input.Apps {
		all[a.Name] = a.Opinion
		for _, advisor := range a.Raise {
			all[advisor.Name] = advisor.Opinion
		}
	}
	return all
}

// answerText is an answer in a few words.
func answerText(verdict, request, why string) string {
	if verdict == "value" {
		return request
	}
	if why == "" {
		return verdict
	}
	return verdict + ": " + why
}

func (cli *commands) printShadow(r shadowReport) {
	for _, t := range r.Trials {
		fmt.Fprintf(cli.Stdout, "%s: %s %s beside %s: %s\n", t.App, t.Signal, t.Shadow, t.Pinned, cell.Trial(time.Now(), t))
	}
	if len(r.Trials) == 0 && len(r.Ticks) == 0 {
		fmt.Fprintln(cli.Stdout, `no shadow has received a request: give a signal of the pool file "shadow: {version: VERSION}"`)
		return
	}
	var rows [][]string
	for _, t := range r.Ticks {
		difference := t.Difference
		switch {
		case !t.Compared:
			difference = "not compared"
		case difference == "":
			difference = "agrees"
		}
		rows = append(rows, []string{explain.Time(t.At), t.App, t.Version, t.Pinned,
			answerText(string(t.Verdict), t.Request.String(), t.Why), difference})
	}
	if rows != nil {
		fmt.Fprintln(cli.Stdout)
		cli.PrintTable([]string{"tick", "app", "shadow", "pinned answers", "shadow answers", "difference"}, rows)
	}
}

func (cli *commands) bootstrapName() string {
	return "bootstrap of pool " + cli.Cluster + "/" + cli.Pool
}
