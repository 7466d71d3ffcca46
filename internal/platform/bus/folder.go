package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// Folder returns the folder of the bus in a data folder.
func Folder(data string) string { return filepath.Join(data, "bus") }

// folder is the path of DATA/bus.
type folder string

func (f folder) lockPath() string    { return filepath.Join(string(f), "lock") }
func (f folder) addressPath() string { return filepath.Join(string(f), "address.json") }

// notReadyError: a process holds the folder, and its server does not answer, because it starts or stops.
type notReadyError struct {
	folder folder
	pid    int
	err    error
}

func (e *notReadyError) Error() string {
	do := cmp.Or(outOfFiles(e.pid), "check that process: it is starting, ending, hangs or is stopped")
	return fmt.Sprintf("process %d runs the bus of %s, which does not answer: %v; %s", e.pid, e.folder, e.err, do)
}

func (e *notReadyError) Unwrap() error { return e.err }

// join retries while attempt returns a notReadyError.
func (f folder) join(ctx context.Context, attempt func(context.Context) (*Bus, error)) (*Bus, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("join the bus of %s: %w", f, err)
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	for {
		b, err := attempt(ctx)
		if _, notReady := errors.AsType[*notReadyError](err); !notReady {
			return b, err
		}
		if !retry.Pause(ctx, pollInterval) {
			return nil, fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}
}

// start runs the server if the folder is free. Otherwise it connects to the holder's server.
func (f folder) start(ctx context.Context, c Config) (*Bus, error) {
	lock, err := flock.Lock(f.lockPath())
	if held, ok := errors.AsType[*flock.HeldError](err); ok {
		return f.connect(ctx, c, held.PID)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the bus of the folder: %w", err)
	}
	server, err := serve(f, lock, c)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	b, err := c.connectTo(ctx, f, server.address)
	if err != nil {
		server.stop()
		return nil, fmt.Errorf("connect to the NATS of %s: %w", f, err)
	}
	b.server = server
	return b, nil
}

// held is a server in this process, and the lock of its folder.
type held struct {
	Server
	folder  folder
	lock    *flock.File
	address address
	log     *slog.Logger
}

// serve starts the server and writes its address to the folder. The lock becomes the
// server's unless serve fails.
func serve(f folder, lock *flock.File, c Config) (*held, error) {
	// An address that a killed server left behind would mislead.
	if err := os.Remove(f.addressPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old address of the bus: %w", err)
	}
	token := rand.Text()
	server, err := c.Serve(string(f), token, c.Log)
	if err != nil {
		return nil, err
	}
	h := &held{Server: server, folder: f, lock: lock, log: c.Log, address: address{URL: server.URL(), Token: token, PID: os.Getpid(), Roles: server.Roles()}}
	if err := h.address.write(f.addressPath()); err != nil {
		server.Stop()
		return nil, fmt.Errorf("write the address of the bus: %w", err)
	}
	return h, nil
}

// stop ends the server, then frees the folder.
func (h *held) stop() {
	err := os.Remove(h.folder.addressPath())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	h.Stop()
	if err := errors.Join(err, h.lock.Unlock()); err != nil {
		h.log.Warn("bus address not removed", "err", err)
	}
}

// find connects to the holder of the folder.
func (f folder) find(ctx context.Context, c Config) (*Bus, error) {
	pid, held, err := flock.Holder(f.lockPath())
	if err != nil {
		return nil, fmt.Errorf("find the bus of the folder: %w", err)
	}
	if !held {
		return nil, &noBusError{filepath.Dir(string(f)), c.Places}
	}
	return f.connect(ctx, c, pid)
}

// connect connects to the server of process pid.
func (f folder) connect(ctx context.Context, c Config, pid int) (*Bus, error) {
	a, err := readAddress(f.addressPath())
	if err == nil && a.PID != pid {
		err = fmt.Errorf("%s is of process %d", f.addressPath(), a.PID)
	}
	if err != nil {
		return nil, &notReadyError{folder: f, pid: pid, err: err}
	}
	if err := a.accepts(c.User); err != nil {
		return nil, fmt.Errorf("join the bus of %s: %w", f, err)
	}
	b, err := c.connectTo(ctx, f, a)
	if err != nil {
		return nil, &notReadyError{folder: f, pid: pid, err: err}
	}
	return b, nil
}

// connectTo connects to the server of a folder.
func (c Config) connectTo(ctx context.Context, f folder, a address) (*Bus, error) {
	if err := a.accepts(c.User); err != nil {
		return nil, err
	}
	h := &home{folder: f, user: c.User}
	h.last.Store(&a)
	return c.connect(ctx, []string{a.URL}, h)
}
