// Package authd composes "weir auth": it opens the verifiers of the configuration and runs the
// responder of internal/platform/bus/authcallout. Its admin server has its sums
// and its health. A [Process] runs once. [Login] composes the agent's side.
//
// Reloads of key files need no restart.
package authd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/config/verifiers"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
)

// Process is one "weir auth".
type Process struct {
	Bus     *bus.Bus // in the account of the callout
	Config  config.Auth
	Configs string // folder of the pool files
	Cluster string
	Notify  *sdnotify.Notifier // nil: systemd waits for nothing
	Log     *slog.Logger
}

// Run answers the servers until ctx ends. The admin server also has /varz.
func (p Process) Run(ctx context.Context, c admin.Config) error {
	found := newInstances(pools{p.Configs, p.Cluster, p.Bus, p.Log}.machines)
	responder, err := p.responder(ctx, found)
	if err != nil {
		return err
	}
	services := daemon.NewServices(ctx)
	content := admin.Content{
		Checks:     []admin.Check{admin.Bus(p.Bus), admin.Clock(p.Bus.Conn(), p.Log), responding(responder)},
		Collectors: []prometheus.Collector{newCollector(responder.Status), admin.Certificate(p.Bus.Conn())}, More: func(mux *http.ServeMux) { varz(mux, responder) },
	}
	if err := admin.Start(services, c, content); err != nil {
		return services.Stop(err)
	}
	services.Run("instances", found.Run)
	services.Run("responder", func(ctx context.Context) error { return responder.Run(ctx, p.Bus.Conn()) })
	services.Run("service manager", func(ctx context.Context) error { return p.Notify.Run(ctx, advancing(responder.Status)) })
	<-services.Context().Done()
	return services.Stop(nil)
}

// responder opens the keys and the verifiers.
func (p Process) responder(ctx context.Context, found *instances) (*authcallout.Responder, error) {
	c := authcallout.Config{
		Cluster: p.Cluster, Verifiers: map[string]identity.Verifier{},
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
			Settings: settings, Instances: found, Bindings: bindings{p.Bus.JetStream(), p.Cluster}, Log: p.Log,
		})
		if err != nil {
			return nil, fmt.Errorf("auth.verifiers.%s: %w", kind.Key, err)
		}
	}
	c.Agent = func(claim identity.Claim) authcallout.User {
		return userOf(roles.User{Role: roles.Agent, Cluster: claim.Cluster, Pool: claim.Pool, Node: claim.Node})
	}
	if p.Config.DaemonsFile != "" {
		c.Daemon = (&daemons{cluster: p.Cluster, path: p.Config.DaemonsFile}).user
	}
	return authcallout.New(c)
}

// advancing returns a check that fails before the responder is ready, and if requests wait but none was answered since
// the last check. It has one caller at a time.
func advancing(status func() authcallout.Status) func(context.Context) error {
	var before uint64
	waited := false
	return func(context.Context) error {
		s := status()
		sum := s.Accepted
		for _, n := range s.Refused {
			sum += n
		}
		stuck := waited && s.Waiting > 0 && sum == before
		before, waited = sum, s.Waiting > 0
		switch {
		case !s.Ready:
			return errors.New("does not receive requests of NATS servers yet")
		case stuck:
			return fmt.Errorf("%d requests wait, and none was answered since the last check", s.Waiting)
		}
		return nil
	}
}

// userOf returns what the servers let a user do, from the table of roles.
func userOf(u roles.User) authcallout.User {
	allowed := u.Permissions()
	of := authcallout.User{Name: u.Name(), Account: u.Account()}
	publish, subscribe := allowed.Lists()
	of.Permissions.Pub.Allow.Add(publish...)
	of.Permissions.Sub.Allow.Add(subscribe...)
	if allowed.Respond {
		of.Permissions.Resp = &jwt.ResponsePermission{MaxMsgs: natsconf.MaxResponses, Expires: natsconf.ResponseTime}
	}
	return of
}

// responding returns the check of the responder: ready while it receives requests.
func responding(r *authcallout.Responder) admin.Check {
	return admin.Check{Name: "responder", Read: func(context.Context) admin.Result {
		if s := r.Status(); !s.Ready {
			return admin.Result{State: admin.Failed, Detail: "receives no requests of the servers", Remedy: "check auth_callout in the configuration of the NATS servers"}
		}
		return admin.Result{State: admin.OK, Detail: "receives the requests of the servers"}
	}}
}

// varz serves the sums of the responder.
func varz(mux *http.ServeMux, r *authcallout.Responder) {
	mux.HandleFunc("GET /varz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.Status()) // fails only if the client is gone
	})
}

// collector exports the sums of a responder.
type collector struct {
	*metric.Set
	status func() authcallout.Status
}

func newCollector(status func() authcallout.Status) collector {
	return collector{metric.NewSet(metric.AuthPrefix, metric.Auth()), status}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.status()
	c.Emit(ch, "accepted_total", float64(s.Accepted))
	for _, reason := range identity.Reasons() {
		c.Emit(ch, "refused_total", float64(s.Refused[reason]), string(reason))
	}
	c.Emit(ch, "waiting", float64(s.Waiting))
}

// Identify sets the login of an agent in a connection, if the configuration has a section "identity". It creates the
// agent's nkey in the data folder.
func Identify(ctx context.Context, connection *bus.Config, c config.Identity, claim identity.Claim) error {
	login, err := Login(ctx, c, claim, connection.Data)
	if login == nil || err != nil {
		return err
	}
	connection.Login, connection.Identity = login.Apply, login.Setting()
	return nil
}

// Login returns the login of an agent; nil if the configuration has no section "identity". It creates the agent's nkey
// in the data folder.
func Login(ctx context.Context, c config.Identity, claim identity.Claim, data string) (*identity.Login, error) {
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
	return &identity.Login{Claim: claim, Verifier: kind.Key, Prover: prover, Key: key}, nil
}
