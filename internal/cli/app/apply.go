package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

const fileHelp = `

The file is YAML, or the same in JSON:

  apps:
    web:
      instances: 2
      pool: default
      command: exec ./serve
      cpus: 0.2                       # default 0.1
      mem: 64                         # MB, default 64
      ready: {http: {port: 8080, path: /health}}
      env: {LEVEL: debug}
      update: {max_surge: 25%, stop_after: 1}

Its other keys are disk, gpus, release, labels, state (STARTED or STOPPED), package_state
and version. A row is the whole application: a key that is missing has its default, also
if "weir app set" or "weir app stop" has set it. A restart and the history stay.
Applications that are not in the file are left alone, except with --prune.

All mistakes of the file are printed, and nothing is written if it has one.`

// files are the commands about a file of applications.
type files struct{ *commands }

// fileFlags are the flags of commands about a file of applications.
type fileFlags struct {
	file  string
	prune bool
}

func (f *fileFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "file of applications; - is standard input")
	cmd.Flags().BoolVar(&f.prune, "prune", false, "delete the applications of the cluster that are not in the file")
}

func (f *fileFlags) check(cmd *cobra.Command) error {
	if f.file == "" {
		return usage.New(fmt.Errorf("--file is missing: name a file of applications, or - for standard input\nSee %q", cmd.CommandPath()+" --help"))
	}
	return nil
}

func (cli files) applyCommand() *cobra.Command {
	var f fileFlags
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Create and change the applications of a file",
		Long: `Create and change the applications of a file. "weir app diff" shows before what would
change.` + fileHelp + `

An instance of 0 cpus, and more instances than a pool can hold at its maximum, are written
only with --yes. Each application is written only if no other command has changed it since it was read. If
the command ends early, it prints how many applications are written. To repeat it is safe.`,
		Example: `  weir app apply -f apps.yaml
  weir app apply -f apps.yaml --prune --yes --wait
  generate-apps | weir app apply -f -`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return cli.apply(cmd.Context(), f, o)
		},
	}
	f.bind(cmd)
	cmd.Flags().BoolVar(&o.yes, "yes", false, "also delete what --prune deletes, and write 0 cpus and more instances than a pool can hold at its maximum")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "write nothing if no machine of its pool can hold an instance of an application")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "show the updates until all instances are ready, or one halts")
	cli.OutputFlag(cmd)
	return cmd
}

type applyOptions struct{ yes, strict, wait bool }

// applyResult is what the command did.
type applyResult struct {
	Apps []appChange `json:"apps"` // those that are written
	Left int         `json:"left"` // applications that the command did not come to
}

func (cli files) apply(ctx context.Context, f fileFlags, o applyOptions) error {
	rows, err := cli.readFile(f.file)
	if err != nil {
		return err
	}
	return cli.OnBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		bound, cancel := context.WithTimeout(ctx, cli.Timeout)
		defer cancel()
		all, _, err := cli.changes(bound, b, rows, f.prune)
		if err != nil {
			return err
		}
		if err := cli.mayApply(bound, b, all, o); err != nil {
			return err
		}
		done, err := cli.writeAll(ctx, b, all)
		if cli.Output == "json" {
			err = errors.Join(err, cli.PrintJSON(applyResult{append([]appChange{}, done...), len(all) - len(done)}))
		} else {
			fmt.Fprintln(cli.Stdout, counts(done))
		}
		if err != nil || !o.wait {
			return err
		}
		return cli.waitAll(ctx, b, done)
	})
}

// mayApply warns of what the pools cannot hold, and returns why nothing may be written.
func (cli files) mayApply(ctx context.Context, b *bus.Bus, all []appChange, o applyOptions) error {
	var problems []error
	var deleted, doubts []string
	pools := readPools(ctx, b, cli.commands)
	for _, c := range all {
		switch c.Change {
		case changeDeleted:
			deleted = append(deleted, c.App)
		case changeCreated, changeChanged:
			if why := pools.refuses(c.row); why != "" {
				problems = append(problems, fmt.Errorf("application %s: %s", c.App, why))
			} else if never := pools.whyNever(c.row); never == "" || !o.strict {
				pools.warn(c.row, o.strict)
				if why := pools.absurd(c.old, c.row); why != "" {
					doubts = append(doubts, why)
				}
			} else {
				problems = append(problems, fmt.Errorf("application %s: %s", c.App, never))
			}
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("nothing is written: %w", errors.Join(problems...))
	}
	if len(deleted) > 0 {
		doubts = append(doubts, fmt.Sprintf("--prune deletes %s, not in the file, and stops the instances: %s", applications(len(deleted)), strings.Join(deleted, ", ")))
	}
	if len(doubts) == 0 {
		return nil
	}
	return command.Confirm(o.yes, strings.Join(doubts, "\n"))
}

// writeAll writes the changes, and prints a line for each. It returns those that are done.
func (cli files) writeAll(ctx context.Context, b *bus.Bus, all []appChange) (done []appChange, err error) {
	for i, c := range all {
		err := ctx.Err()
		if err != nil {
			err = context.Cause(ctx)
		}
		switch {
		case err != nil || c.Change == changeNone:
		case c.Change == changeDeleted:
			if err = eraseApp(ctx, b, cli.Cluster, c.App, c.revision); err == nil {
				err = announceApp(b.Conn(), c.App)
			}
		default:
			err = writeApp(ctx, b, cli.Cluster, c.row, c.revision)
		}
		if err != nil {
			return all[:i], fmt.Errorf("%d of %s applied, %s is not: %w; repeat the command to apply the rest", i, applications(len(all)), c.App, err)
		}
		if cli.Output != "json" {
			fmt.Fprintln(cli.Stdout, c.line())
		}
	}
	return all, nil
}

// waitAll waits until each application that should run is ready. The error has all updates that halted.
func (cli files) waitAll(ctx context.Context, b *bus.Bus, done []appChange) error {
	shown := *cli.Root
	if cli.Output == "json" {
		shown.Stdout = cli.Stderr
	}
	var errs []error
	for _, c := range done {
		if c.Change == changeDeleted || c.row.State == api.AppStopped {
			continue
		}
		errs = append(errs, waitReady(ctx, b, &commands{&connect.CLI{Root: &shown}}, c.row))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// errDiffers is the error of a diff with a difference.
var errDiffers = errors.New("the applications differ from the file")

func (cli files) diffCommand() *cobra.Command {
	var f fileFlags
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what applying a file of applications would change",
		Long: `Show what applying a file of applications would change, for each application and key.
Nothing is written. The exit code is 0 if nothing differs, 1 if something does, and 2 if
that is unknown.` + fileHelp,
		Example: `  weir app diff -f apps.yaml
  weir app diff -f apps.yaml --prune --output json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			rows, err := cli.readFile(f.file)
			if err != nil {
				return err
			}
			err = cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				all, others, err := cli.changes(ctx, b, rows, f.prune)
				if err != nil {
					return err
				}
				return cli.printDiff(all, others, f.prune)
			})
			if err != nil && !errors.Is(err, errDiffers) {
				return command.WithCode(command.ExitUsage, err)
			}
			return err
		},
	}
	f.bind(cmd)
	cli.OutputFlag(cmd)
	return cmd
}

// printDiff prints the differences, and returns errDiffers if there are any.
func (cli files) printDiff(all []appChange, others []string, prune bool) error {
	differs := []appChange{}
	for _, c := range all {
		if c.Change != changeNone {
			differs = append(differs, c)
		}
	}
	if cli.Output == "json" {
		if err := cli.PrintJSON(differs); err != nil {
			return err
		}
	} else {
		for _, c := range differs {
			fmt.Fprintf(cli.Stdout, "%s: would be %s\n", c.App, c.Change)
			for _, k := range c.Keys {
				if c.Change == changeCreated {
					fmt.Fprintf(cli.Stdout, "  %s %s\n", k.Key, k.After)
				} else {
					fmt.Fprintf(cli.Stdout, "  %s\n", k)
				}
			}
		}
		fmt.Fprintln(cli.Stdout, counts(all))
		if len(others) > 0 && !prune {
			fmt.Fprintf(cli.Stdout, "%s not in the file, left alone without --prune: %s\n", applications(len(others)), explain.List(others))
		}
	}
	if len(differs) > 0 {
		return fmt.Errorf("%w: %d of %d", errDiffers, len(differs), len(all))
	}
	return nil
}
