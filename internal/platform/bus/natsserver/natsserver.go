// Package natsserver runs a NATS server with JetStream in this process. It is the bus
// of a data folder: pass [ServeRoles] as bus.Config.Serve. Tests that need no roles pass
// [Serve]. The production program does not contain the package.
//
// A server listens on a free port of 127.0.0.1, accepts only clients that know its secret,
// and stores its streams in one folder. If the disk of the folder is full, the server
// stops accepting writes to a stream. It accepts them again after there is free space. The server of
// ServeRoles reserves space in its folder, and releases it then.
//
// All functions and methods may be called concurrently.
package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/diskspace"
)

// runningServer is a running server.
type runningServer struct {
	folder string
	roles  bool
	server *server.Server
	lines  *serverLog
	log    *slog.Logger

	ended    chan struct{} // closed by Stop
	restorer sync.WaitGroup
}

// Serve starts a server in a folder, for tests. It has the streams of ServeRoles, but a client
// authenticates with the token and may do everything. It returns after the server listens.
func Serve(folder, token string, log *slog.Logger) (bus.Server, error) {
	return serve(folder, log, &authenticator{secret: token})
}

func serve(folder string, log *slog.Logger, users *authenticator) (bus.Server, error) {
	o := options(folder)
	if err := o.ProcessConfigString(natsconf.Folder(users.all())); err != nil {
		return nil, fmt.Errorf("configure the accounts of NATS in %s: %w", folder, err)
	}
	o.CustomClientAuthentication = users
	s := &runningServer{folder: folder, roles: users.roles, log: log, lines: &serverLog{log: log}, ended: make(chan struct{})}
	var err error
	if s.server, err = start(o, s.lines, users); err != nil {
		return nil, fmt.Errorf("run NATS in %s: %w", folder, err)
	}
	s.restorer.Go(s.watchSpace)
	return s, nil
}

// Roles reports whether each client has the permissions of its role.
func (s *runningServer) Roles() bool { return s.roles }

// URL returns the address of the server, without the token.
func (s *runningServer) URL() string { return "nats://" + s.server.Addr().String() }

// Stop ends the server, and returns after its files are closed. It may be called once.
func (s *runningServer) Stop() {
	close(s.ended)
	s.restorer.Wait()
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// spacePause is the time between two checks of the free space.
const spacePause = time.Second

// watchSpace keeps the reserve, and restores the store. It returns with Stop.
func (s *runningServer) watchSpace() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	reserve, failed := diskspace.NewKeeper(s.folder), ""
	for {
		select {
		case <-s.ended:
			return
		case <-pause.C:
		}
		if s.roles {
			failed = s.keepReserve(reserve, failed)
		}
		if s.lines.full.Load() && diskspace.Check(s.folder) == nil {
			s.restore()
		}
		pause.Reset(spacePause)
	}
}

// keepReserve keeps the reserve of the disk. It returns the error, which it logs if it is not that of before.
func (s *runningServer) keepReserve(reserve *diskspace.Keeper, before string) (failed string) {
	change, err := reserve.Keep()
	if change != "" {
		s.log.Info("reserve of the disk changed", "folder", s.folder, "change", change)
	}
	if err == nil {
		return ""
	}
	if err.Error() != before {
		s.log.Warn("reserve of the disk not kept: processes that fill the disk stop the bus", "folder", s.folder, "err", err)
	}
	return err.Error()
}

// restore restarts JetStream after failed writes. Until a restart the server rejects all writes to a stream with a
// failed one.
func (s *runningServer) restore() {
	s.lines.full.Store(false)
	err := s.server.ShutdownJetStream()
	if err == nil {
		err = s.server.EnableJetStream(jetStreamConfig(options(s.folder)))
	}
	if err != nil {
		s.lines.full.Store(true) // the next check tries again
		s.log.Error("bus rejects writes: JetStream does not restart", "err", err)
		return
	}
	s.log.Warn("bus accepts writes again after a full disk")
}

// jetStreamConfig returns the configuration that the server derives from its options.
func jetStreamConfig(o *server.Options) *server.JetStreamConfig {
	return &server.JetStreamConfig{StoreDir: o.StoreDir, MaxStore: o.JetStreamMaxStore}
}

// maxStore bounds the streams, in bytes. It is no real limit: the disk is.
const maxStore = 1 << 50

// options allow clients on this machine, and files in the folder only.
func options(folder string) *server.Options {
	return &server.Options{
		ServerName: "weir",
		Host:       "127.0.0.1",
		Port:       server.RANDOM_PORT,
		MaxPayload: bus.MaxPayload,
		JetStream:  true,
		StoreDir:   folder, // the server appends "jetstream"
		// The default of the server is three quarters of the space that is free at its start.
		JetStreamMaxStore: maxStore,
		NoSigs:            true,
		NoLog:             true, // start sets a logger
	}
}

// start returns a server that listens.
func start(options *server.Options, lines *serverLog, users *authenticator) (*server.Server, error) {
	s, err := server.NewServer(options)
	if err != nil {
		return nil, err
	}
	users.server = s // before it accepts clients
	s.SetLoggerV2(lines, false, false, false)
	s.Start() // returns after the server listens, or after it has logged its error
	err = lines.fatalError()
	if err == nil && s.Addr() == nil {
		err = errors.New("it does not listen")
	}
	if err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, err
	}
	return s, nil
}

// serverLog receives the log lines of the server. Fatalf is the only place where the
// server reports why it did not start.
type serverLog struct {
	log  *slog.Logger
	full atomic.Bool // a write failed for lack of space

	mu    sync.Mutex
	fatal error // the first one
}

func (l *serverLog) fatalError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		l.fatal = fmt.Errorf(format, v...)
	}
}

func (l *serverLog) Noticef(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.line(slog.LevelWarn, format, v) }
func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	for _, scarce := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		if strings.Contains(text, scarce.Error()) { // the server reports it in log lines only
			l.full.Store(true)
		}
	}
	l.line(slog.LevelWarn, "%s", []any{text})
}
func (l *serverLog) Debugf(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any) { l.line(slog.LevelDebug, format, v) }

func (l *serverLog) line(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "nats server", "line", fmt.Sprintf(format, v...))
	}
}
