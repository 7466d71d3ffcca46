package cli

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// completeTimeout bounds a completion without --timeout: a person waits for it at the prompt.
const completeTimeout = time.Second

// completion completes command lines for shells.
type completion struct{ *connect.CLI }

// lister returns the names that an argument may have.
type lister func(context.Context) ([]string, error)

// completeNames gives each command below root the completion of the words in its usage line, and the flags theirs.
func (cli *completion) completeNames(root *cobra.Command) {
	kinds := map[string]lister{
		"POOL": cli.poolNames, "NODE": cli.overBus(cli.nodeNames), "GROUP": cli.overBus(cli.groupNames),
		"APP": cli.overBus(cli.signalNames), "NAMESPACE/NAME@VERSION": cli.releaseNames, "NAMESPACE/NAME": cli.signalsInBucket,
		"CONTEXT": contextNames,
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		words := argumentsOf(cmd.Use)
		if cmd.HasParent() && cmd.Parent().Name() == "app" {
			for i, w := range words {
				words[i] = strings.ReplaceAll(w, "NAME", "APPLICATION")
			}
		}
		if len(words) > 0 && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = cli.complete(kinds, words)
		}
	}
	kinds["APPLICATION"] = cli.overBus(cli.appNames)
	walk(root)
	for flag, values := range map[string][]string{"color": {"auto", "always", "never"}, "log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"}} {
		_ = root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	_ = root.RegisterFlagCompletionFunc("context", cli.complete(kinds, []string{"CONTEXT..."}))
	_ = root.RegisterFlagCompletionFunc("pool", cli.complete(kinds, []string{"POOL..."}))
}

// argumentsOf returns the words for arguments in a usage line, without brackets: POOL of "pause [POOL]". Each may end in
// "...".
func argumentsOf(use string) (words []string) {
	brackets := strings.NewReplacer("[", "", "]", "", "(", "", ")", "")
	for _, field := range strings.Fields(use)[1:] {
		if word := brackets.Replace(field); word != "" && !strings.HasPrefix(word, "-") && word != "|" {
			words = append(words, word)
		}
	}
	return words
}

// complete returns the completion of arguments with these words. It prints nothing if the names cannot be read in time.
func (cli *completion) complete(kinds map[string]lister, words []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		words := words
		if len(words) > 1 && words[0] == "POOL" && cmd.Flags().Changed("pool") {
			words = words[1:]
		}
		word := words[min(len(args), len(words)-1)]
		if len(args) >= len(words) && !strings.HasSuffix(word, "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, known := kinds[strings.TrimSuffix(word, "...")]
		if !known {
			return nil, directiveOf(word)
		}
		cli.Stderr = io.Discard
		if err := cmd.Root().PersistentPreRunE(cmd, nil); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if (word == "NODE..." || word == "NODE" || word == "GROUP...") && len(args) > 0 && words[0] == "POOL" {
			cli.Pool = args[0]
		}
		timeout := completeTimeout
		if cmd.Flags().Changed("timeout") {
			timeout = cli.Timeout
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		names, err := list(ctx)
		if word == "POOL" && len(words) > 1 { // the pool may be left out
			if second := kinds[strings.TrimSuffix(words[1], "...")]; second != nil {
				more, _ := second(ctx)
				names = append(names, more...)
			}
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			return !strings.HasPrefix(name, start) || terminal.OneLine(name) != name || slices.Contains(args, name)
		})
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// directiveOf lets the shell complete files where an argument is one.
func directiveOf(word string) cobra.ShellCompDirective {
	switch strings.TrimSuffix(word, "...") {
	case "FILE", "PATH", "PROGRAM", "ARG":
		return cobra.ShellCompDirectiveDefault
	}
	return cobra.ShellCompDirectiveNoFileComp
}

// overBus returns a lister that reads the bus.
func (cli *completion) overBus(list func(context.Context, *bus.Bus) ([]string, error)) lister {
	return func(ctx context.Context) (names []string, err error) {
		err = cli.OnBus(ctx, func(ctx context.Context, b *bus.Bus) error {
			names, err = list(ctx, b)
			return err
		})
		return names, err
	}
}

// poolNames returns the pools that have ticked, and those with a file. Either may be missing.
func (cli *completion) poolNames(ctx context.Context) ([]string, error) {
	names, errFiles := config.Pools(cli.ConfigDir(), cli.Cluster)
	ticked, err := cli.overBus(func(ctx context.Context, b *bus.Bus) ([]string, error) {
		return state.Pools(ctx, b.JetStream(), cli.Cluster)
	})(ctx)
	if errFiles != nil && err != nil {
		return nil, err
	}
	names = append(names, ticked...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

func contextNames(context.Context) ([]string, error) {
	contexts, err := command.LoadContexts()
	return slices.Sorted(maps.Keys(contexts.All)), err
}

func (cli *completion) appNames(ctx context.Context, b *bus.Bus) (names []string, err error) {
	found, err := integrity.Read(ctx, b.JetStream(), message.AppsBucket(cli.Cluster))
	for _, k := range found.Keys {
		if !k.Deleted {
			names = append(names, k.Name)
		}
	}
	return names, err
}

// signalNames returns the apps whose signals run.
func (cli *completion) signalNames(ctx context.Context, b *bus.Bus) (names []string, err error) {
	s, err := cli.RequestBootstrap(ctx, b)
	for _, p := range s.Signals {
		names = append(names, p.App)
	}
	return names, err
}

func (cli *completion) nodeNames(ctx context.Context, b *bus.Bus) (names []string, err error) {
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return cli.Reader(b).Agents(ctx)
	}
	for _, n := range r.Case.Nodes {
		names = append(names, n.ID)
	}
	return names, nil
}

func (cli *completion) groupNames(ctx context.Context, b *bus.Bus) (names []string, err error) {
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	for _, g := range r.Snapshot.Groups {
		names = append(names, g.ID)
	}
	return names, err
}

// signalsInBucket returns the names NAMESPACE/NAME of the releases.
func (cli *completion) signalsInBucket(ctx context.Context) (names []string, err error) {
	names, err = cli.releaseNames(ctx)
	for i, name := range names {
		names[i], _, _ = strings.Cut(name, "@")
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

func (cli *completion) releaseNames(ctx context.Context) (names []string, err error) {
	bucket, _, err := cli.Bucket(ctx)
	if err != nil {
		return nil, err
	}
	found, err := release.List(ctx, bucket, "", "")
	for _, p := range found {
		names = append(names, p.Ref.String())
	}
	return slices.Compact(names), err
}
