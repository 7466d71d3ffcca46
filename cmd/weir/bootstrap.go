package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// signalPatience is how long the autoscaler's start waits for silent signals.
const signalPatience = 5 * time.Second

func (cli *cli) bootstrapCommand() *cobra.Command {
	var printPlan bool
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Run one pool: fetch its signals, supervise them, and start its autoscaler",
		Long: `Run one pool: fetch the signal releases that the pool file pins, verify and
start them, supervise them, and start the pool's autoscaler.

The files are watched. When they change, what differs is changed while the rest
runs on: a new version of a signal is fetched, started beside the old one, asked
on live windows, and takes its place then. A file that is wrong is refused, and
what runs goes on. SIGHUP has the files read again at once.

The variables of Clusterman are read, where neither a flag nor the pool file says
otherwise: CMAN_CLUSTER, CMAN_POOL, CMAN_ARGS (flags of the autoscaler),
CMAN_SIGNALS_BUCKET, CMAN_NUM_SIGNALS, CMAN_SIGNAL_APPS, CMAN_SIGNAL_NAMESPACES,
CMAN_SIGNAL_NAMES, CMAN_SIGNAL_VERSIONS, CMAN_NUM_VERSIONS and
CMAN_VERSIONS_TO_FETCH. Signals are started with all of them.`,
		Example: `  weir bootstrap --cluster everywhere-prod --pool default
  weir bootstrap --pool default --print-plan`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.logger()
			if err != nil {
				return err
			}
			watcher := config.NewWatcher(log, cli.watched(config.Service{})...)
			wanted, err := cli.readPool(os.Getenv)
			if err != nil {
				return &usageError{err}
			}
			if printPlan {
				return cli.printJSON(wanted.plan)
			}
			return cli.bootstrap(cmd.Context(), wanted, watcher, log)
		},
	}
	cmd.Flags().BoolVar(&printPlan, "print-plan", false, "print what would run, as JSON, and run nothing")
	return cmd
}

// pooled is what files and environment ask for.
type pooled struct {
	service config.Service
	pool    config.Pool
	plan    bootstrap.Plan
	args    []string // flags of the autoscaler
}

// readPool reads the files and the environment.
func (cli *cli) readPool(getenv func(string) string) (pooled, error) {
	files, err := config.Read(cli.configs(), cli.Cluster, cli.Pool)
	if err != nil {
		return pooled{}, err
	}
	env, _, err := bootstrap.PlanFromEnvironment(getenv)
	if err != nil {
		return pooled{}, err
	}
	files.Bucket = getenv(bootstrap.VarBucket)
	for _, s := range env.Signals {
		files.Pins = append(files.Pins, config.Pin{App: s.App, Namespace: s.Namespace, Name: s.Name, Version: s.Version})
	}
	w := pooled{args: strings.Fields(getenv(bootstrap.VarArgs))}
	if err := cli.autoscalerCommand().ParseFlags(w.args); err != nil {
		return pooled{}, fmt.Errorf("%s %q, which are flags of weir autoscaler: %w", bootstrap.VarArgs, w.args, err)
	}
	if w.service, w.pool, err = files.Decode(); err != nil {
		return pooled{}, err
	}
	if err := autoscalerd.CheckHealth(w.pool); err != nil {
		return pooled{}, err
	}
	w.plan = config.Bootstrap(w.service, w.pool)
	if len(refsOf(w.plan)) > 0 && w.service.AWS.SignalsBucket == "" {
		return pooled{}, signalbucket.ErrNoBucket
	}
	if w.plan.Config, err = json.Marshal(files); err != nil {
		return pooled{}, fmt.Errorf("encode the files for the autoscaler: %w", err)
	}
	return w, w.plan.Validate()
}

func (cli *cli) bootstrap(ctx context.Context, wanted pooled, watcher *config.Watcher, log *slog.Logger) error {
	settings, err := cli.settings()
	if err != nil {
		return err
	}
	dir := settings.Data
	lock, err := daemon.LockPool(dir, "bootstrap", wanted.plan.Cluster, wanted.plan.Pool)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	nats, err := bus.Open(ctx, bus.Config{Data: dir, URL: cli.NATSOr(wanted.service), Name: "bootstrap " + wanted.plan.Pool, Log: log})
	if err != nil {
		return err
	}
	defer nats.Close()
	bars := newBars(cli.stderr)
	defer bars.close()
	progress := logProgress(log)
	if bars.writer != nil {
		progress = bars.tell
	}
	releases, err := openReleases(ctx, wanted, filepath.Join(dir, "releases"), log, progress)
	if err != nil {
		return err
	}
	trials, err := state.OpenTrials(ctx, nats.JetStream(), wanted.plan.Cluster, wanted.plan.Pool)
	if err != nil {
		return err
	}
	return daemon.WithLauncher(ctx, log, func(ctx context.Context, launcher *supervise.Launcher) error {
		b, err := bootstrap.New(bootstrap.Config{
			Plan: wanted.plan, Launcher: launcher, Releases: releases, Shipped: cli.shippedSignal, Trials: trials,
			Autoscaler: append(settings.Argv("autoscaler", "--directory-fd", fmt.Sprint(supervise.FirstExtraFD)), wanted.args...),
			Env:        cli.autoscalerEnv(wanted.pool), SignalEnv: signalEnv(os.Environ()), Patience: signalPatience, Log: log,
			Folder: runFolder(dir, wanted.plan), Bucket: wanted.service.AWS.SignalsBucket, Args: strings.Join(wanted.args, " "),
		})
		if err != nil {
			return err
		}
		r := &reloader{cli: cli, bootstrap: b, releases: releases, log: log, nats: nats.Conn(), running: wanted}
		return r.watchAndRun(ctx, watcher)
	})
}

// autoscalerEnv is the environment of an autoscaler: that of a pool at AWS has the
// keys, too.
func (cli *cli) autoscalerEnv(pool config.Pool) []string {
	env := cli.Env()
	for _, entry := range os.Environ() {
		if pool.Cloud() && strings.HasPrefix(entry, "AWS_") {
			env = append(env, entry)
		}
	}
	return env
}

func (cli *cli) shippedSignal(p bootstrap.SignalPlan, app string) []string {
	return []string{daemon.SelfExe, "signal", "run", p.Name, p.Namespace, app, "--log-level", cli.LogLevel, "--log-format", cli.LogFormat}
}

// signalEnv is env without what is none of a signal's business: the bus, AWS, and
// whatever is named like a secret.
func signalEnv(env []string) []string {
	return slices.DeleteFunc(daemon.WithoutKeys(env), func(entry string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
		return slices.ContainsFunc([]string{"SECRET", "PASSWORD", "PASSWD", "TOKEN", "CREDENTIAL", "PRIVATE"}, func(word string) bool {
			return strings.Contains(name, word)
		})
	})
}

// runFolder is where a pool's plugins have their sockets, below the data folder;
// with a data folder whose path is too long for a socket's, among the temporary
// files. What a killed bootstrap left there is removed.
func runFolder(dir string, plan bootstrap.Plan) string {
	folder := filepath.Join(dir, "run", plan.Cluster+"."+plan.Pool)
	const longest = 69 // bytes, as package control has it
	if len(folder) > longest || os.RemoveAll(folder) != nil || os.MkdirAll(folder, 0o700) != nil {
		return ""
	}
	return folder
}
