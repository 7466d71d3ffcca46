package admin

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

func TestFirstToExpire(t *testing.T) {
	at := func(days int) *x509.Certificate {
		return &x509.Certificate{NotAfter: time.Unix(0, 0).AddDate(0, 0, days)}
	}
	if got := firstToExpire(nil); got != nil {
		t.Errorf("%v of no certificate", got)
	}
	early := at(3)
	if got := firstToExpire([]*x509.Certificate{at(9), early, at(5)}); got != early {
		t.Errorf("expires %v, want %v", got.NotAfter, early.NotAfter)
	}
}

// A connection with TLS has the time at which the certificates of its server expire. A closed one is without it.
func TestCertificateOfServer(t *testing.T) {
	c := bustest.ServeCluster(t, false, natsconf.Cluster{Name: "c", Pools: []natsconf.Pool{{Name: "p"}}})
	nc := connect(t, c, roles.User{Role: roles.Viewer, Cluster: "c"})
	read := func() (values []float64) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(Certificate(nc))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				values = append(values, m.GetGauge().GetValue())
			}
		}
		return values
	}
	if got := read(); len(got) != 1 || time.Until(time.Unix(int64(got[0]), 0)) <= 0 {
		t.Errorf("expiry %v, want one time in the future", got)
	}
	nc.Close()
	if got := read(); len(got) != 0 {
		t.Errorf("expiry %v of a closed connection", got)
	}
}

// connect connects a user of the cluster.
func connect(t *testing.T, c *bustest.Cluster, u roles.User) *nats.Conn {
	t.Helper()
	pair := c.Seed(t, u.Name())
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(c.URL(0), nats.Secure(c.TLS()), nats.Nkey(key, pair.Sign))
	if err != nil {
		t.Fatal(err)
	}
	return nc
}
