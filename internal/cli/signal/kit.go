package signal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/record"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/signals/plugin"
	"github.com/weirkeeper/weirkeeper/signals/signaltest"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// requestFlags holds the flags of the commands that send requests to a signal's program.
type requestFlags struct {
	app        string
	parameters []string
	metrics    string
	fixedApp   bool
}

func (a *requestFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.app, "app", "", "application of the signal (default: that of the recorded windows)")
	f.StringArrayVar(&a.parameters, "param", nil, "parameter that the signal declares, NAME=VALUE in YAML; may be given again")
	f.StringVar(&a.metrics, "metrics", "", `recorded windows, as "weir metrics get" writes them; - is standard input`)
}

// target returns the program of a command line, PROGRAM [ARG...].
func (a *requestFlags) target(cli *commands, args []string) (signaltest.Target, error) {
	path, err := filepath.Abs(args[0])
	if err != nil {
		return signaltest.Target{}, err
	}
	switch info, err := os.Stat(path); {
	case err != nil:
		return signaltest.Target{}, usage.New(fmt.Errorf("the signal's program: %w: build it, or name another program", err))
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return signaltest.Target{}, usage.New(fmt.Errorf("the signal's program: %s is not an executable file: build it, chmod +x it, or name its interpreter first", path))
	}
	t := signaltest.Target{Path: path, Args: args[1:], FixedApp: a.fixedApp}
	t.Hello = sigproto.Hello{Cluster: cli.Cluster, Pool: cli.Pool}
	if t.Hello.Parameters, err = a.decodeParameters(); err != nil {
		return t, usage.New(err)
	}
	if a.metrics != "" {
		if t.Sample, err = a.evaluation(cli); err != nil {
			return t, err
		}
	}
	t.App = a.app
	return t, t.Validate()
}

// decodeParameters returns the parameters of the flags.
func (a *requestFlags) decodeParameters() (map[string]any, error) {
	all := map[string]any{}
	for _, p := range a.parameters {
		name, text, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--param %q: want NAME=VALUE", p)
		}
		value, err := decodeParameter(text)
		if err != nil {
			return nil, fmt.Errorf("--param %s: read the value as YAML: %w", name, err)
		}
		all[name] = value
	}
	return all, nil
}

// checked is target for a running kit: it refuses a parameter that the program does not declare.
func (a *requestFlags) checked(ctx context.Context, cli *commands, args []string) (signaltest.Target, error) {
	t, err := a.target(cli, findProgram(args))
	if err != nil || len(a.parameters) == 0 {
		return t, err
	}
	names, declared, err := signaltest.Parameters(ctx, t)
	if err != nil || !declared {
		return t, err
	}
	for _, name := range slices.Sorted(maps.Keys(t.Hello.Parameters)) {
		if !slices.Contains(append(names, "cluster", "pool"), name) {
			return t, usage.New(fmt.Errorf("--param %s: the program declares no such parameter%s", name, spelling.Suggest(name, names)))
		}
	}
	return t, nil
}

// decodeParameter decodes a parameter's value: one document of YAML within bounds, without
// anchors, aliases and tags. An empty text is nil.
func decodeParameter(text string) (value any, err error) {
	documents, problem := strictyaml.Values([]byte(text), strictyaml.Bounds{
		Bytes: 1 << 20, Tokens: 1 << 14, Nesting: 64,
		TooMuch:  "the value has more than %d words and signs",
		Indirect: "anchors, aliases, tags and the like are not read: write the value out",
	})
	switch {
	case problem != nil:
		return nil, problem
	case len(documents) > 1:
		return nil, fmt.Errorf("the value has %d documents, want one", len(documents))
	}
	for _, v := range documents {
		if problem := v.NotDecimal(); problem != nil {
			return nil, problem
		}
	}
	err = yaml.Unmarshal([]byte(text), &value)
	return value, err
}

// evaluation reads the recorded windows, as the signal would be given them at the
// time of the newest point.
func (a *requestFlags) evaluation(cli *commands) (e sigproto.Evaluation, err error) {
	in, err := cli.Input(a.metrics)
	if err != nil {
		return e, err
	}
	defer in.Close() // only read
	for w, err := range record.Read(in) {
		if _, unread := errors.AsType[*inputfile.Error](err); unread {
			return e, err
		}
		if err != nil {
			return e, usage.New(fmt.Errorf("%s: %w; want a line of \"weir metrics get --output json\"", a.metrics, err))
		}
		name, err := a.shownName(w)
		if err != nil {
			return e, usage.New(fmt.Errorf("%s: %w", a.metrics, err))
		}
		e.Series = append(e.Series, sigproto.Series{Name: name, Times: w.Times, Values: w.Values})
		if t, ok := w.Newest(); ok {
			e.Timestamp = max(e.Timestamp, t.Unix())
		}
	}
	return e, nil
}

// shownName returns the name of a recorded series as a signal receives it: without app,
// cluster and pool.
func (a *requestFlags) shownName(w record.Series) (string, error) {
	name := w.Name
	if w.Type == metrics.App {
		app, bare, _ := strings.Cut(name, ",")
		if a.app == "" {
			a.app = app
		}
		if app != a.app {
			return "", fmt.Errorf("%s belongs to app %q, but the request is for app %q: record one app, and name it with --app", name, app, a.app)
		}
		name = bare
	}
	shown := maps.Clone(w.Dimensions)
	delete(shown, "cluster")
	delete(shown, "pool")
	return metrics.Key(name, shown), nil
}

func program(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage.New(fmt.Errorf("%s requires the signal's program\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
	}
	return nil
}

func (cli *commands) testCommand() *cobra.Command {
	var a requestFlags
	cmd := &cobra.Command{
		Use:   "test PROGRAM [ARG...]",
		Short: "Test the program of a signal for conformance",
		Long: `Test the program of a signal for conformance, in any language. The command starts the
program as bootstrap does, sends valid and invalid requests, kills it and starts it
again. Each check detects one kind of mistake and prints how to correct it.`,
		Example: `  weir signal test ./bin/rps
  weir signal test ./bin/rps --metrics windows.jsonl --param headroom=1.2
  weir signal test python3 signal.py`,
		Args: program,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := a.checked(cmd.Context(), cli, args)
			if err != nil {
				return err
			}
			return cli.testSignal(cmd.Context(), target)
		},
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&a.fixedApp, "fixed-app", false, `its pool file has "distinct_app: false"`)
	cmd.Flags().SetInterspersed(true)
	cli.OutputFlag(cmd)
	return cmd
}

// findProgram finds a program by its name, as a shell does; else it may be a file of
// this folder.
func findProgram(args []string) []string {
	if path, err := exec.LookPath(args[0]); err == nil {
		return append([]string{path}, args[1:]...)
	}
	return args
}

func (cli *commands) testSignal(ctx context.Context, target signaltest.Target) error {
	reports, err := signaltest.Test(ctx, target)
	if err != nil {
		return usage.New(err)
	}
	var all []signaltest.Report
	for r := range reports {
		all = append(all, r)
		if cli.Output != "json" {
			cli.printReport(r)
		}
	}
	if cli.Output == "json" {
		if err := cli.PrintJSON(all); err != nil {
			return err
		}
	}
	return cli.sumUp(all)
}

// printReport prints the result of a check. sumUp counts the checks that were skipped.
func (cli *commands) printReport(r signaltest.Report) {
	if r.Before != "" {
		return
	}
	fmt.Fprintf(cli.Stdout, "%-7s  %-18s %s\n", r.Result, r.Name, r.What)
	if r.Problem != "" {
		fmt.Fprintf(cli.Stdout, "           %s\n", strings.ReplaceAll(r.Problem, "\n", "\n           "))
	}
	if r.Fix != "" {
		fmt.Fprintf(cli.Stdout, "           to do: %s\n", r.Fix)
	}
}

// sumUp prints a summary of all reports. It returns an error if a check did not pass.
func (cli *commands) sumUp(all []signaltest.Report) error {
	out := cli.Stdout
	if cli.Output == "json" {
		out = io.Discard
	}
	var answers signaltest.Answers
	waiting := map[string]int{}
	passed := 0
	for _, r := range all {
		answers = answers.Merge(r.Answers)
		if r.Result == signaltest.Passed {
			passed++
		}
		waiting[r.Before]++
	}
	for _, r := range all {
		if n := waiting[r.Name]; n > 0 {
			fmt.Fprintf(out, "%s until %s passes\n", prose.Plural(n, "check is skipped", "checks are skipped"), r.Name)
		}
	}
	if answers != (signaltest.Answers{}) {
		fmt.Fprintf(out, "%s a value, %d had none\n", prose.Plural(answers.Values, "answer had", "answers had"), answers.None)
	}
	if answers.Values == 0 && answers.None > 0 {
		fmt.Fprintln(out, "! it returned no value: pass windows of its metrics (--metrics) and its parameters (--param)")
	}
	if passed < len(all) {
		return fmt.Errorf("%d of %d checks did not pass", len(all)-passed, len(all))
	}
	fmt.Fprintf(out, "all %d checks passed\n", len(all))
	return nil
}

func (cli *commands) benchCommand() *cobra.Command {
	var a requestFlags
	cmd := &cobra.Command{
		Use:   "bench PROGRAM [ARG...]",
		Short: "Measure the response time of a signal's program",
		Long: `Measure the response time of a signal's program, from the request to the decoded
response. The same run measures a plain write of as many bytes to a socket: "bare" is
the limit of this machine, and the ratio compares the signal with it.`,
		Example: `  weir signal bench ./bin/rps`,
		Args:    program,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := a.checked(cmd.Context(), cli, args)
			if err != nil {
				return err
			}
			var all []signaltest.Figures
			var rows [][]string
			for _, w := range signaltest.Workloads() {
				f, err := signaltest.Bench(cmd.Context(), target, w)
				if err != nil {
					return err
				}
				all = append(all, f)
				rows = append(rows, []string{w.String(), cell.Bytes(int64(f.Bytes)), millis(f.P50), millis(f.P99), millis(f.BareP50), fmt.Sprintf("%.1f", f.Ratio())})
			}
			if cli.Output == "json" {
				return cli.PrintJSON(all)
			}
			cli.PrintTable([]string{"windows", "body", "p50 ms", "p99 ms", "bare p50 ms", "ratio"}, rows)
			return nil
		},
	}
	a.flags(cmd)
	cli.OutputFlag(cmd)
	return cmd
}

func millis(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }

func (cli *commands) runCommand() *cobra.Command {
	var a requestFlags
	var local string
	cmd := &cobra.Command{
		Use:   "run SIGNAL [NAMESPACE APP] | run --local PROGRAM --metrics FILE",
		Short: "Run a built-in signal, or send one request to a program",
		Long: `Run a built-in signal: ` + strings.Join(builtin.Names(), ", ") + `. It listens on the socket of
NAMESPACE, SIGNAL and APP until it receives SIGTERM or Ctrl-C.

With --local the command starts a program, sends it one request with recorded windows,
prints its response, and ends it.`,
		Example: `  weir signal run default weir __default__
  weir metrics get --app web requests_per_second --range 20m --output json > windows.jsonl
  weir signal run --local ./bin/rps --metrics windows.jsonl --param headroom=1.2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if local == "" && len(args) != 1 && len(args) != 3 {
				return usage.New(fmt.Errorf("%s requires SIGNAL, or SIGNAL NAMESPACE APP\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if local != "" {
				return cli.requestOnce(cmd.Context(), a, append([]string{local}, args...))
			}
			return cli.runShipped(cmd.Context(), args)
		},
	}
	command.IgnoreContext(cmd) // bootstrap starts it
	a.flags(cmd)
	cmd.Flags().StringVar(&local, "local", "", "program of a signal that receives one request")
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) runShipped(ctx context.Context, args []string) error {
	s, err := builtin.Named(args[0])
	if err != nil {
		return usage.New(err)
	}
	log, err := cli.Logger()
	if err != nil {
		return err
	}
	c := signals.ServeConfig{Namespace: "weir", Name: args[0], App: sigproto.DefaultApp, Log: log}
	if len(args) == 3 {
		c.Namespace, c.App = args[1], args[2]
	}
	return plugin.Serve(ctx, s, c)
}

// answered is the response of a signal's program to one request.
type answered struct {
	Resources   sigproto.Resources `json:"resources"`
	Verdict     string             `json:"verdict"`
	Explanation string             `json:"explanation,omitempty"`
	Unknown     []string           `json:"unknown_keys,omitempty"`
}

func (cli *commands) requestOnce(ctx context.Context, a requestFlags, args []string) error {
	if a.metrics == "" {
		return usage.New(errors.New(`--metrics is missing: name a file of recorded windows; "weir metrics get --output json" writes one`))
	}
	target, err := a.checked(ctx, cli, args)
	if err != nil {
		return err
	}
	r, err := signaltest.Evaluate(ctx, target, target.Sample, target.Hello)
	if err != nil {
		return err
	}
	out := answered{Resources: r.Resources, Verdict: string(r.Verdict), Explanation: r.Explanation, Unknown: r.Unknown}
	if out.Verdict == "" {
		out.Verdict = "value"
	}
	if cli.Output == "json" {
		return cli.PrintJSON(out)
	}
	fmt.Fprintf(cli.Stdout, "verdict      %s\n", out.Verdict)
	for _, k := range []struct {
		name  string
		value *float64
		unit  string
	}{
		{"cpus", r.Resources.CPUs, ""}, {"mem", r.Resources.Mem, " MB"},
		{"disk", r.Resources.Disk, " MB"}, {"gpus", r.Resources.GPUs, ""},
	} {
		if k.value == nil {
			fmt.Fprintf(cli.Stdout, "%-12s no opinion\n", k.name)
			continue
		}
		fmt.Fprintf(cli.Stdout, "%-12s %s%s\n", k.name, explain.Quantity(*k.value), k.unit)
	}
	if r.Explanation != "" {
		fmt.Fprintf(cli.Stdout, "explanation  %s\n", r.Explanation)
	}
	for _, key := range r.Unknown {
		fmt.Fprintf(cli.Stdout, "! the response has an unknown key: %s\n", key)
	}
	return nil
}
