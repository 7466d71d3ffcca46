// Package command has the shared parts of the command lines of weir and weir-local: streams, root flags, usage errors
// and exit codes. Both binaries define the flags of "weir up" and "weir metrics serve". weir prints their help and
// replaces itself with weir-local to run them.
//
// A program makes a [Root], adds its commands to Root.Command, and returns the [ExitCode] of Root.Run. Root.PrintTable and
// Root.PrintJSON print results in the form of --output. One goroutine uses a Root. Its writers may be used concurrently.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// Root has the streams and flags of all commands, and the form of the output.
type Root struct {
	Stdin           io.Reader
	Stdout          io.Writer
	Stderr          io.Writer
	daemon.Settings // flag values; without defaults for Data and Configs
	// Color is the value of --color: auto, always or never.
	Color string
	// Timeout bounds how long a command waits for the bus; above 0.
	Timeout time.Duration
	// Context is the value of --context: the name of a context of the user's config.yaml.
	Context string
	// PoolNamed: an argument of the command names the pool, so the context does not.
	PoolNamed bool
	// Named: a flag, the environment, an argument or the context gives the cluster or the pool.
	Named bool
	// Form is the value of --output of the command that runs; see FormFlag.
	Form string
	// Output is "table", or "json" for any other form.
	Output string

	names func(value any) []string // of the things in a value; see NamesFlag
}

// defaultTimeout is the default of --timeout.
const defaultTimeout = 10 * time.Second

// Command returns the root command with its flags and without subcommands.
func (r *Root) Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Scale pools of machines and keep applications running",
		Args:  Group,
		RunE:  Help,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, w := range []io.Writer{r.Stdout, r.Stderr} {
				if err := terminal.SetColor(w, r.Color); err != nil {
					return usage.New(err)
				}
			}
			if err := r.takeContext(cmd); err != nil {
				return err
			}
			if err := r.takeNATS(); err != nil {
				return err
			}
			if r.Timeout <= 0 {
				return usage.New(fmt.Errorf("--timeout %v: want more than 0, such as 10s", r.Timeout))
			}
			for flag, name := range map[string]string{"--cluster": r.Cluster, "--pool": r.Pool} {
				if !names.Valid(name) {
					return usage.New(fmt.Errorf("%s %q: %s", flag, name, names.Rule))
				}
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(wrongFlag)
	setHelp(root)
	f := root.PersistentFlags()
	f.StringVar(&r.Data, "data", envOr("WEIR_DATA", ""), "data folder (WEIR_DATA; default below the user's state folder)")
	f.StringVar(&r.NATS, "nats", "", "NATS servers, with commas (WEIR_NATS; default: nats of weir.yaml, else the data folder's own)")
	f.StringVar(&r.Configs, "config-dir", envOr("WEIR_CONFIG_DIR", ""), `folder of weir.yaml and <cluster>/<pool>.yaml (WEIR_CONFIG_DIR; default /etc/weir)`)
	f.StringVar(&r.Cluster, "cluster", envOr("CMAN_CLUSTER", "local"), "cluster (CMAN_CLUSTER)")
	f.StringVar(&r.Pool, "pool", envOr("CMAN_POOL", "default"), "pool (CMAN_POOL)")
	f.StringVar(&r.Context, "context", "", "context of the user's config.yaml (WEIR_CONTEXT; default: its current one); daemons ignore it")
	DurationVar(f, &r.Timeout, "timeout", defaultTimeout, "how long a command waits for the bus; daemons ignore it")
	f.StringVar(&r.Color, "color", terminal.ColorAuto, "auto, always or never; auto: on a terminal, unless NO_COLOR is set or TERM is dumb")
	f.StringVar(&r.LogLevel, "log-level", envOr("WEIR_LOG_LEVEL", "info"), "debug, info, warn or error (WEIR_LOG_LEVEL)")
	f.StringVar(&r.LogFormat, "log-format", envOr("WEIR_LOG_FORMAT", "text"), "text or json (WEIR_LOG_FORMAT)")
	return root
}

// Run executes a command line below root. SIGINT and SIGTERM cancel its context. Control characters in its output are
// escaped.
func (r *Root) Run(root *cobra.Command, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second Ctrl-C ends the process at once
	r.Stdout, r.Stderr = terminal.New(r.Stdout), terminal.New(r.Stderr)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, c := range root.Commands() { // cobra accepts any argument of these two
		switch c.Name() {
		case "help":
			c.Args = topic
		case "completion":
			c.Args, c.RunE = Group, Help
		}
	}
	root.SetIn(r.Stdin)
	root.SetOut(r.Stdout)
	root.SetErr(r.Stderr)
	args, err := translate(root, args)
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
	}
	if err != nil {
		fmt.Fprintf(r.Stderr, "weir: %v\n", err)
	}
	return err
}

// takeNATS completes the flag by the environment, and checks the servers. The environment is not the flag's default,
// because help would print a password in it.
func (r *Root) takeNATS() error {
	switch {
	case r.NATS == "":
		r.NATS, r.NATSFrom = os.Getenv(daemon.VariableNATS), daemon.VariableNATS
	case r.NATSFrom == "":
		r.NATSFrom = daemon.FlagNATS
	}
	for i, server := range bus.Split(r.NATS) {
		if err := bus.CheckServer(server); err != nil {
			return usage.New(fmt.Errorf("%s: server %d %w", r.NATSFrom, i+1, err))
		}
	}
	return nil
}

func envOr(name, def string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return def
}

// DataDir returns the absolute path of the data folder, which need not exist. It returns an error if other users can
// change its content.
func (r *Root) DataDir() (string, error) {
	dir, err := r.dataDir()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	if !info.IsDir() {
		return "", usage.New(fmt.Errorf("data folder %s is not a folder: name another with --data", dir))
	}
	const writtenByAll = 0o002
	if info.Mode().Perm()&writtenByAll != 0 {
		return "", fmt.Errorf("data folder %s has mode %04o, so all users can change its content: run \"chmod o-w %s\", or give another folder with --data", dir, info.Mode().Perm(), dir)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if me := uint32(os.Geteuid()); me != 0 && owner != me && owner != 0 {
		return "", fmt.Errorf("data folder %s belongs to user %d, not to you: give another folder with --data", dir, owner)
	}
	return dir, nil
}

func (r *Root) dataDir() (string, error) {
	dir := r.Data
	if dir == "" {
		base := os.Getenv("XDG_STATE_HOME")
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", usage.New(fmt.Errorf("no data folder: %w; give --data", err))
			}
			base = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(base, "weir")
	}
	return filepath.Abs(dir)
}

// settings returns the settings with defaults.
func (r *Root) settings() (daemon.Settings, error) {
	dir, err := r.DataDir()
	s := r.Settings
	s.Data, s.Configs = dir, r.ConfigDir()
	return s, err
}

// Daemon returns the settings and the logger of a daemon.
func (r *Root) Daemon() (daemon.Settings, *slog.Logger, error) {
	log, err := r.Logger()
	if err != nil {
		return daemon.Settings{}, nil, err
	}
	settings, err := r.settings()
	return settings, log, err
}

// ConfigDir returns the folder of the configuration files.
func (r *Root) ConfigDir() string {
	if r.Configs != "" {
		return r.Configs
	}
	return "/etc/weir"
}

// inSeconds replaces a duration by its seconds, which a program can read without the unit of Go.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	return a
}

// Logger returns a daemon's logger, which writes to standard error. SIGUSR1 changes its level between the configured one
// and debug.
func (r *Root) Logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(r.LogLevel)); err != nil {
		return nil, usage.New(fmt.Errorf("--log-level %q: want debug, info, warn or error", r.LogLevel))
	}
	options := &slog.HandlerOptions{Level: newLiveLevel(level)}
	switch r.LogFormat {
	case "text":
		return slog.New(slog.NewTextHandler(r.Stderr, options)), nil
	case "json":
		options.ReplaceAttr = inSeconds
		return slog.New(slog.NewJSONHandler(r.Stderr, options)), nil
	}
	return nil, usage.New(fmt.Errorf("--log-format %q: want text or json", r.LogFormat))
}
