package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/command"
)

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

// formFlag gives a command --output with these forms. The command prints tables if cli.output is "table". In any other
// form it passes its data to printJSON; cli.output is "json" then.
func (cli *shared) formFlag(cmd *cobra.Command, forms ...string) {
	last := len(forms) - 1
	want := strings.Join(forms[:last], ", ") + " or " + forms[last]
	cmd.Flags().StringVarP(&cli.form, "output", "o", command.FormTable, want)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp)) // fails only without the flag
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(forms, cli.form) {
			return command.Usage(fmt.Errorf("--output %q: want %s%s", cli.form, want, command.DidYouMean(cli.form, forms)))
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
		if _, err := fmt.Fprintln(cli.Stdout, command.OneLine(name)); err != nil {
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

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (cli *shared) printProcesses(list []bootstrap.Process) {
	now := time.Now()
	var rows [][]string
	for _, p := range list {
		rows = append(rows, processRow(p, p.Title(), now))
		if c := p.Candidate; c != nil {
			rows = append(rows, processRow(*c, "  beside it", now))
		}
	}
	cli.printTable([]string{"process", "version", "state", "pid", "since", "restarts", "why"}, rows)
}
