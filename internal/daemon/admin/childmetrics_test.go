package admin

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// gauge is a collector with that value.
func gauge(name string, value float64) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "A gauge."})
	g.Set(value)
	return g
}

// A child whose socket or folder is removed listens again.
func TestSocketOfAChildIsMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "child.metrics")
	parts := daemon.NewServices(t.Context())
	if err := ServeParent(parts, path, Content{Collectors: []prometheus.Collector{gauge("weir_child", 1)}}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	for _, removed := range []string{path, filepath.Dir(path)} {
		if err := os.RemoveAll(removed); err != nil {
			t.Fatal(err)
		}
		await.True(t, "metrics after "+filepath.Base(removed)+" was removed", func() bool {
			families, err := Child(path).Gather()
			return err == nil && len(families) == 1
		})
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the socket: %v, %v; want only its user to open it", info, err)
		}
	}
	if err := parts.Stop(nil); err != nil {
		t.Error(err)
	}
}

// The server of a parent serves the metrics of its child with its own, also of a child that starts again after a kill.
// Without a child, or with nonsense at its socket, its own metrics remain.
func TestMetricsOfAChild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "child.metrics")
	address := start(t, config.Admin{}, Content{Collectors: []prometheus.Collector{gauge("weir_parent", 1)}, Children: []Child{Child(path), ""}})
	metrics := func() string {
		t.Helper()
		code, text := get(t, address, "/metrics")
		if code != 200 || !strings.Contains(text, "weir_parent 1\n") {
			t.Fatalf("GET /metrics = %d without the metrics of the parent: %.300s", code, text)
		}
		return text
	}
	if text := metrics(); strings.Contains(text, "weir_child") {
		t.Errorf("without a child: %s", text)
	}
	for life := range 2 {
		parts := daemon.NewServices(t.Context())
		content := Content{Collectors: []prometheus.Collector{gauge("weir_child", float64(life))}, Labels: prometheus.Labels{"pool": "web"}}
		if err := ServeParent(parts, path, content, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the socket: %v, %v; want only its user to open it", info, err)
		}
		if text, want := metrics(), fmt.Sprintf("weir_child{pool=\"web\"} %d\n", life); !strings.Contains(text, want) {
			t.Errorf("life %d: the metrics lack %q: %s", life, want, text)
		}
		if err := parts.Stop(nil); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil { // as a kill leaves a socket
			t.Fatal(err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	nonsense, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := nonsense.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{nonsense")
			c.Close()
		}
	}()
	defer func() { nonsense.Close(); <-done }()
	metrics()
}
