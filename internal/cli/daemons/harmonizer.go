package daemons

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/replay"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/daemon/harmonizerd"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonlines"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	metricsstore "github.com/weirkeeper/weirkeeper/metrics/store"
)

// harmonizerCommands are the commands of "weir harmonizer".
type harmonizerCommands struct{ *connect.CLI }

func (cli *harmonizerCommands) harmonizerCommand() *cobra.Command {
	var file, adminAddr string
	cmd := &cobra.Command{
		Use:   "harmonizer",
		Short: "Keep the applications of a cluster at their expected count",
		Long: `Keep the applications of a cluster at their expected count. The harmonizer compares
the expected state (weir app set, a file, or a cloud controller's bulk API) with the
heartbeats of the nodes, and requests starts and stops. "weir up" runs one already.

If a cluster has several harmonizers, one leads and the others stand by. When the
lease of the leader ends, a standby takes over. The harmonizer reads harmonizer.yaml
in the configuration folder, or else health_manager.yml. Without a file, the defaults
apply.`,
		Example: `  weir harmonizer --nats nats://127.0.0.1:4222 --cluster prod
  weir harmonizer --config health_manager.yml --admin-addr 127.0.0.1:9464
  weir harmonizer record events.jsonl
  weir harmonizer replay events.jsonl --events`,
		Args: command.Group,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var server admin.Config
			defer func() { server.Opened.Close() }()
			open := func(c *bus.Config, file config.Harmonizer) error {
				service, err := config.LoadService(cli.ConfigDir())
				if err != nil {
					return usage.New(err)
				}
				server = admin.Config{
					Daemon: config.DaemonHarmonizer, Settings: service.Admin, Flag: adminAddr, Trusted: file.Status.Address(), Out: cli.Stdout, Log: c.Log,
				}
				server.Opened, err = admin.Open(server, c)
				return err
			}
			return cli.withFile(cmd.Context(), file, open, func(ctx context.Context, b *bus.Bus, read config.Harmonizer) error {
				return cli.harmonize(ctx, b, read, file, server)
			})
		},
	}
	configFlag(cmd, &file)
	command.AdminFlag(cmd, &adminAddr, "127.0.0.1:9464")
	cmd.AddCommand(cli.replayCommand(), cli.recordCommand(), cli.releaseCommand())
	return cmd
}

func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "harmonizer.yaml, or a health_manager.yml; default: the one in --config-dir")
}

// harmonizerFile reads the file at path, or the one in the configuration folder if
// path is empty. It logs the keys that Weirkeeper ignores.
func (cli *harmonizerCommands) harmonizerFile(path string, log *slog.Logger) (config.Harmonizer, error) {
	read := func() (config.Harmonizer, config.Problems, error) { return config.LoadHarmonizer(cli.ConfigDir()) }
	if path != "" {
		read = func() (config.Harmonizer, config.Problems, error) { return config.ReadHarmonizer(path) }
	}
	file, warnings, err := read()
	if err != nil {
		return file, usage.New(err)
	}
	for _, w := range warnings {
		log.Warn("configuration", "of", w.Error())
	}
	return file, nil
}

// withFile runs f with the file at path, as harmonizerFile, and with a connection to the bus. The servers of the file
// replace those of weir.yaml. open, if set, is called before the connection is made.
func (cli *harmonizerCommands) withFile(ctx context.Context, path string, open func(*bus.Config, config.Harmonizer) error, f func(context.Context, *bus.Bus, config.Harmonizer) error) error {
	log, err := cli.Logger()
	if err != nil {
		return err
	}
	file, err := cli.harmonizerFile(path, log)
	if err != nil {
		return err
	}
	c, err := cli.ConnectionOf("mbus of the harmonizer's file", file.MBus, "weir harmonizer")
	if err != nil {
		return err
	}
	c.User, c.Wait = roles.User{Role: roles.Harmonizer, Cluster: cli.Cluster}, true
	if open != nil {
		if err := open(&c, file); err != nil {
			return err
		}
	}
	return cli.On(ctx, c, func(ctx context.Context, b *bus.Bus) error { return f(ctx, b, file) })
}

// harmonize runs the harmonizer, and follows the file at path, or the one in the configuration folder if path is empty.
func (cli *harmonizerCommands) harmonize(ctx context.Context, b *bus.Bus, file config.Harmonizer, path string, server admin.Config) error {
	log, err := cli.Logger()
	if err != nil {
		return err
	}
	dir, err := cli.DataDir()
	if err != nil {
		return err
	}
	lock, err := daemon.LockHarmonizer(dir, cli.Cluster)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	store, err := cli.MetricsStore(b, metricsstore.HarmonizerWriter)
	if err != nil {
		return err
	}
	parts := harmonizerd.Parts{Bus: b, File: file, Loop: file.Loop(cli.Cluster, []string{cli.Pool}), Data: dir, Store: store, Log: log}
	files := config.HarmonizerFiles(cli.ConfigDir())
	if path != "" {
		files = []string{path}
	}
	parts.Watcher = config.NewWatcher(log, files...)
	parts.Read = func() (config.Harmonizer, error) { return cli.harmonizerFile(path, log) }
	if parts.Notify, err = sdnotify.Take(); err != nil {
		return err
	}
	if parts.Holder, err = daemon.HolderName(log, dir, cli.Cluster, "harmonizer", ""); err != nil {
		return err
	}
	return parts.Run(ctx, server)
}

func (cli *harmonizerCommands) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release",
		Short: "End the disruption limit that holds starts and stops after a mass loss",
		Long: `End the disruption limit that holds starts and stops after a mass loss, for the
instances that are missing now. It also ends the hold on stops of applications whose
rows disappeared together: the harmonizer stops these applications. "weir app status"
shows whether a limit is active, and why.`,
		Example: `  weir app status
  weir harmonizer release`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				answer, err := cli.OrderHarmonizer(ctx, b, api.HarmonizerOrder{Op: api.OpReleaseLimit})
				if err != nil {
					return err
				}
				what := "the disruption limit is released"
				if answer.Nothing {
					what = "nothing is held"
				}
				fmt.Fprintln(cli.Stdout, what)
				return nil
			})
		},
	}
}

func (cli *harmonizerCommands) replayCommand() *cobra.Command {
	var file string
	var c replay.Config
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay recorded events through the harmonizer's rules",
		Long: `Replay recorded events through the harmonizer's rules: JSON lines from FILE, or from
standard input for "-", evaluated under virtual time. The first line is at t = 1. A line is one of

  {"bulk": {APP: {"instances": 2, "state": "STARTED", "version": "v1", "package_state": "STAGED",
                  "updated_at": "2012-11-16 00:00:00 UTC", "memory": 256}}}
  {"bulk_down": true}   {"bus_down": true}
  {"subj": "dea.heartbeat", "msg": {...}, "reply": SUBJECT}
  {"subj": "weir.CLUSTER.heartbeat.POOL.NODE", "msg": {...}}
  {"advance": SECONDS}
  {"dump": APP}

The output is {"t", "subj", "msg"}, a line for each message. Without --config the rules
use their default numbers, and delays have no jitter.`,
		Example: `  weir harmonizer replay events.jsonl
  weir harmonizer replay --events --config harmonizer.yaml events.jsonl
  weir harmonizer record - | tee events.jsonl`,
		Args: command.OneArg("file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				c.Apps = apps.Config{DelayTimeNoise: new(time.Duration)}
			} else {
				h, warnings, err := config.ReadHarmonizer(file)
				if err != nil {
					return usage.New(err)
				}
				for _, w := range warnings {
					fmt.Fprintf(cli.Stderr, "weir: warning: %v\n", w)
				}
				c.Apps, c.ExpectedStateUpdate = h.Rules(), h.ExpectedUpdate()
				if !h.HasStarter() { // "bulk" is a cloud controller's
					c.Apps.Starter = apps.StarterController
				}
				c.Classic = h.Dialect == config.DialectCloudController
			}
			return cli.replay(cmd.Context(), args[0], c)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "harmonizer.yaml, or a health_manager.yml, with the rules' numbers")
	cmd.Flags().BoolVar(&c.Events, "events", false, "print what the rules found, too")
	return cmd
}

func (cli *harmonizerCommands) replay(ctx context.Context, path string, c replay.Config) error {
	in, err := cli.Input(path)
	if err != nil {
		return err
	}
	defer in.Close() // only read
	out := bufio.NewWriter(cli.Stdout)
	err = replay.Run(ctx, in, out, c)
	if line, ok := errors.AsType[*jsonlines.Error](err); ok {
		err = usage.New(fmt.Errorf("%s: %w", path, line))
	}
	return errors.Join(err, out.Flush())
}

func (cli *harmonizerCommands) recordCommand() *cobra.Command {
	var file string
	var force bool
	cmd := &cobra.Command{
		Use:   "record FILE",
		Short: "Record the messages that a harmonizer receives, until Ctrl-C",
		Long: `Record the messages that a harmonizer receives into a file for "weir harmonizer
replay", until Ctrl-C. The command publishes nothing, so it may run beside the leading
harmonizer. "-" is standard output.`,
		Example: `  weir harmonizer record events.jsonl`,
		Args:    command.OneArg("file, or - for standard output"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.withFile(cmd.Context(), file, nil, func(ctx context.Context, b *bus.Bus, file config.Harmonizer) error {
				return cli.record(ctx, b, file, args[0], force)
			})
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	return cmd
}

func (cli *harmonizerCommands) record(ctx context.Context, b *bus.Bus, file config.Harmonizer, path string, force bool) error {
	log, err := cli.Logger()
	if err != nil {
		return err
	}
	out, err := cli.create(path, force)
	if err != nil {
		return err
	}
	recorder := replay.NewRecorder(out, time.Now)
	parts := harmonizerd.Parts{Bus: b, File: file, Loop: file.Loop(cli.Cluster, []string{cli.Pool}), Record: recorder, Log: log}
	parts.Loop.Shadow = true
	h, err := parts.Wire(ctx)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	fmt.Fprintf(cli.Stderr, "weir: recording to %s; Ctrl-C ends it\n", path)
	err = h.Run(ctx)
	recorder.Close()
	return errors.Join(err, recorder.Err(), out.Close())
}

// create opens a new file for writing, or standard output for "-".
func (cli *harmonizerCommands) create(path string, force bool) (io.WriteCloser, error) {
	if path == "-" {
		return nopCloser{cli.Stdout}, nil
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, how, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, usage.New(fmt.Errorf("%s is there already: give another name, or --force", path))
	}
	return f, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
