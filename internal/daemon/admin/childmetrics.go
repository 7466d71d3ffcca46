package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	relayTimeout = 4 * time.Second // longer than one collector of the child
	maxRelayed   = 8 << 20         // bytes of the metrics of a child
	relayConns   = 4
)

// OwnerSocket is the environment variable with the path at which the process that starts bootstrap serves metrics of its own
// with ServeParent; empty: none.
const OwnerSocket = "WEIR_OWNER_METRICS"

// SocketPath returns the path of the metrics of a process, in a data folder; empty if it is longer than a socket can have.
func SocketPath(data, process string) string {
	const maxSocketPath = 107 // bytes; of Linux
	path := filepath.Join(data, "run", process+".metrics")
	if len(path) > maxSocketPath {
		return ""
	}
	return path
}

// ServeParent serves the collectors of a process to the one that started it, on a Unix socket at path, until the parts
// end. The parent reads them with Child. Without a path it does nothing.
func ServeParent(parts *daemon.Services, path string, content Content, log *slog.Logger) error {
	if path == "" {
		return nil
	}
	registry := prometheus.NewRegistry()
	for _, one := range content.Collectors {
		if err := registry.Register(prometheus.WrapCollectorWith(content.Labels, one)); err != nil {
			return fmt.Errorf("metrics for the parent process: %w", err)
		}
	}
	listener, err := listenAt(path)
	if err != nil {
		return err
	}
	server := httpguard.Server(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), relayConns, log)
	server.WriteTimeout = writeTimeout
	parts.Run("metrics for the parent process", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { server.Close() })()
		return serveAt(ctx, path, server, listener, log)
	})
	return nil
}

// listenAt listens on a new Unix socket at path, and makes its folder if it is missing.
func listenAt(path string) (*net.UnixListener, error) {
	// A killed process leaves its socket.
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.RemoveAll(path)); err != nil {
		return nil, fmt.Errorf("metrics for the parent process: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("metrics for the parent process: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, fmt.Errorf("metrics for the parent process: %w", err)
	}
	return listener, nil
}

// socketCheck is how often a removed socket is looked for.
const socketCheck = time.Second

// serveAt serves until the server is closed. If the socket is removed, it listens again.
func serveAt(ctx context.Context, path string, server *http.Server, listener *net.UnixListener, log *slog.Logger) error {
	for {
		serving, end := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			for retry.Pause(serving, socketCheck) {
				if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
					listener.SetUnlinkOnClose(false) // a new socket may be there by then
					listener.Close()
					return
				}
			}
		})
		err := serve(server, listener)
		end()
		watch.Wait()
		if !errors.Is(err, net.ErrClosed) {
			return err
		}
		log.Warn("metrics socket was removed, listening again", "path", path)
		for listener, err = listenAt(path); err != nil; listener, err = listenAt(path) {
			if !retry.Pause(ctx, socketCheck) {
				return nil
			}
		}
	}
}

// Child reads the metrics that another process serves with ServeParent at this path. While it serves none, there are
// none.
type Child string

// Gather implements prometheus.Gatherer.
func (c Child) Gather() ([]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(context.Background(), relayTimeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", string(c))
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return nil, nil //nolint:nilerr // the child starts, or has ended: other metrics report that
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of the child process: %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(response.Body, maxRelayed))
	if err != nil {
		return nil, fmt.Errorf("metrics of the child process: %w", err)
	}
	return slices.Collect(maps.Values(families)), nil
}
