package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/flock"
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
	files, err := config.Read(cli.configs(), cli.cluster, cli.pool)
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
	if err := checkHealth(w.pool); err != nil {
		return pooled{}, err
	}
	w.plan = config.Bootstrap(w.service, w.pool)
	if len(refsOf(w.plan)) > 0 && w.service.AWS.SignalsBucket == "" {
		return pooled{}, errNoBucket
	}
	if w.plan.Config, err = json.Marshal(files); err != nil {
		return pooled{}, fmt.Errorf("encode the files for the autoscaler: %w", err)
	}
	return w, w.plan.Validate()
}

func (cli *cli) bootstrap(ctx context.Context, wanted pooled, watcher *config.Watcher, log *slog.Logger) error {
	dir, err := cli.dataDir()
	if err != nil {
		return err
	}
	lock, err := lockPool(dir, "bootstrap", wanted.plan.Cluster, wanted.plan.Pool)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	nats, err := bus.Open(ctx, bus.Config{Data: dir, URL: cli.natsOr(wanted.service), Name: "bootstrap " + wanted.plan.Pool, Log: log})
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
	return underLauncher(ctx, log, func(ctx context.Context, launcher *supervise.Launcher) error {
		b, err := bootstrap.New(bootstrap.Config{
			Plan: wanted.plan, Launcher: launcher, Releases: releases, Shipped: cli.shippedSignal, Trials: trials,
			Autoscaler: append(cli.daemonArgv("autoscaler", dir, "--directory-fd", fmt.Sprint(supervise.FirstExtraFD)), wanted.args...),
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

// lockPool takes the lock that stands for a pool's lease: one writer.
func lockPool(dir, what, cluster, pool string) (*flock.File, error) {
	return lockOne(dir, strings.Join([]string{what, cluster, pool}, "."), fmt.Sprintf("%s of pool %s/%s", what, cluster, pool))
}

// lockHarmonizer takes the lock of the one harmonizer of a cluster.
func lockHarmonizer(dir, cluster string) (*flock.File, error) {
	return lockOne(dir, "harmonizer."+cluster, "harmonizer of cluster "+cluster)
}

func lockOne(dir, name, who string) (*flock.File, error) {
	locks := filepath.Join(dir, "locks")
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := flock.Lock(filepath.Join(locks, name))
	if held, ok := errors.AsType[*flock.HeldError](err); ok {
		return nil, fmt.Errorf("another %s runs on this data folder already, process %d", who, held.PID)
	}
	return lock, err
}

func (cli *cli) natsOr(service config.Service) string {
	if cli.natsURL != "" {
		return cli.natsURL
	}
	return service.NATS.URL
}

// daemonArgv is how this binary is started again as one of its daemons.
func (cli *cli) daemonArgv(command, dir string, more ...string) []string {
	return append([]string{
		selfExe, command, "--data", dir, "--config-dir", cli.configs(), "--cluster", cli.cluster, "--pool", cli.pool,
		"--log-level", cli.logLevel, "--log-format", cli.logFormat,
	}, more...)
}

// daemonEnv is the environment of this binary's daemons. It holds the bus, whose
// URL may have a password, as a command line must not.
func (cli *cli) daemonEnv() []string {
	env := withoutKeys(os.Environ())
	if cli.natsURL != "" {
		env = append(env, "WEIR_NATS="+cli.natsURL)
	}
	return env
}

// autoscalerEnv is the environment of an autoscaler: that of a pool at AWS has the
// keys, too.
func (cli *cli) autoscalerEnv(pool config.Pool) []string {
	env := cli.daemonEnv()
	for _, entry := range os.Environ() {
		if pool.Cloud() && strings.HasPrefix(entry, "AWS_") {
			env = append(env, entry)
		}
	}
	return env
}

func (cli *cli) shippedSignal(p bootstrap.SignalPlan, app string) []string {
	return []string{selfExe, "signal", "run", p.Name, p.Namespace, app, "--log-level", cli.logLevel, "--log-format", cli.logFormat}
}

// signalEnv is env without what is none of a signal's business: the bus, AWS, and
// whatever is named like a secret.
func signalEnv(env []string) []string {
	return slices.DeleteFunc(withoutKeys(env), func(entry string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
		return slices.ContainsFunc([]string{"SECRET", "PASSWORD", "PASSWD", "TOKEN", "CREDENTIAL", "PRIVATE"}, func(word string) bool {
			return strings.Contains(name, word)
		})
	})
}

// withoutKeys is env without the keys to the bus and to AWS.
func withoutKeys(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.HasPrefix(entry, "AWS_") || strings.HasPrefix(entry, "WEIR_NATS=") || strings.HasPrefix(entry, signPassword+"=")
	})
}

// underLauncher runs f with a launcher that ends after it.
func underLauncher(ctx context.Context, log *slog.Logger, f func(context.Context, *supervise.Launcher) error) error {
	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: keeperArgv(), Log: log})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	var errLauncher error
	wg.Go(func() { errLauncher = launcher.Run(running) })
	err = f(ctx, launcher)
	stop()
	wg.Wait()
	return errors.Join(err, errLauncher)
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
