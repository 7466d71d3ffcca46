// Package authd composes "weir auth": it opens the verifiers of the configuration and runs the
// responder of internal/bus/authcallout. It serves its sums to Prometheus, and its health to
// collectors. A [Process] runs once. [Login] composes the agent's side.
package authd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/identity"
	"github.com/weirkeeper/weirkeeper/internal/verifiers"
)

// Process is one "weir auth".
type Process struct {
	Conn    *nats.Conn // in the account of the callout
	Streams jetstream.JetStream
	Config  config.Auth
	Configs string // folder of the pool files
	Cluster string
	Log     *slog.Logger
}

// Run answers the servers until ctx ends. With metricsAddr it serves /metrics, /healthz and /varz there.
func (p Process) Run(ctx context.Context, metricsAddr string, out io.Writer) error {
	found := newInstances(pools{p.Configs, p.Cluster, p.Conn, p.Log}.machines)
	responder, err := p.responder(ctx, found)
	if err != nil {
		return err
	}
	services := daemon.NewServices(ctx)
	if metricsAddr != "" {
		listener, err := net.Listen("tcp", metricsAddr)
		if err != nil {
			return fmt.Errorf("metrics for Prometheus: %w; choose another address", err)
		}
		defer listener.Close()
		metrics := daemon.Metrics{Collector: collector{responder}, More: func(mux *http.ServeMux) { p.health(mux, responder) }}
		if err := daemon.ServeProm(out, services, listener, metrics, p.Log); err != nil {
			return services.Stop(err)
		}
	}
	services.Run("instances", found.Run)
	services.Run("responder", func(ctx context.Context) error { return responder.Run(ctx, p.Conn) })
	<-services.Context().Done()
	return services.Stop(nil)
}

// responder opens the keys and the verifiers.
func (p Process) responder(ctx context.Context, found *instances) (*authcallout.Responder, error) {
	c := authcallout.Config{
		Cluster: p.Cluster, Account: p.Config.Account, Verifiers: map[string]identity.Verifier{}, User: user,
		Timeout: p.Config.Timeout, Lifetime: p.Config.Lifetime, Log: p.Log,
	}
	var err error
	if c.Issuer, err = identity.ReadSeed(p.Config.IssuerKeyFile, nkeys.PrefixByteAccount); err != nil {
		return nil, fmt.Errorf("auth.issuer_key_file: %w", err)
	}
	if p.Config.XKeyFile != "" {
		if c.XKey, err = identity.ReadSeed(p.Config.XKeyFile, nkeys.PrefixByteCurve); err != nil {
			return nil, fmt.Errorf("auth.xkey_file: %w", err)
		}
	}
	for _, kind := range verifiers.All() {
		settings := p.Config.Verifiers.Values[kind.Key]
		if settings == nil {
			continue
		}
		c.Verifiers[kind.Key], err = kind.Open(ctx, identity.Site{
			Settings: settings, Instances: found, Bindings: bindings{p.Streams, p.Cluster}, Log: p.Log,
		})
		if err != nil {
			return nil, fmt.Errorf("auth.verifiers.%s: %w", kind.Key, err)
		}
	}
	return authcallout.New(c)
}

// user returns the user of an agent, from the table of roles.
func user(c identity.Claim) (string, jwt.Permissions) {
	u := roles.User{Role: roles.Agent, Cluster: c.Cluster, Pool: c.Pool, Node: c.Node}
	publish, subscribe := u.Permissions().Lists()
	var p jwt.Permissions
	p.Pub.Allow.Add(publish...)
	p.Sub.Allow.Add(subscribe...)
	return u.Name(), p
}

// health serves the state of the responder: ready while it receives requests on an open connection.
func (p Process) health(mux *http.ServeMux, r *authcallout.Responder) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !r.Status().Ready || !p.Conn.IsConnected() {
			http.Error(w, "not connected to NATS", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /varz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.Status()) // fails only if the client is gone
	})
}

// collector exports the sums of a responder.
type collector struct{ *authcallout.Responder }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.Status()
	accepted := prometheus.NewDesc("weir_auth_accepted_total", "accepted connections of agents", nil, nil)
	refused := prometheus.NewDesc("weir_auth_refused_total", "refused connections, by reason", []string{"reason"}, nil)
	queued := prometheus.NewDesc("weir_auth_waiting", "requests of servers in the queue", nil, nil)
	ch <- prometheus.MustNewConstMetric(accepted, prometheus.CounterValue, float64(s.Accepted))
	for _, reason := range identity.Reasons() {
		ch <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(s.Refused[reason]), string(reason))
	}
	ch <- prometheus.MustNewConstMetric(queued, prometheus.GaugeValue, float64(s.Waiting))
}

// Login returns the login of an agent; nil if the configuration has no section "identity". It creates the agent's nkey
// in the data folder.
func Login(ctx context.Context, c config.Identity, claim identity.Claim, data string, log *slog.Logger) (*identity.Login, error) {
	kind, ok := c.Kind()
	if !ok {
		return nil, nil
	}
	if err := claim.Validate(); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	prover, err := kind.Prove(ctx, c.Value)
	if err != nil {
		return nil, fmt.Errorf("identity.%s: %w", kind.Key, err)
	}
	key, err := identity.OpenKey(data, claim.Node)
	if err != nil {
		return nil, err
	}
	return &identity.Login{Claim: claim, Verifier: kind.Key, Prover: prover, Key: key, Log: log}, nil
}
