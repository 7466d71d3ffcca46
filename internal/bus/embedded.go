package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/diskspace"
	"github.com/weirkeeper/weirkeeper/internal/flock"
)

// embedded is the server of a folder, in this process.
type embedded struct {
	folder  folder
	lock    *flock.File
	server  *server.Server
	address address
	lines   *serverLog
	log     *slog.Logger

	ended    chan struct{} // closed by stop
	restorer sync.WaitGroup
}

// startEmbedded starts the server and tells the folder where it is. The lock
// becomes the server's; it is free again after an error.
func startEmbedded(f folder, lock *flock.File, log *slog.Logger) (*embedded, error) {
	e := &embedded{folder: f, lock: lock, log: log, lines: &serverLog{log: log}, ended: make(chan struct{})}
	// The address of one that was killed would only mislead.
	if err := os.Remove(f.addressPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("remove the old address of the bus: %w", err), lock.Unlock())
	}
	token := rand.Text()
	s, err := runServer(serverOptions(f, token), e.lines)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("run NATS in %s: %w", f, err), lock.Unlock())
	}
	e.server = s
	e.address = address{URL: "nats://" + s.Addr().String(), Token: token, PID: os.Getpid()}
	if err := e.address.write(f.addressPath()); err != nil {
		e.stop()
		return nil, fmt.Errorf("write the address of the bus: %w", err)
	}
	e.restorer.Go(e.restore)
	return e, nil
}

// restoreEvery is the time between two looks at a store that has run out of space.
const restoreEvery = time.Second

// restore starts JetStream again, once there is space, after writes have failed without:
// the server takes no more writes to such a stream until then. It returns with stop.
func (e *embedded) restore() {
	look := time.NewTicker(restoreEvery)
	defer look.Stop()
	for {
		select {
		case <-e.ended:
			return
		case <-look.C:
		}
		if !e.lines.full.Load() || diskspace.Check(string(e.folder)) != nil {
			continue
		}
		e.lines.full.Store(false)
		err := e.server.ShutdownJetStream()
		if err == nil {
			err = e.server.EnableJetStream(jetStreamConfig(serverOptions(e.folder, "")))
		}
		if err != nil {
			e.lines.full.Store(true) // it is tried again
			e.log.Error("bus cannot be written to: JetStream does not start again", "err", err)
			continue
		}
		e.log.Warn("bus takes writes again: there is space on its disk")
	}
}

// jetStreamConfig returns what the server itself makes of its options.
func jetStreamConfig(o *server.Options) *server.JetStreamConfig {
	return &server.JetStreamConfig{StoreDir: o.StoreDir, MaxStore: o.JetStreamMaxStore}
}

// stop ends the server, then frees the folder.
func (e *embedded) stop() {
	close(e.ended)
	e.restorer.Wait()
	err := os.Remove(e.folder.addressPath())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	e.server.Shutdown()
	e.server.WaitForShutdown()
	if err := errors.Join(err, e.lock.Unlock()); err != nil {
		e.log.Warn("bus left its address behind", "err", err)
	}
}

// serverOptions: reachable from this machine only, with the token only, and no
// file outside the folder.
func serverOptions(f folder, token string) *server.Options {
	return &server.Options{
		ServerName:    "weir",
		Host:          "127.0.0.1",
		Port:          server.RANDOM_PORT,
		Authorization: token,
		MaxPayload:    MaxPayload,
		JetStream:     true,
		StoreDir:      string(f), // the server appends "jetstream"
		// By default it is three quarters of what is free at the start, and stays that.
		JetStreamMaxStore: maxStore,
		NoSigs:            true,
		NoLog:             true, // ours is set by runServer
	}
}

// maxStore bounds the streams, in bytes: the disk does.
const maxStore = 1 << 50

// runServer returns a server that listens.
func runServer(options *server.Options, lines *serverLog) (*server.Server, error) {
	s, err := server.NewServer(options)
	if err != nil {
		return nil, err
	}
	s.SetLoggerV2(lines, false, false, false)
	s.Start() // returns when it listens, or has said why not
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

// serverLog takes the server's own lines. The server tells by Fatalf, and by
// nothing else, why it did not start.
type serverLog struct {
	log  *slog.Logger
	full atomic.Bool // a write failed for want of space

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
		if strings.Contains(text, scarce.Error()) { // the server reports it by its lines alone
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
