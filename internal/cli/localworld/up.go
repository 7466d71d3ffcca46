package localworld

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/daemon/harmonizerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/placerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/diskspace"
	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	metricsstore "github.com/weirkeeper/weirkeeper/metrics/store"
	"github.com/weirkeeper/weirkeeper/pools/local"
)

// Intervals of "weir up" are short, for interactive use.
const (
	upHeartbeat    = time.Second
	upStopGrace    = time.Second
	upStartTimeout = 30 * time.Second // without a first tick, before a warning
)

const (
	bootstrapGrace  = 3500 * time.Millisecond // to stop signals and autoscaler
	dashboardGrace  = time.Second             // to end the open pages
	terminalTimeout = time.Second             // for output to a terminal that does not read
)

// maxPoolFile bounds a pool file, in bytes; ReadPool refuses a longer one.
const maxPoolFile = 1 << 20

// up is one run of "weir up".
type up struct {
	*command.Root
	reporter
	options  command.UpOptions
	sources  string            // block of weir.yaml
	live     func(text string) // sets the live line of the terminal
	began    time.Time
	data     string
	poolFile []byte // nil: the built-in one
	keys     signalbucket.Keys
	logFile  *logFile
	bus      *bus.Bus   // as viewer
	own      []*bus.Bus // connections of other roles
	launcher *supervise.Launcher
	apps     latest           // the harmonizer
	front    *daemon.Services // active parts; end first
	back     *daemon.Services // services of the front parts
}

// Up runs everything on this machine until ctx ends.
func Up(ctx context.Context, root *command.Root, o command.UpOptions) error {
	data, err := root.DataDir()
	if err != nil {
		return err
	}
	u := &up{Root: root, options: o, began: time.Now(), data: data}
	if o.PoolFile != "" {
		// The bucket changes this process's working directory.
		if u.options.PoolFile, err = filepath.Abs(o.PoolFile); err != nil {
			return err
		}
		// Report a mistake in the file before anything starts.
		if _, err := config.ReadPool(o.PoolFile, root.Cluster, root.Pool); err != nil {
			return usage.New(err)
		}
		if u.poolFile, err = inputfile.Read(o.PoolFile, maxPoolFile); err != nil {
			return err
		}
	}
	switch {
	case o.Prometheus != "" && o.Sources != "":
		return usage.New(errors.New("--prometheus and --sources are both given: write the Prometheus into the file of --sources"))
	case o.Prometheus != "":
		if u.sources, err = config.SourceAt("prometheus", o.Prometheus); err != nil {
			return usage.New(fmt.Errorf("--prometheus: %w", err))
		}
	case o.Sources != "":
		if u.sources, err = config.SourcesOf(o.Sources); err != nil {
			return usage.New(fmt.Errorf("--sources: %w", err))
		}
	}
	if _, err := intakeOf(command.MetricsOptions{Addr: o.MetricsAddr}); err != nil {
		return usage.New(err)
	}
	if err := checkWebAddress(o.WebAddr); err != nil {
		return usage.New(err)
	}
	if err := (config.Admin{}).CheckAddress(o.AdminAddr); err != nil {
		return usage.New(fmt.Errorf("--admin-addr %w", err))
	}
	if err := checkSpace(data); err != nil {
		return err
	}
	lock, err := lockFolder(data)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	harmonizer, err := daemon.LockHarmonizer(data, root.Cluster)
	if err != nil {
		return err
	}
	defer harmonizer.Unlock()
	placer, err := daemon.LockPool(data, config.DaemonPlacer, root.Cluster, root.Pool)
	if err != nil {
		return err
	}
	defer placer.Unlock()
	if err := u.openLog(); err != nil {
		return err
	}
	defer u.logFile.Close()
	screen := newScreen(root.Stdout)
	defer screen.close(terminalTimeout)
	own := *root
	own.Stdout = screen
	u.Root, u.reporter.out, u.live = &own, screen, screen.Live
	err = daemon.WithLauncher(ctx, u.Program, u.log, func(ctx context.Context, launcher *supervise.Launcher) error {
		u.launcher = launcher
		return u.run(ctx)
	})
	if ctx.Err() != nil && !errors.Is(err, supervise.ErrSurvivors) {
		return nil // stopped by the user; interrupted work is not a failure
	}
	return err
}

// checkSpace returns an error if the disk of a data folder is full, also without what its bus has reserved there.
func checkSpace(data string) error {
	if _, is := errors.AsType[*api.FullDisk](diskspace.Check(data)); !is {
		return nil
	}
	_, err := diskspace.NewKeeper(bus.Folder(data)).Keep()
	if full, is := errors.AsType[*api.FullDisk](diskspace.Check(data)); is {
		return errors.Join(fmt.Errorf("start in data folder %s: %w; or give another folder with --data", data, full), err)
	}
	return nil
}

func lockFolder(data string) (*flock.File, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w; give another with --data", err)
	}
	lock, err := flock.Lock(filepath.Join(data, "up.lock"))
	if held, ok := errors.AsType[*flock.HeldError](err); ok {
		return nil, fmt.Errorf("weir up runs on data folder %s already: process %d", data, held.PID)
	}
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w; give another with --data", data, err)
	}
	return lock, nil
}

// openLog sends log lines to a file, because the terminal is for status lines.
func (u *up) openLog() (err error) {
	if u.logFile, err = openLogFile(filepath.Join(u.data, "weir.log")); err != nil {
		return err
	}
	toFile := *u.Root
	toFile.Stderr = u.logFile
	u.log, err = toFile.Logger()
	return err
}

func (u *up) run(ctx context.Context) (err error) {
	fmt.Fprintf(u.Stdout, "weir %s, data folder %s\n", daemon.BuildVersion(), u.data)
	connection := u.connection(roles.User{Role: roles.Viewer})
	connection.Serve = natsserver.ServeRoles
	if u.bus, err = bus.Open(ctx, connection); err != nil {
		return err
	}
	defer func() { err = u.closeBus(err) }()
	u.print("bus", "%s", u.bus.Conn().ConnectedUrlRedacted())
	u.back = daemon.NewServices(context.WithoutCancel(ctx))
	defer func() { err = u.back.Stop(err) }()
	u.front = daemon.NewServices(u.bus.WhileOpen(ctx))
	defer func() {
		fmt.Fprintln(u.Stdout, "stopping ...")
		err = u.front.Stop(err)
	}()
	pool, err := u.startBack(ctx)
	if err != nil {
		return err
	}
	if err := u.startFront(ctx, pool); err != nil {
		return err
	}
	select {
	case <-u.front.Context().Done():
	case <-u.back.Context().Done():
	}
	return nil
}

// connection returns how a part of this process connects to the bus, with a role in the cluster.
func (u *up) connection(user roles.User) bus.Config {
	user.Cluster = u.Cluster
	return bus.Config{Data: u.data, NATS: bus.NATS{Servers: bus.Split(u.NATS)}, Name: "weir up", User: user, Log: u.log}
}

// as returns a connection of a part, which is open until the end of the process.
func (u *up) as(ctx context.Context, user roles.User) (*bus.Bus, error) {
	b, err := bus.Find(ctx, u.connection(user))
	if err == nil {
		u.own = append(u.own, b)
		open := b.WhileOpen(ctx)
		context.AfterFunc(open, func() { u.front.End(context.Cause(open)) })
	}
	return b, err
}

// closeBus ends the connections, and then the server. It returns err, or why a server closed a connection for good.
func (u *up) closeBus(err error) error {
	for _, b := range u.own {
		err = b.End(err)
	}
	return u.bus.End(err)
}

// startBack starts metrics and bucket, publishes the signal, and writes the configuration.
func (u *up) startBack(ctx context.Context) (config.Pool, error) {
	u.back.Run("free space", func(ctx context.Context) error { return u.watchSpace(ctx, u.data) })
	metrics, err := u.startMetrics()
	if err != nil {
		return config.Pool{}, err
	}
	endpoint, err := u.startBucket(ctx)
	if err != nil {
		return config.Pool{}, err
	}
	version, err := u.startRelease(ctx, endpoint)
	if err != nil {
		return config.Pool{}, err
	}
	if u.poolFile == nil {
		u.poolFile = fmt.Appendf(nil, upPool, version)
	} else {
		u.print("pool file", "%s", u.options.PoolFile)
	}
	if err := writeUpConfigs(u.data, u.Cluster, u.Pool, endpoint, u.sources, u.poolFile); err != nil {
		return config.Pool{}, fmt.Errorf("write the configuration: %w", err)
	}
	u.print("config", "%s", daemon.UpConfigs(u.data))
	metrics(ctx)
	_, pool, err := config.Load(daemon.UpConfigs(u.data), u.Cluster, u.Pool)
	return pool, err
}

// startFront starts machines, harmonizer and bootstrap, and prints the ticks.
func (u *up) startFront(ctx context.Context, pool config.Pool) error {
	if err := u.createStreams(ctx, pool); err != nil {
		return err
	}
	watch, err := u.watch(ctx)
	if err != nil {
		return err
	}
	harmonizerBus, err := u.as(ctx, roles.User{Role: roles.Harmonizer})
	if err != nil {
		return err
	}
	place, err := u.startMachines(ctx, pool)
	if err != nil {
		return err
	}
	h, err := u.harmonizer(ctx, harmonizerBus)
	if err != nil {
		return err
	}
	another := func(ctx context.Context) (runner, error) { return u.harmonizer(ctx, harmonizerBus) }
	u.front.Run("harmonizer", u.keep("harmonizer", restartable(h, another)))
	u.print("harmonizer", "applications of cluster %s", u.Cluster)
	if err := u.startBootstrap(place); err != nil {
		return err
	}
	if err := u.startDashboard(); err != nil {
		return err
	}
	if u.options.PoolFile != "" {
		watcher := config.NewWatcher(u.log, u.options.PoolFile)
		u.front.Run("pool file", watcher.Run)
		u.front.Run("copy of the pool file", func(ctx context.Context) error { return u.copyPoolFile(ctx, watcher) })
	}
	u.front.Run("ticks", watch)
	return nil
}

// createStreams creates the missing streams and buckets, as "weir nats streams" does.
func (u *up) createStreams(ctx context.Context, pool config.Pool) error {
	b, err := bus.Find(ctx, u.connection(roles.User{Role: roles.Admin}))
	if err != nil {
		return err
	}
	defer b.Close()
	c := streams.Cluster{Name: u.Cluster, Replicas: b.Replicas(), Pools: []streams.Pool{pool.Streams()}}
	_, err = streams.Create(ctx, b.JetStream(), c.Specs())
	return err
}

// copyPoolFile copies the operator's pool file for bootstrap after each change, even an invalid one. Then bootstrap
// rejects it, and "weir status" and the terminal report that.
func (u *up) copyPoolFile(ctx context.Context, watcher *config.Watcher) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Changes():
		}
		_, refused := config.ReadPool(u.options.PoolFile, u.Cluster, u.Pool)
		text, err := inputfile.Read(u.options.PoolFile, maxPoolFile)
		if !watcher.Stands() {
			continue // it changes again
		}
		if err == nil {
			err = daemon.WriteFile(filepath.Join(daemon.UpConfigs(u.data), filepath.FromSlash(config.FileOf(u.Cluster, u.Pool))), text)
		}
		if err := errors.Join(refused, err); err != nil {
			fmt.Fprintf(u.Stdout, "! pool file rejected, the previous one continues: %v\n", err)
			continue
		}
		fmt.Fprintln(u.Stdout, "  pool file  applied")
	}
}

// harmonizer returns the harmonizer of this data folder. It takes over at once, because the folder's lock proves that
// the previous one is dead.
func (u *up) harmonizer(ctx context.Context, b *bus.Bus) (runner, error) {
	parts := harmonizerd.Parts{Bus: b, Data: u.data, Store: embedded.NewClient(b.Conn(), u.Cluster, metricsstore.HarmonizerWriter), Log: u.log}
	var err error
	if parts.File, _, err = config.LoadHarmonizer(daemon.UpConfigs(u.data)); err != nil {
		return nil, err
	}
	if parts.Holder, err = daemon.HolderName(u.log, u.data, u.Cluster, "harmonizer", ""); err != nil {
		return nil, err
	}
	parts.Loop = parts.File.Loop(u.Cluster, []string{u.Pool})
	h, err := parts.Wire(ctx)
	if err == nil {
		u.apps.Store(new(h.Collector()))
	}
	return h, err
}

// startMachines starts the provider of the machines, and the placer.
func (u *up) startMachines(ctx context.Context, pool config.Pool) (*placerd.Placer, error) {
	owner, err := u.as(ctx, roles.User{Role: roles.Machines, Pool: u.Pool})
	if err != nil {
		return nil, err
	}
	scheduler, err := u.as(ctx, roles.User{Role: roles.Placer, Pool: u.Pool})
	if err != nil {
		return nil, err
	}
	open := func(context.Context) (runner, error) {
		return local.NewProvider(u.providerConfig(pool), owner.Conn(), u.launcher, u.log)
	}
	provider, err := open(ctx)
	if err != nil {
		return nil, err
	}
	place, err := u.placer(ctx, scheduler)
	if err != nil {
		return nil, err
	}
	u.front.Run("placer", u.keep("placer", place.Run))
	u.front.Run("machines", u.keep("machines", restartable(provider, open)))
	u.print("machines", "%d groups in pool %s/%s", len(pool.Groups), u.Cluster, u.Pool)
	return place, nil
}

// placer returns the placer of this data folder. It takes over at once, as the harmonizer does.
func (u *up) placer(ctx context.Context, b *bus.Bus) (*placerd.Placer, error) {
	holder, err := daemon.HolderName(u.log, u.data, u.Cluster, u.Pool, config.DaemonPlacer)
	if err != nil {
		return nil, err
	}
	return placerd.Parts{
		Bus: b, Cluster: u.Cluster, Pool: u.Pool, Holder: holder, Heartbeat: upHeartbeat,
		Sink: embedded.NewClient(b.Conn(), u.Cluster, metricsstore.PlacerWriter(u.Pool)), Log: u.log,
	}.Wire(ctx)
}

func (u *up) providerConfig(pool config.Pool) local.Config {
	c := local.Config{
		Cluster: u.Cluster, Pool: u.Pool, Heartbeat: upHeartbeat, StopGrace: upStopGrace,
		Argv:    []string{u.Program, "agent", "--data", u.data, "--config-dir", daemon.UpConfigs(u.data), "--log-level", "warn"},
		Env:     u.Env(),
		DataDir: filepath.Join(u.data, "local"), SelfFenceAfter: pool.SelfFence(),
	}
	for _, s := range local.Selectors(pool.Selected()) {
		c.Groups = append(c.Groups, s.Config())
	}
	return c
}

// reportBootstrap prints when bootstrap does not run.
func (u *up) reportBootstrap(s supervise.Status) {
	if s.State == supervise.Backoff || s.State == supervise.Fatal {
		fmt.Fprintf(u.Stdout, "! bootstrap is %s: %s; see %s\n", s.State, s.Why, u.logFile.path)
	}
}

// startBootstrap starts the pool's bootstrap as a separate process. Its page of metrics has those of harmonizer and placer too.
func (u *up) startBootstrap(place *placerd.Placer) error {
	child := u.Settings
	child.Data, child.Configs = u.data, daemon.UpConfigs(u.data)
	argv, env := child.Argv("bootstrap"), append(child.Env(), u.keys.Env()...)
	if u.options.AdminAddr != config.AdminOff {
		addr, err := freeAddress("metrics of the pool", u.options.AdminAddr)
		if err != nil {
			return err
		}
		socket := admin.SocketPath(u.data, "up")
		argv, env = append(argv, "--admin-addr", addr), append(env, admin.OwnerSocket+"="+socket)
		content := admin.Content{Collectors: []prometheus.Collector{u.apps.of(u.Cluster), place.Collector()}}
		if err := admin.ServeParent(u.front, socket, content, u.log); err != nil {
			return err
		}
		u.print("prometheus", "http://%s/metrics", addr)
	}
	process, err := supervise.NewProcess(u.launcher, supervise.ProcessConfig{
		Name: "bootstrap", StartTimeout: upStartTimeout, Policy: supervise.DefaultPolicy(), Log: u.log, Watch: u.reportBootstrap,
		NewSpec: func(context.Context) (supervise.Spec, error) {
			return supervise.Spec{
				Name: "bootstrap", Title: "weir: bootstrap " + u.Pool, Argv: argv,
				Env: env, StopGrace: bootstrapGrace, Lines: output.WriteLines(u.logFile, u.log.With("process", "bootstrap")),
			}, nil
		},
	})
	if err != nil {
		return err
	}
	u.front.Run("bootstrap", process.Run)
	u.print("bootstrap", "signals and autoscaler of pool %s/%s", u.Cluster, u.Pool)
	return nil
}

// startDashboard runs "weir web" in a separate process, and prints a link to its pages. Only this user can read the
// token of the link.
func (u *up) startDashboard() error {
	if u.options.WebAddr == config.AdminOff {
		return nil
	}
	addr, err := freeAddress("dashboard", u.options.WebAddr)
	if err != nil {
		return err
	}
	secret, err := webSecret(u.data, u.log)
	if err != nil {
		return err
	}
	child := u.Settings
	child.Data, child.Configs = u.data, daemon.UpConfigs(u.data)
	policy := supervise.DefaultPolicy()
	policy.Budget = 1000 // more than fit the window, so restarts never stop
	process, err := supervise.NewProcess(u.launcher, supervise.ProcessConfig{
		Name: "dashboard", StartTimeout: upStartTimeout, Policy: policy, Log: u.log,
		NewSpec: func(context.Context) (supervise.Spec, error) {
			return supervise.Spec{
				Name: "dashboard", Title: "weir: web " + u.Cluster, Argv: child.Argv("web", "--addr", addr), Env: child.Env(),
				StopGrace: dashboardGrace, Lines: output.WriteLines(u.logFile, u.log.With("process", "dashboard")),
			}, nil
		},
	})
	if err != nil {
		return err
	}
	u.front.Run("dashboard", process.Run)
	u.print("dashboard", "http://%s/?token=%s", addr, secret)
	return nil
}
