package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/flock"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func (cli *cli) signalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signal",
		Short: "Publish, list, run and watch signals",
		Args:  group,
		RunE:  help,
	}
	cmd.AddCommand(cli.signalPublishCommand(), cli.signalListCommand(), cli.signalRunCommand(), cli.signalPsCommand())
	return cmd
}

// shipped returns the signal of that name that is part of weir.
func shipped(name string) (signals.Signal, error) {
	switch name {
	case "default":
		return builtin.Default{}, nil
	case "instance_count":
		return builtin.InstanceCount{}, nil
	}
	return nil, &usageError{fmt.Errorf("weir ships no signal %q: want default or instance_count", name)}
}

func (cli *cli) signalRunCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run SIGNAL [NAMESPACE APP]",
		Short: "Run a signal that weir ships, on its socket",
		Long: `Run a signal that weir ships: default or instance_count. It listens on the
socket of NAMESPACE, SIGNAL and APP until it is told to end.`,
		Example: `  weir signal run default weir __default__`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 3 {
				return &usageError{fmt.Errorf("%s wants SIGNAL, or SIGNAL NAMESPACE APP\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := shipped(args[0])
			if err != nil {
				return err
			}
			log, err := cli.logger()
			if err != nil {
				return err
			}
			c := signals.ServeConfig{Namespace: "weir", Name: args[0], App: sigproto.DefaultApp, Log: log}
			if len(args) == 3 {
				c.Namespace, c.App = args[1], args[2]
			}
			return signals.Serve(cmd.Context(), s, c)
		},
	}
}

func (cli *cli) signalPublishCommand() *cobra.Command {
	var source release.Source
	cmd := &cobra.Command{
		Use:   "publish NAMESPACE/NAME@VERSION PATH",
		Short: "Publish a version of a signal to the bucket; a version never changes",
		Long: `Publish a version of a signal, an executable file or a folder, to the bucket of
weir.yaml. The same bytes may be published again; other bytes under the same
version are refused.`,
		Example: `  weir signal publish shop/rps@v1.4.0 ./bin/rps
  weir signal publish shop/rps@v1.5.0 ./dist --entry bin/rps`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return &usageError{fmt.Errorf("%s wants NAMESPACE/NAME@VERSION and PATH\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := release.ParseRef(args[0])
			if err != nil {
				return &usageError{err}
			}
			bucket, err := cli.bucket(cmd.Context())
			if err != nil {
				return err
			}
			source.Path, source.Created = args[1], time.Now()
			m, err := release.Publish(cmd.Context(), bucket, ref, release.Host(), source)
			if err != nil {
				return err
			}
			fmt.Fprintf(cli.stdout, "%s for %s: %d bytes, sha256 %s, at %s\n", ref, release.Host(), m.Object.Size, m.Object.SHA256, bucket.URL(""))
			return nil
		},
	}
	cmd.Flags().StringVar(&source.Entry, "entry", "", "executable to start, as a path in PATH if that is a folder")
	return cmd
}

func (cli *cli) signalListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [NAMESPACE[/NAME]]",
		Short: "List the signal releases in the bucket",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return oneArg("namespace or namespace/name")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			bucket, err := cli.bucket(cmd.Context())
			if err != nil {
				return err
			}
			var namespace, name string
			if len(args) == 1 {
				namespace, name, _ = strings.Cut(args[0], "/")
			}
			found, err := release.List(cmd.Context(), bucket, namespace, name)
			if err != nil {
				return err
			}
			if cli.output == "json" {
				return cli.printJSON(found)
			}
			var rows [][]string
			for _, p := range found {
				rows = append(rows, []string{p.Namespace, p.Name, p.Version, p.Platform.String()})
			}
			cli.printTable([]string{"namespace", "name", "version", "platform"}, rows)
			return nil
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

func (cli *cli) signalPsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "Show the signal processes of a pool",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				var s bootstrap.Status
				if err := askJSON(ctx, b.Conn(), statusSubject(cli.cluster, cli.pool), "bootstrap of pool "+cli.pool, nil, &s); err != nil {
					return err
				}
				if cli.output == "json" {
					return cli.printJSON(s.Signals)
				}
				cli.printProcesses(s.Signals)
				return nil
			})
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

// bucket opens the bucket of the service file: that of --config-dir or, if "weir
// up" has written one to the data folder, that one.
func (cli *cli) bucket(ctx context.Context) (release.Bucket, error) {
	dir, keys := cli.configs(), bucketKeys{}
	if cli.configDir == "" {
		data, err := cli.dataDir()
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(upConfigs(data)); err == nil {
			if _, held, err := flock.Holder(filepath.Join(data, "up.lock")); err == nil && !held {
				return nil, nothingRuns(data)
			}
			if keys, err = readBucketKeys(data); err != nil {
				return nil, err
			}
			dir = upConfigs(data)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	service, err := config.LoadService(dir)
	if err != nil {
		return nil, &usageError{err}
	}
	return openBucket(ctx, service, keys)
}

// upConfigs is where "weir up" writes its configuration.
func upConfigs(data string) string { return filepath.Join(data, "config") }
