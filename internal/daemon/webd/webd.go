// Package webd is the process "weir web": the dashboard and the HTTP API of a cluster.
//
//	p := webd.Process{Settings: settings, Log: log}
//	err := p.Run(ctx, service)
//
// One server has the pages of package web and the API of package api. With a token file both need a token: programs send
// it as a bearer token, and browsers as the password of basic authentication or in a link. An address that other hosts
// reach needs a token file. The pages only read. The connection has the role operator: with one of role viewer all works
// but orders and the output of applications. Several processes may serve a cluster.
package webd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/apiserver"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
)

// maxConns bounds the connections of the server. A stream of events is one of them.
const maxConns = 1024

// Process is "weir web" with its flags.
type Process struct {
	daemon.Settings
	Addr      string             // of the pages and the API; empty: that of weir.yaml
	AdminAddr string             // address of the admin server; empty: that of weir.yaml
	Out       io.Writer          // receives the address
	Notify    *sdnotify.Notifier // nil: systemd waits for nothing
	Log       *slog.Logger
}

// Run serves until ctx ends. It returns an error if the address cannot be used, or if the bus rejects it.
func (p Process) Run(ctx context.Context, service config.Service) (err error) {
	settings := service.Web
	if p.Addr != "" {
		settings.Addr = p.Addr
	}
	if err := settings.CheckAddress(); err != nil {
		return usage.New(fmt.Errorf("address of weir web %w", err))
	}
	var tokens func() ([]apiserver.Token, error)
	if settings.TokenFile != "" {
		tokens = func() ([]apiserver.Token, error) { return apiserver.ReadTokens(settings.TokenFile) }
		if _, err := tokens(); err != nil {
			return usage.New(err)
		}
	}
	listener, err := net.Listen("tcp", settings.Addr)
	if err != nil {
		return fmt.Errorf("weir web: %w; choose another address with --addr or web.addr", err)
	}
	defer listener.Close()
	connection := p.Bus(service.NATS, "weir web", p.Log)
	connection.User = roles.User{Role: roles.Operator, Cluster: p.Cluster}
	connection.Wait = true
	adminConfig := admin.Config{Daemon: config.DaemonWeb, Settings: service.Admin, Flag: p.AdminAddr, Out: p.Out, Log: p.Log}
	if adminConfig.Opened, err = admin.Open(adminConfig, &connection); err != nil {
		return err
	}
	defer adminConfig.Opened.Close()
	b, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer func() { err = b.End(err) }()
	return p.serve(b.WhileOpen(ctx), b, settings, tokens, listener, adminConfig)
}

// serve runs the server and its parts until ctx ends.
func (p Process) serve(ctx context.Context, b *bus.Bus, settings config.Web, tokens func() ([]apiserver.Token, error), listener net.Listener, adminConfig admin.Config) error {
	live := apiserver.NewLive(time.Now())
	fleet, pool := apiserver.Ports(b, p.Cluster, p.Configs, p.Log)
	handler := apiserver.New(apiserver.Config{Cluster: p.Cluster, Fleet: fleet, Pool: pool, Live: live, Tokens: tokens, Own: listener.Addr(), Log: p.Log})
	pages := web.New(web.Config{Source: source{b, p.Cluster, p.Configs, p.Log}, Details: source{b, p.Cluster, p.Configs, p.Log}, Cluster: p.Cluster, Log: p.Log})
	mux := http.NewServeMux()
	mux.Handle(apiserver.Prefix+"/", handler)
	mux.Handle("/", guard{listener.Addr(), tokens, p.Log}.wrap(pages))
	scheme, door := "http", listener
	if settings.TLS.CertFile != "" {
		scheme = "https"
		door = tls.NewListener(listener, &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: httpguard.Certificate(settings.TLS.CertFile, settings.TLS.KeyFile),
		})
	}
	server := httpguard.Server(mux, maxConns, p.Log)
	parts := daemon.NewServices(ctx)
	if err := admin.Start(parts, adminConfig, admin.Content{Checks: []admin.Check{admin.Bus(b), admin.Loop(pages.Alive)}, Collectors: []prometheus.Collector{admin.Certificate(b.Conn())}}); err != nil {
		return parts.Stop(err)
	}
	parts.Run("pages", pages.Run)
	parts.Run("events", func(ctx context.Context) error { return live.Run(ctx, b, p.Cluster, p.Log) })
	parts.Run("server", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { server.Close() })()
		if err := server.Serve(door); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	parts.Run("service manager", func(ctx context.Context) error { return p.Notify.Run(ctx, pages.Alive) })
	if p.Out != nil {
		fmt.Fprintf(p.Out, "dashboard: %s://%s/\n", scheme, listener.Addr())
	}
	<-parts.Context().Done()
	return parts.Stop(nil)
}
