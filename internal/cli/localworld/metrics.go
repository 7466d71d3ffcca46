package localworld

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/diskspace"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/metrics/lineprotocol"
)

// ServeMetrics runs the embedded metrics store of a cluster until ctx ends. Applications write to it at o.Addr.
func ServeMetrics(ctx context.Context, root *command.Root, o command.MetricsOptions) (err error) {
	notify, err := sdnotify.Take()
	if err != nil {
		return err
	}
	intake, err := intakeOf(o)
	if err != nil {
		return usage.New(err)
	}
	service, err := config.LoadService(root.ConfigDir())
	if err != nil {
		return usage.New(err)
	}
	intake.retention = retentionOf(o, service)
	settings, log, err := root.Daemon()
	if err != nil {
		return err
	}
	lock, err := daemon.Lock(settings.Data, "metrics", "metrics store")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if intake.token == "" {
		if intake.token, err = ownToken(settings.Data, log); err != nil {
			return err
		}
	}
	connection := settings.Bus(service.NATS, "metrics store", log)
	connection.User = roles.User{Role: roles.Metrics, Cluster: settings.Cluster}
	connection.Serve, connection.Wait = natsserver.ServeRoles, true
	b, err := bus.Open(ctx, connection)
	if err != nil {
		return err
	}
	defer func() { err = b.End(err) }()
	parts := daemon.NewServices(b.WhileOpen(ctx))
	at, err := startMetrics(parts, b, settings.Cluster, settings.Data, intake, log)
	if err != nil {
		return parts.Stop(err)
	}
	server := admin.Config{Daemon: config.DaemonMetrics, Settings: service.Admin, Flag: o.AdminAddr, Out: root.Stdout, Log: log}
	if err := admin.Start(parts, server, admin.Content{Checks: []admin.Check{admin.Bus(b), at.check(), at.senders(), admin.Disk(settings.Data, "metrics")}}); err != nil {
		return parts.Stop(err)
	}
	parts.Run("free space", func(ctx context.Context) error { return untilFull(ctx, metricsFolder(settings.Data)) })
	fmt.Fprintf(root.Stdout, "metrics of cluster %s: %s?bucket=APP, in line protocol; its token is in %s\n", settings.Cluster, at.url, cmp.Or(o.TokenFile, daemon.MetricsToken(settings.Data)))
	parts.Run("service manager", func(ctx context.Context) error { return notify.Run(ctx, at.alive) })
	<-parts.Context().Done()
	return parts.Stop(nil)
}

func metricsFolder(data string) string { return filepath.Join(data, "metrics") }

// spaceEvery is the interval of reading the free space.
const spaceEvery = time.Second

// untilFull returns when the folder's disk is full. The store then stops in order, before a failed write makes its
// database panic.
func untilFull(ctx context.Context, folder string) error {
	ticker := time.NewTicker(spaceEvery)
	defer ticker.Stop()
	for {
		if full, is := errors.AsType[*api.FullDisk](diskspace.Check(folder)); is {
			return full
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// maxToken bounds the file of a token, in bytes.
const maxToken = 64 << 10

// intake configures how applications write metrics.
type intake struct {
	addr      string
	token     lineprotocol.Token // that a writer sends; empty: that of the data folder
	retention time.Duration      // 0: the store's default
}

// intakeOf returns the intake that the flags describe. On an address that other hosts reach it
// is refused without a token file: their writers cannot read that of the data folder.
func intakeOf(o command.MetricsOptions) (intake, error) {
	in := intake{addr: o.Addr}
	if o.Retention != 0 && o.Retention < embedded.LeastRetention {
		return in, fmt.Errorf("--retention %v: want at least %v", o.Retention, embedded.LeastRetention)
	}
	if o.TokenFile != "" {
		text, err := inputfile.Read(o.TokenFile, maxToken)
		if err == nil && len(text) > maxToken {
			err = fmt.Errorf("%s has more than %d bytes: name the file of a token", o.TokenFile, maxToken)
		}
		if err != nil {
			return in, fmt.Errorf("--token-file: %w", err)
		}
		if in.token = lineprotocol.Token(strings.TrimSpace(string(text))); in.token == "" {
			return in, fmt.Errorf("--token-file %s: the file is empty: write a secret into it", o.TokenFile)
		}
		return in, nil
	}
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return in, fmt.Errorf("address of the metrics %q: want HOST:PORT: %w", o.Addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return in, fmt.Errorf("address of the metrics %q: other hosts can reach it, and their writers need a token: listen on 127.0.0.1, or give \"weir metrics serve\" a --token-file", o.Addr)
	}
	return in, nil
}

// retentionOf returns the retention of the flag, else that of the service file; 0 without either.
func retentionOf(o command.MetricsOptions, s config.Service) time.Duration {
	if e, ok := s.Metrics.Value.(*embedded.Settings); ok && o.Retention == 0 {
		return e.Retention
	}
	return o.Retention
}

// ownToken returns the token of the data folder, and creates a missing one. It renames a file that is empty or has
// characters that are invalid in an HTTP header.
func ownToken(data string, log *slog.Logger) (lineprotocol.Token, error) {
	path := daemon.MetricsToken(data)
	text, err := os.ReadFile(path)
	if err == nil {
		if token := strings.TrimSpace(string(text)); sendable(token) {
			return lineprotocol.Token(token), nil
		}
		var aside string
		if aside, err = wholefile.SetAside(path, time.Now()); err == nil {
			log.Warn("token of the metrics was damaged: writers need the new one", "file", path, "damaged", aside)
			err = fs.ErrNotExist
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the token for writers of metrics: %w; remove the file, then a new one is created", err)
	}
	token := rand.Text()
	if err := wholefile.Write(path, []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("token of the writers of metrics: %w", err)
	}
	return lineprotocol.Token(token), nil
}

// sendable reports whether an HTTP header can carry the token.
func sendable(token string) bool {
	const longest = 1024
	return token != "" && len(token) <= longest && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// running is a metrics store that answers requests.
type running struct {
	store  *tsdbstore.Store
	server *embedded.Server
	url    string // where applications write
}

// alive reports whether the database answers.
func (r running) alive(ctx context.Context) error {
	_, err := r.store.Window(ctx, metrics.Query{Type: metrics.System, Name: "up"})
	return err
}

// check is the condition of the database.
func (r running) check() admin.Check {
	return admin.Check{Name: "database", Read: func(ctx context.Context) admin.Result {
		if err := r.alive(ctx); err != nil {
			return admin.Result{State: admin.Failed, Detail: err.Error(), Remedy: "check the log of the metrics store and its disk", Dead: errors.Is(err, context.DeadlineExceeded)}
		}
		return admin.Result{State: admin.OK, Detail: "it has answered a query"}
	}}
}

// senders is the check of the daemons that write on the bus.
func (r running) senders() admin.Check {
	name := func(writer string) string { return "writer " + writer }
	return admin.Senders(r.server.Losers, name, "see the log of the daemon with that role, and replace its key if it is not yours")
}

// startMetrics opens the store of a data folder, receives requests for it on the bus, and lets
// applications write to it over HTTP.
func startMetrics(parts *daemon.Services, b *bus.Bus, cluster, dir string, in intake, log *slog.Logger) (r running, err error) {
	if full, is := errors.AsType[*api.FullDisk](diskspace.Check(metricsFolder(dir))); is {
		return r, full
	}
	if r.store, err = tsdbstore.Open(metricsFolder(dir), tsdbstore.Config{Retention: in.retention, Log: log}); err != nil {
		return r, err
	}
	if r.server, err = embedded.Listen(parts.Context(), b.Conn(), cluster, log); err != nil {
		return r, errors.Join(err, r.store.Close())
	}
	parts.Run("metrics store", func(ctx context.Context) error {
		return errors.Join(r.server.Serve(ctx, r.store), r.store.Close())
	})
	parts.Run("loud writers", func(ctx context.Context) error {
		r.server.ReportLosses(ctx, message.LimitedSubject(cluster, ""), func(one bus.LostOfSender) any {
			return api.LimitedSender{Writer: one.Sender, Lost: one.Lost}
		})
		return nil
	})
	handler, err := lineprotocol.New(r.store, lineprotocol.Config{Token: in.token, Log: log})
	if err != nil {
		return r, err
	}
	listener, err := net.Listen("tcp", in.addr)
	if err != nil {
		return r, fmt.Errorf("metrics over HTTP: %w; choose another address", err)
	}
	mux := http.NewServeMux()
	mux.Handle(lineprotocol.Path, handler)
	daemon.ServeHTTP(parts, "metrics over HTTP", listener, mux, log)
	r.url = fmt.Sprintf("http://%s%s", listener.Addr(), lineprotocol.Path)
	return r, nil
}
