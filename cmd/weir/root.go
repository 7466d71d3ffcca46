// Command weir scales pools of machines, keeps the configured number of application
// instances running, and repairs unhealthy machines. "weir help" lists its commands.
//
// The daemons run by "weir bootstrap", "weir harmonizer", "weir placer" and "weir agent".
// All other commands print data or send an order, and end. Each file has one group of
// commands, as a struct with the shared flags. The package has flags and printing only. A
// process runs one command.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/manpages"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/platform/atrest"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

func main() {
	command.NameProcess(os.Args[0])
	atrest.Start()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// shared holds what all commands use: streams, the flags of the root, and --output.
type shared struct {
	command.Root
	form   string // --output
	output string // "table", or "json" for any other form: see formFlag
	names  func(value any) []string
	args   []string // arguments of the command line
}

// run executes the command line and returns the exit code of the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cli := &shared{Root: command.Root{Stdin: stdin, Stdout: stdout, Stderr: stderr, Settings: daemon.Settings{Program: command.Self}}}
	cli.args = args
	err := cli.Run(cli.root(), args)
	if errors.Is(err, autoscalerd.ErrRestartNeeded) {
		return api.ExitRestart
	}
	return command.ExitCode(err)
}

func (cli *shared) root() *cobra.Command {
	root := cli.Command()
	// Not cobra's own flag: its template would link text/template, for which the linker keeps all methods.
	version := root.Flags().Bool("version", false, "print the version, as \"weir version\" does")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			_, err := fmt.Fprintln(cli.Stdout, versionText())
			return err
		}
		return help(cmd, args)
	}
	root.Long = `Weirkeeper scales pools of machines, keeps the configured number of application
instances running, and repairs unhealthy machines.

To try all of it on this machine, run "weir up", and in another terminal:
  weir app set web --instances 5 --cpus 0.2 --mem 64 --command 'while :; do date; sleep 5; done'
  weir status
  weir explain`
	pool, node, signals := &poolCommands{cli}, &healthCommands{cli}, &signalCommands{cli}
	daemons := &daemonCommands{cli}
	root.AddCommand(
		command.Up(func(context.Context, command.UpOptions) error { return command.ReplaceWithLocal("weir up", cli.args) }),
		(&statusCommands{cli}).statusCommand(), pool.explainCommand(), pool.planCommand(), pool.diffCommand(), pool.eventsCommand(), (&decideCommands{cli}).decideCommand(),
		pool.pauseCommand(), pool.resumeCommand(), pool.offsetCommand(), pool.poolCommand(), node.nodeCommand(), (&appCommands{cli}).appCommand(),
		(&stateCommands{cli}).stateCommand(), (&natsCommands{cli}).natsCommand(), signals.signalCommand(), (&releaseCommands{cli}).releaseCommand(),
		(&metricsCommands{cli}).metricsCommand(), daemons.bootstrapCommand(), daemons.autoscalerCommand(), daemons.agentCommand(), daemons.authCommand(), daemons.placerCommand(), daemons.notifyCommand(), daemons.webCommand(),
		(&harmonizerCommands{cli}).harmonizerCommand(), (&configCommands{cli}).configCommand(), (&doctorCommands{cli}).doctorCommand(), (&versionCommands{cli}).versionCommand(), daemons.keepCommand(), (&contextCommands{cli}).contextCommand(),
	)
	root.AddCommand(manpages.Commands(daemon.BuildVersion())...)
	(&completion{cli}).completeNames(root)
	return root
}

// poolArg accepts the name of the pool as the only argument, in place of --pool.
func (cli *shared) poolArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return command.OneArg("pool")(cmd, args)
	}
	if len(args) == 1 {
		return cli.usePool(cmd, args[0])
	}
	return nil
}

// usePool makes the pool that an argument names the pool of the command. Two different names are a mistake.
func (cli *shared) usePool(cmd *cobra.Command, name string) error {
	if cmd.Flags().Changed("pool") && cli.Pool != name {
		return usage.New(fmt.Errorf("%s has two pools: %q, and %q of --pool; give one of them\nSee %q", cmd.CommandPath(), name, cli.Pool, cmd.CommandPath()+" --help"))
	}
	cli.Pool, cli.PoolNamed = name, true
	return nil
}

// poolRule is in the help of commands with a pool and another argument.
const poolRule = `The pool is the first of two arguments. A single argument is the %s, for the pool of
--pool.`

// poolThen accepts [POOL] [WHAT]: of two arguments the first is the pool, and a single one is not. lastOf returns WHAT
// of the same arguments.
func (cli *shared) poolThen(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 2:
			return usage.New(fmt.Errorf("%s wants one %s, and a pool before it, but got %d arguments\nSee %q", cmd.CommandPath(), what, len(args), cmd.CommandPath()+" --help"))
		case len(args) == 2:
			return cli.usePool(cmd, args[0])
		}
		return nil
	}
}

// lastOf returns the last argument alone, if there is one.
func lastOf(args []string) []string { return args[max(0, len(args)-1):] }

// outputFlag gives a command --output: table, json or yaml.
func (cli *shared) outputFlag(cmd *cobra.Command) {
	cli.formFlag(cmd, command.FormTable, command.FormJSON, command.FormYAML)
}

// namesFlag is outputFlag with the form "name". names returns the names of the things in a value that the command
// passes to printJSON.
func (cli *shared) namesFlag(cmd *cobra.Command, names func(value any) []string) {
	cli.formFlag(cmd, command.FormTable, command.FormJSON, command.FormYAML, command.FormName)
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cli.names = names
		return inner(cmd, args)
	}
}

// formFlag gives a command --output with these forms, of which the first is the default. The command prints tables if
// cli.output is "table". In any other form it passes its data to printJSON; cli.output is "json" then.
func (cli *shared) formFlag(cmd *cobra.Command, forms ...string) {
	last := len(forms) - 1
	want := strings.Join(forms[:last], ", ") + " or " + forms[last]
	cmd.Flags().StringVarP(&cli.form, "output", "o", forms[0], want)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp)) // fails only without the flag
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("output") { // all commands share cli.form
			cli.form = forms[0]
		}
		if !slices.Contains(forms, cli.form) {
			return usage.New(fmt.Errorf("--output %q: want %s%s", cli.form, want, spelling.DidYouMean(cli.form, forms)))
		}
		cli.output = command.FormTable
		if cli.form != command.FormTable {
			cli.output = command.FormJSON
		}
		return inner(cmd, args)
	}
}

// printJSON prints a value in the form of --output: as JSON, as YAML, or the names in it.
func (cli *shared) printJSON(v any) error {
	if cli.form != command.FormName {
		return command.Encode(cli.Stdout, cli.form, v)
	}
	for _, name := range cli.names(v) {
		if _, err := fmt.Fprintln(cli.Stdout, terminal.OneLine(name)); err != nil {
			return err
		}
	}
	return nil
}

// printNext prints one value of a stream: a line of JSON, or a YAML document.
func (cli *shared) printNext(v any) error { return command.EncodeNext(cli.Stdout, cli.form, v) }

// eachName returns a function for namesFlag: the name of each element of a list of T.
func eachName[T any](name func(T) string) func(any) []string {
	return func(value any) (names []string) {
		list, _ := value.([]T)
		for _, one := range list {
			names = append(names, name(one))
		}
		return names
	}
}

// watchFlag gives a command --watch. Call it before outputFlag or namesFlag.
func (cli *shared) watchFlag(cmd *cobra.Command) {
	watch := cmd.Flags().BoolP("watch", "w", false, "repeat every 2s until Ctrl-C; without a terminal, print only changes")
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*watch {
			return inner(cmd, args)
		}
		return cli.Watch(cmd.Context(), func(context.Context) error { return inner(cmd, args) })
	}
}

func (cli *shared) printTable(header []string, rows [][]string) {
	command.Table(cli.Stdout, header, rows)
}
