package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

func (cli *commands) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status [NAME]",
		Aliases: []string{"describe", "show", "ps"},
		Short:   "Show the state of all applications, or each instance of one application",
		Example: `  weir app status
  weir app status web
  weir app status --watch`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return requireApp(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return connect.Unreached(cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				return cli.status(ctx, b, name)
			}))
		},
	}
	cli.WatchFlag(cmd)
	cli.NamesFlag(cmd, appNames)
	return cmd
}

// appNames returns the names of the applications in the harmonizer's status.
func appNames(v any) (names []string) {
	s, _ := v.(api.HarmonizerStatus)
	if s.App != nil {
		return []string{s.App.Name}
	}
	for _, one := range s.Apps {
		names = append(names, one.Name)
	}
	return names
}

// requireApp requires the name of one application.
func requireApp(cmd *cobra.Command, args []string) error {
	if err := command.OneArg("application name")(cmd, args); err != nil {
		return err
	}
	if !names.Valid(args[0]) {
		return badAppName(args[0])
	}
	return nil
}

func requestHarmonizer(ctx context.Context, b *bus.Bus, cluster string, q api.HarmonizerQuery) (api.HarmonizerStatus, error) {
	s, err := view.Harmonizer(ctx, b, cluster, q)
	if err == nil && q.App != "" && s.App == nil {
		all, errAll := requestHarmonizer(ctx, b, cluster, api.HarmonizerQuery{})
		if errAll != nil {
			return s, errAll
		}
		var others []string
		for _, one := range all.Apps {
			others = append(others, one.Name)
		}
		err = missingApp(q.App, others)
	}
	return s, err
}

func (cli *commands) status(ctx context.Context, b *bus.Bus, name string) error {
	cli.PrintBusWarnings(ctx, b)
	s, err := requestHarmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{App: name, Crashes: name != "" && cli.Output != "json"})
	if err != nil {
		return err
	}
	if cli.Output == "json" {
		return cli.PrintJSON(s)
	}
	waits := cli.pendingOf(ctx, b, missingPools(s))
	cli.warnOfHarmonizer(s)
	if s.App != nil {
		cli.warnOfApp(s, waits)
		cli.printIndices(*s.App)
		return nil
	}
	for _, line := range view.HaltedLines(s, "") {
		cli.warnFirst([]string{line})
	}
	var rows [][]string
	work := slices.ContainsFunc(s.Apps, func(one api.AppSummary) bool { return one.OneShot })
	for _, one := range s.Apps {
		cli.warnFirst(waits[one.Name])
		n := one.Count
		if n.Failed > 0 {
			terminal.Problem(cli.Stdout, view.FailedLine(one.Name, n))
		}
		rows = append(rows, []string{one.Name, cell.OrDash(one.Pool), one.Version, fmt.Sprint(n.Expected), fmt.Sprint(n.Running),
			fmt.Sprint(n.Missing), fmt.Sprint(n.Crashed), fmt.Sprint(n.Flapping), fmt.Sprint(n.Extra), cmp.Or(one.Problem, stoppedWord(one.State))})
		if last := &rows[len(rows)-1]; work {
			*last = slices.Insert(*last, len(*last)-1, doneCell(one))
		}
	}
	head := []string{"app", "pool", "version", "expected", "running", "missing", "crashed", "flapping", "extra", "problem"}
	if work {
		head = slices.Insert(head, len(head)-1, "done")
	}
	cli.PrintTable(head, rows)
	return nil
}

// stoppedWord returns "stopped" for an application that should not run.
func stoppedWord(s api.AppState) string {
	if s == api.AppStopped {
		return "stopped"
	}
	return ""
}

// doneCell returns how far the work of an application is; "-" if it has no end.
func doneCell(s api.AppSummary) string {
	if !s.OneShot {
		return "-"
	}
	return view.WorkOf(s.Count)
}

// warnOfApp prints why instances of one application wait, and on which nodes its command does not exist.
func (cli *commands) warnOfApp(s api.HarmonizerStatus, waits map[string][]string) {
	for _, line := range append(waits[s.App.Name], missingCommands(s.Crashes)...) {
		terminal.Problem(cli.Stdout, line)
	}
}

// warnFirst prints the first of the lines about an application.
func (cli *commands) warnFirst(lines []string) {
	if len(lines) > 0 {
		terminal.Problem(cli.Stdout, lines[0])
	}
}

// warnOfHarmonizer prints what limits the harmonizer now.
func (cli *commands) warnOfHarmonizer(s api.HarmonizerStatus) {
	for _, line := range view.WrongLines(s, "") {
		terminal.Problem(cli.Stdout, line)
	}
	switch {
	case s.Complete:
	case s.Repairing:
		terminal.Problem(cli.Stdout, "nothing is stopped now, and only what ran before is started: "+s.Why)
	default:
		terminal.Problem(cli.Stdout, "nothing is started or stopped now: "+s.Why)
	}
	if s.Shadow != nil {
		fmt.Fprintln(cli.Stdout, "! the harmonizer is in shadow mode: it sends no requests")
	} else if !s.Leading {
		terminal.Problem(cli.Stdout, "this harmonizer is a standby; the leader is "+cmp.Or(s.Leader, "unknown"))
	}
	silent := slices.DeleteFunc(slices.Clone(s.Silent), func(n api.SilentNode) bool { return n.Copies == 0 })
	if len(silent) > 0 {
		terminal.Problem(cli.Stdout, explain.SilentNodes(time.Now(), silent))
	}
	for _, why := range s.Unready() {
		terminal.Problem(cli.Stdout, why)
	}
	for _, line := range slices.Concat(view.HeldLines(s.DisruptionLimit), view.UnansweredLines(time.Now(), s, ""), view.RefusedLines(s, "")) {
		terminal.Problem(cli.Stdout, line)
	}
	if s.Omitted > 0 {
		fmt.Fprintf(cli.Stdout, "! %d more apps are not shown\n", s.Omitted)
	}
}

func (cli *commands) printIndices(e api.AppExplanation) {
	cli.printHead(e.AppSummary)
	now := time.Now()
	var rows [][]string
	for _, i := range e.Indices {
		index, crashes, waits := fmt.Sprint(i.Index), fmt.Sprint(i.Crashes), startWait(now, i)
		if len(i.Instances) == 0 {
			rows = append(rows, []string{index, stateOf(i), "-", "-", explain.Ago(now, i.Missing), crashes, waits})
		}
		for _, c := range i.Instances {
			since := time.UnixMilli(int64(c.Since * 1000))
			state := string(c.State)
			if c.Unready {
				state += ", not ready"
			}
			if !c.Silent.IsZero() {
				state += ", node silent"
			}
			rows = append(rows, []string{index, state, c.Node, c.ID, explain.Ago(now, since), crashes, waits})
		}
	}
	cli.PrintTable([]string{"index", "state", "node", "instance", "for", "crashes", "waits for"}, rows)
	if e.Omitted > 0 {
		fmt.Fprintf(cli.Stdout, "%d more indices are not shown: those with problems come first\n", e.Omitted)
	}
}

func (cli *commands) printHead(s api.AppSummary) {
	n := s.Count
	fmt.Fprintf(cli.Stdout, "%s: %d expected, %d running, %d missing, %d crashed, %d flapping, %d extra",
		s.Name, n.Expected, n.Running, n.Missing, n.Crashed, n.Flapping, n.Extra)
	if s.OneShot {
		fmt.Fprintf(cli.Stdout, ", %s", view.WorkOf(n))
	}
	if word := stoppedWord(s.State); word != "" {
		fmt.Fprintf(cli.Stdout, ", %s", word)
	}
	fmt.Fprintln(cli.Stdout)
	if n.Failed > 0 {
		terminal.Problem(cli.Stdout, view.FailedLine(s.Name, n))
	}
	if s.Problem != "" {
		terminal.Problem(cli.Stdout, s.Problem)
	}
	if u := s.Update; u != nil {
		cli.printUpdate(s.Name, *u)
	}
}

func (cli *commands) printUpdate(app string, u api.AppUpdate) {
	if u.Halted != nil {
		terminal.Problem(cli.Stdout, u.Halted.String(app))
		return
	}
	fmt.Fprintf(cli.Stdout, "version %s replaces %s: %d indices are ready\n", u.To, u.From, u.Ready)
}

// stateOf returns the state of an index without an instance.
func stateOf(i api.IndexStatus) string {
	switch {
	case i.Done:
		return "DONE"
	case i.GivenUp:
		return "given up"
	case i.Flapping:
		return "flapping"
	case !i.Desired:
		return "not expected"
	}
	return "missing"
}

// startWait returns why no start of an index is sent now: "start requested 21s ago, again in 9s".
func startWait(now time.Time, i api.IndexStatus) string {
	request := "start"
	if i.Last != nil && i.Last.Kind == api.AppFindingStart {
		request = "start requested " + explain.Ago(now, i.LastAt) + " ago"
	}
	return waiting(now, request, i.Rule, i.Why, i.Until)
}

// waiting returns the text of a cell: the rule that waits, its reason, and its remaining time. request names the request that the
// rule repeats.
func waiting(now time.Time, request string, rule api.AppRule, why api.AppReason, until time.Time) string {
	if rule == "" {
		return ""
	}
	text := words(string(rule))
	if why == api.WhyNudged {
		if text = request; !strings.Contains(text, " ") {
			text += " requested"
		}
		if until.After(now) {
			text += ", again in " + explain.Ago(until, now)
		}
		return text
	}
	if why != "" {
		text += ": " + cmp.Or(waitsFor[why], words(string(why)))
	}
	if until.After(now) {
		text += ", " + explain.Ago(until, now) + " more"
	}
	return text
}

// waitsFor describes what ends the wait. Reasons without an entry are described by their names.
var waitsFor = map[api.AppReason]string{
	api.WhyUnconfirmed:     "another confirmed instance (listed by its node, no recent crash of its index)",
	api.WhyOtherMissing:    "an instance on another index of the app",
	api.WhyReplacesMissing: "an instance on the index that this one replaces",
	api.WhyJustChanged:     "the controller, which acts first after a change",
	api.WhyNoRoom:          "a node that takes it (the placer has the request)",
	api.WhyInTurn:          "its turn",
	api.WhyIncomplete:      "a complete read of expected and known state",
	api.WhyFollowing:       "the leading harmonizer",
	api.WhyStopsAll:        "fewer copies in one stop (the controller would stop the whole app)",
	api.WhyNotStaged:       "a staged package",
	api.WhyHalted:          "another version of the row: the update is halted",
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func (cli *commands) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Explain the last finding of each instance, and why no request is sent",
		Long: `Explain the last finding of each instance, and why no request is sent: the rule that
waits, its reason, and its deadline. "weir harmonizer replay --events" prints the same
for recorded events.`,
		Example: "  weir app explain web",
		Args:    requireApp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				s, err := requestHarmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{App: args[0], Crashes: cli.Output != "json"})
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.PrintJSON(s)
				}
				waits := cli.pendingOf(ctx, b, missingPools(s))
				cli.warnOfHarmonizer(s)
				cli.warnOfApp(s, waits)
				cli.printReasons(*s.App)
				return nil
			})
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) printReasons(e api.AppExplanation) {
	cli.printHead(e.AppSummary)
	now := time.Now()
	var rows [][]string
	for _, i := range e.Indices {
		last, when, rule := "", "", ""
		if i.Last != nil {
			last, when, rule = words(string(i.Last.Kind)), explain.Ago(now, i.LastAt)+" ago", words(string(i.Last.Rule))
			if i.Last.Why != "" {
				last += ": " + words(string(i.Last.Why))
			}
		}
		rows = append(rows, []string{fmt.Sprint(i.Index), stateOfAny(i), last, when, rule, startWait(now, i)})
		for _, c := range i.Instances {
			if c.Extra != "" {
				rows = append(rows, []string{fmt.Sprint(i.Index), "extra " + c.ID, "", "", words(string(c.Extra)), waiting(now, "stop", c.Rule, c.Why, c.Until)})
			}
		}
	}
	cli.PrintTable([]string{"index", "state", "last", "when", "rule", "not sent, because of"}, rows)
}

func stateOfAny(i api.IndexStatus) string {
	if len(i.Instances) == 0 {
		return stateOf(i)
	}
	var states []string
	for _, c := range i.Instances {
		states = append(states, string(c.State))
	}
	return strings.Join(states, ", ")
}

func (cli *commands) crashesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "crashes NAME",
		Short:   "List the crashes of an application's instances",
		Example: `  weir app crashes web`,
		Args:    requireApp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				s, err := requestHarmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{App: args[0], Crashes: true})
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.PrintJSON(append([]api.AppCrash{}, s.Crashes...))
				}
				var rows [][]string
				for _, c := range s.Crashes {
					rows = append(rows, []string{fmt.Sprint(c.Index), explain.Ago(time.Now(), c.At) + " ago", c.Description, cell.OrDash(c.Node), c.Instance, c.Version})
				}
				cli.PrintTable([]string{"index", "when", "how", "node", "instance", "version"}, rows)
				return nil
			})
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) retryCommand() *cobra.Command {
	var index int
	cmd := &cobra.Command{
		Use:   "retry NAME",
		Short: "Start crashed instances now, also those that are given up",
		Example: `  weir app retry web
  weir app retry web --index 3`,
		Args: requireApp,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := api.HarmonizerOrder{Op: api.OpRetry, App: args[0]}
			if cmd.Flags().Changed("index") {
				if index < 0 {
					return usage.New(fmt.Errorf("--index %d: want at least 0", index))
				}
				o.Index = &index
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				return cli.retry(ctx, b, o)
			})
		},
	}
	cmd.Flags().IntVar(&index, "index", 0, "this index only")
	return cmd
}

func (cli *commands) retry(ctx context.Context, b *bus.Bus, o api.HarmonizerOrder) error {
	// The status query fails for an unknown application, with the usual hint.
	if _, err := requestHarmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{App: o.App}); err != nil {
		return err
	}
	answer, err := cli.OrderHarmonizer(ctx, b, o)
	if err != nil {
		return err
	}
	what := "crashed instances are started again"
	if answer.Nothing {
		what = "no instance crashed recently"
	}
	fmt.Fprintf(cli.Stdout, "%s: %s\n", o.App, what)
	return nil
}
