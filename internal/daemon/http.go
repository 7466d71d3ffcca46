package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ServeHTTP runs a server on the listener and closes it at the end.
func ServeHTTP(parts *Services, name string, listener net.Listener, handler http.Handler, log *slog.Logger) {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	parts.Run(name, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { server.Close() })
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// ServeProm serves the metrics of the collector and of the process at /metrics, and the paths of metrics.More. It
// prints the address to out.
func ServeProm(out io.Writer, parts *Services, listener net.Listener, metrics Metrics, log *slog.Logger) error {
	registry := prometheus.NewRegistry()
	for _, one := range []prometheus.Collector{metrics.Collector, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(one); err != nil {
			return fmt.Errorf("metrics for Prometheus: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if metrics.More != nil {
		metrics.More(mux)
	}
	ServeHTTP(parts, "metrics for Prometheus", listener, mux, log)
	fmt.Fprintf(out, "metrics for Prometheus: http://%s/metrics\n", listener.Addr())
	return nil
}

// Metrics configures ServeProm.
type Metrics struct {
	Collector prometheus.Collector
	More      func(*http.ServeMux) // adds more paths; may be nil
}
