package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
)

const (
	relayTimeout = 2 * time.Second
	maxRelayed   = 8 << 20 // bytes of the metrics of a child
	relayConns   = 4
)

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
	// A killed process leaves its socket.
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.RemoveAll(path)); err != nil {
		return fmt.Errorf("metrics for the parent process: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("metrics for the parent process: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return fmt.Errorf("metrics for the parent process: %w", err)
	}
	server := httpguard.Server(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), relayConns, log)
	server.WriteTimeout = writeTimeout
	parts.Run("metrics for the parent process", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { server.Close() })()
		return serve(server, listener)
	})
	return nil
}

// Child reads the metrics that a child process serves with ServeParent at this path. While it serves none, there are
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
