package admin

import (
	"crypto/x509"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
)

// Certificate returns the collector of the time when the certificates of the connected NATS server expire.
func Certificate(nc *nats.Conn) prometheus.Collector {
	return certificate{nc, metric.NewSet(metric.BusPrefix, metric.Bus())}
}

type certificate struct {
	nc *nats.Conn
	*metric.Set
}

// Collect implements prometheus.Collector.
func (c certificate) Collect(ch chan<- prometheus.Metric) {
	state, err := c.nc.TLSConnectionState()
	if err != nil {
		return // no TLS, or not connected
	}
	chain := state.PeerCertificates
	if len(state.VerifiedChains) > 0 {
		chain = state.VerifiedChains[0] // with the authority
	}
	if first := firstToExpire(chain); first != nil {
		c.Emit(ch, "certificate_expiry_timestamp_seconds", float64(first.NotAfter.Unix()))
	}
}

// firstToExpire returns the certificate that expires first; nil for none.
func firstToExpire(chain []*x509.Certificate) (first *x509.Certificate) {
	for _, c := range chain {
		if first == nil || c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	return first
}
