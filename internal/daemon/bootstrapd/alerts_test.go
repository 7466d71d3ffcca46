package bootstrapd

import (
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/promtest"
)

// A real Prometheus makes the alert about releases fire and end, from what bootstrap exports.
func TestReleaseAlertFiresAndEnds(t *testing.T) {
	var f fetches
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.WrapCollectorWith(prometheus.Labels{"cluster": "c", "pool": "p"}, newCollector(func() Status { return Status{} }, &f)))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	watch := promtest.Start(t, server.URL, filepath.Join("..", "..", "..", "deploy", "prometheus", "weir-alerts.yml"))
	ref := release.Ref{Namespace: "shop", Name: "rps", Version: "v1"}
	f.pin([]release.Ref{ref})
	f.add(t.Context(), ref, release.ErrUnsigned)
	watch.Expect("with an unsigned release", "WeirReleaseRejected")
	f.add(t.Context(), ref, nil)
	watch.Expect("after a good fetch")
	f.add(t.Context(), ref, release.ErrYanked)
	watch.Expect("with a yanked release", "WeirReleaseRejected")
	f.pin(nil)
	watch.Expect("after the file pins another version")
}
