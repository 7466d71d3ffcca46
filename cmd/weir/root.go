package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// cli is what all commands share: streams, and the flags of the root.
type cli struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	daemon.Settings // as the flags say; of the data folder and that of the files without defaults
	output          string
}

// run is the whole program but for the process: it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second Ctrl-C ends the process at once
	cli := &cli{stdin: stdin, stdout: stdout, stderr: stderr}
	root := cli.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "weir: %v\n", err)
	return exitCode(err)
}

func (cli *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Holds pools of machines at their size, and applications at their count",
		Long: `Weirkeeper holds each pool of machines at the right size and the applications
on it at the right count.

To see all of it work on this machine, type "weir up", and in another terminal:
  weir app set web --instances 5 --cpus 0.2 --mem 64 --command 'while :; do date; sleep 5; done'
  weir status
  weir explain`,
		Args: group,
		RunE: help,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if cli.NATS == "" { // not the flag's default, which help would print: it may hold a password
				cli.NATS = os.Getenv("WEIR_NATS")
			}
			for flag, name := range map[string]string{"--cluster": cli.Cluster, "--pool": cli.Pool} {
				if !message.ValidName(name) {
					return &usageError{fmt.Errorf("%s %q: want letters, digits, - and _, at most 63", flag, name)}
				}
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text, _, isNumber := strings.Cut(err.Error(), ": strconv.")
		if isNumber {
			text += ": want a number"
		}
		if strings.Contains(text, "invalid argument") && strings.Contains(text, "time:") {
			text += "; want a duration such as 90s, 5m or 2h"
		}
		if rest, short := strings.CutPrefix(text, "unknown shorthand flag: '"); short && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			text += `; write "--" before a negative number`
		}
		return &usageError{fmt.Errorf("%s\nSee %q", text, cmd.CommandPath()+" --help")}
	})
	f := root.PersistentFlags()
	f.StringVar(&cli.Data, "data", envOr("WEIR_DATA", ""), "data folder (WEIR_DATA; default below the user's state folder)")
	f.StringVar(&cli.NATS, "nats", "", "NATS to use in place of the data folder's own (WEIR_NATS)")
	f.StringVar(&cli.Configs, "config-dir", envOr("WEIR_CONFIG_DIR", ""), `folder of weir.yaml and <cluster>/<pool>.yaml (WEIR_CONFIG_DIR; default /etc/weir)`)
	f.StringVar(&cli.Cluster, "cluster", envOr("CMAN_CLUSTER", "local"), "cluster (CMAN_CLUSTER)")
	f.StringVar(&cli.Pool, "pool", envOr("CMAN_POOL", "default"), "pool (CMAN_POOL)")
	f.StringVar(&cli.LogLevel, "log-level", envOr("WEIR_LOG_LEVEL", "info"), "debug, info, warn or error (WEIR_LOG_LEVEL)")
	f.StringVar(&cli.LogFormat, "log-format", envOr("WEIR_LOG_FORMAT", "text"), "text or json (WEIR_LOG_FORMAT)")
	root.AddCommand(
		cli.upCommand(), cli.statusCommand(), cli.explainCommand(), cli.planCommand(), cli.decideCommand(),
		cli.pauseCommand(), cli.resumeCommand(), cli.offsetCommand(), cli.poolCommand(), cli.appCommand(), cli.signalCommand(),
		cli.metricsCommand(), cli.bootstrapCommand(), cli.autoscalerCommand(), cli.agentCommand(),
		cli.harmonizerCommand(), cli.healthCommand(), cli.configCommand(), cli.versionCommand(), cli.keepCommand(),
	)
	return root
}

func envOr(name, def string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return def
}

// dataDir returns the data folder as an absolute path; it need not be there.
func (cli *cli) dataDir() (string, error) {
	dir := cli.Data
	if dir == "" {
		base := os.Getenv("XDG_STATE_HOME")
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", &usageError{fmt.Errorf("no data folder: %w; give --data", err)}
			}
			base = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(base, "weir")
	}
	return filepath.Abs(dir)
}

// settings returns what the flags say, with defaults.
func (cli *cli) settings() (daemon.Settings, error) {
	dir, err := cli.dataDir()
	s := cli.Settings
	s.Data, s.Configs = dir, cli.configs()
	return s, err
}

// daemon returns the settings and the log of a daemon.
func (cli *cli) daemon() (daemon.Settings, *slog.Logger, error) {
	log, err := cli.logger()
	if err != nil {
		return daemon.Settings{}, nil, err
	}
	settings, err := cli.settings()
	return settings, log, err
}

// configs returns the folder of the configuration files.
func (cli *cli) configs() string {
	if cli.Configs != "" {
		return cli.Configs
	}
	return "/etc/weir"
}

// logger returns the log of a daemon, on standard error.
func (cli *cli) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cli.LogLevel)); err != nil {
		return nil, &usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", cli.LogLevel)}
	}
	options := &slog.HandlerOptions{Level: level}
	switch cli.LogFormat {
	case "text":
		return slog.New(slog.NewTextHandler(cli.stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cli.stderr, options)), nil
	}
	return nil, &usageError{fmt.Errorf("--log-format %q: want text or json", cli.LogFormat)}
}

// help is what a command does that only has subcommands.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// group refuses what is no subcommand, and names the one that was meant.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0]))
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= 2; cmd.SuggestionsMinimumDistance++ {
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text.WriteString(fmt.Sprintf("; did you mean %q?", near[0]))
			break
		}
	}
	return &usageError{fmt.Errorf("%s\nSee %q", text.String(), cmd.CommandPath()+" --help")}
}

// noArgs refuses arguments with a hint, as cobra.NoArgs does, as a usage error.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("%s takes no argument, but got %q\nSee %q", cmd.CommandPath(), args[0], cmd.CommandPath()+" --help")}
	}
	return nil
}

// twoArgs wants exactly two arguments, named so in the message.
func twoArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return &usageError{fmt.Errorf("%s wants %s\nSee %q", cmd.CommandPath(), what, cmd.CommandPath()+" --help")}
		}
		return nil
	}
}

// oneArg wants exactly one argument, named so in the message.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return &usageError{fmt.Errorf("%s wants one %s, but got %d arguments\nSee %q", cmd.CommandPath(), what, len(args), cmd.CommandPath()+" --help")}
		}
		return nil
	}
}
