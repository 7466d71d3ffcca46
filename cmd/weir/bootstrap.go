package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/s3store"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/flock"
)

// signalPatience is how long the autoscaler's start waits for silent signals.
const signalPatience = 5 * time.Second

func (cli *cli) bootstrapCommand() *cobra.Command {
	var printPlan bool
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Run one pool: fetch its signals, supervise them, and start its autoscaler",
		Long: `Run one pool: fetch the signal releases that the pool file pins, verify and
start them, supervise them, and start the pool's autoscaler.`,
		Example: `  weir bootstrap --cluster everywhere-prod --pool default
  weir bootstrap --pool default --print-plan`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, pool, err := config.Load(cli.configs(), cli.cluster, cli.pool)
			if err != nil {
				return &usageError{err}
			}
			plan := config.Bootstrap(service, pool)
			if printPlan {
				return cli.printJSON(plan)
			}
			return cli.bootstrap(cmd.Context(), service, plan)
		},
	}
	cmd.Flags().BoolVar(&printPlan, "print-plan", false, "print what would run, as JSON, and run nothing")
	return cmd
}

func (cli *cli) bootstrap(ctx context.Context, service config.Service, plan bootstrap.Plan) error {
	log, err := cli.logger()
	if err != nil {
		return err
	}
	dir, err := cli.dataDir()
	if err != nil {
		return err
	}
	lock, err := lockPool(dir, "bootstrap", plan.Cluster, plan.Pool)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	nats, err := bus.Open(ctx, bus.Config{Data: dir, URL: cli.natsOr(service), Name: "bootstrap " + plan.Pool, Log: log})
	if err != nil {
		return err
	}
	defer nats.Close()
	fetcher, err := newFetcher(ctx, service, filepath.Join(dir, "releases"))
	if err != nil {
		return err
	}
	return underLauncher(ctx, log, func(ctx context.Context, launcher *supervise.Launcher) error {
		b, err := bootstrap.New(bootstrap.Config{
			Plan: plan, Launcher: launcher, Releases: fetcher, Shipped: cli.shippedSignal,
			Autoscaler: cli.daemonArgv("autoscaler", dir, "--directory-fd", fmt.Sprint(supervise.FirstExtraFD)),
			Env:        cli.daemonEnv(), SignalEnv: signalEnv(os.Environ()), Patience: signalPatience, Log: log,
		})
		if err != nil {
			return err
		}
		stop, err := answerJSON(nats.Conn(), statusSubject(plan.Cluster, plan.Pool), log, func() any { return b.Status() })
		if err != nil {
			return err
		}
		defer stop()
		return b.Run(ctx)
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
		return nil, fmt.Errorf("a %s runs on this data folder already, process %d", who, held.PID)
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
	env := signalEnv(os.Environ())
	if cli.natsURL != "" {
		env = append(env, "WEIR_NATS="+cli.natsURL)
	}
	return env
}

func (cli *cli) shippedSignal(p bootstrap.SignalPlan, app string) []string {
	return []string{selfExe, "signal", "run", p.Name, p.Namespace, app, "--log-level", cli.logLevel, "--log-format", cli.logFormat}
}

// signalEnv is env without what is none of a signal's business: credentials, and
// the bus.
func signalEnv(env []string) []string {
	var out []string
	for _, entry := range env {
		if !strings.HasPrefix(entry, "AWS_") && !strings.HasPrefix(entry, "WEIR_NATS=") {
			out = append(out, entry)
		}
	}
	return out
}

func newFetcher(ctx context.Context, service config.Service, dir string) (bootstrap.Fetcher, error) {
	cache, err := release.OpenCache(release.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	bucket, err := openBucket(ctx, service, bucketKeys{})
	if err != nil {
		return nil, err
	}
	return fetcher{cache, bucket}, nil
}

// fetcher is a cache with the bucket that fills it.
type fetcher struct {
	cache  *release.Cache
	bucket release.Bucket
}

func (f fetcher) Fetch(ctx context.Context, ref release.Ref) (release.Installed, error) {
	return f.cache.Fetch(ctx, f.bucket, ref)
}

// openBucket opens the bucket of the service file; with zero keys, by the AWS
// SDK's usual chain.
func openBucket(ctx context.Context, service config.Service, keys bucketKeys) (release.Bucket, error) {
	if service.AWS.SignalsBucket == "" {
		return nil, &usageError{errors.New("weir.yaml: aws.signals_bucket is missing: which bucket holds the signal releases?")}
	}
	return s3store.Open(ctx, s3store.Config{
		Bucket: service.AWS.SignalsBucket, Prefix: service.AWS.SignalsPrefix, Region: service.AWS.Region,
		Endpoint: service.AWS.EndpointURL, PathStyle: service.AWS.PathStyle,
		AccessKey: keys.Access, SecretKey: keys.Secret,
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

// statusSubject answers with the bootstrap.Status of a pool.
func statusSubject(cluster, pool string) string {
	return "weir." + cluster + ".bootstrap." + pool + ".status"
}

// answerJSON answers requests on subject with what of returns, until stop.
func answerJSON(nc *nats.Conn, subject string, log *slog.Logger, of func() any) (stop func(), err error) {
	sub, err := nc.Subscribe(subject, func(m *nats.Msg) {
		data, err := json.Marshal(of())
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			log.Warn("question is not answered", "subject", subject, "err", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return func() { sub.Unsubscribe() }, nil
}
