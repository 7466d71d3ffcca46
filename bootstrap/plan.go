package bootstrap

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Plan defines the processes of one pool.
type Plan struct {
	Cluster string       `json:"cluster"`
	Pool    string       `json:"pool"`
	Signals []SignalPlan `json:"signals"` // the default signal first
	// Tick is the time between ticks of the autoscaler. 0: unknown; then signs of life are not required.
	Tick time.Duration `json:"-"`
	// Config is the autoscaler's configuration of the pool. Bootstrap forwards it unchanged.
	Config []byte `json:"-"`
}

// Limits bound what a signal's process may use. Zero means no limit.
type Limits struct {
	Memory    int64   `json:"memory,omitempty"`     // bytes, of all its processes (cgroup)
	CPUs      float64 `json:"cpus,omitempty"`       // CPU cores (cgroup)
	Processes int     `json:"processes,omitempty"`  // counts threads too (cgroup)
	OpenFiles int     `json:"open_files,omitempty"` // RLIMIT_NOFILE
	AddressMB int64   `json:"address_mb,omitempty"` // RLIMIT_AS, in MiB
}

// ShadowPlan is a version that runs beside the pinned one without effect.
type ShadowPlan struct {
	Version string `json:"version"`
	// PromoteAfter is the number of agreeing ticks in a row after which it replaces the pinned version; 0: never.
	PromoteAfter int `json:"promote_after,omitempty"`
	// Tolerance is the difference up to which a resource agrees, as a fraction of the pinned version's answer.
	Tolerance float64 `json:"tolerance"`
}

// SignalPlan is one signal process.
type SignalPlan struct {
	App       string `json:"app"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version is the release to fetch; empty for a signal that weir ships.
	Version string `json:"version,omitempty"`
	// Address is the documented socket. The signal listens there unless another process holds it.
	Address string          `json:"address"`
	Kind    api.ProcessKind `json:"kind,omitempty"`
	// FixedApp: the signal uses its third argument for more than its socket. It never gets APP~1, so a swap stops it
	// first.
	FixedApp bool   `json:"fixed_app,omitempty"`
	Limits   Limits `json:"limits,omitzero"`
	// Environment names variables of bootstrap's environment that the signal gets in addition to the common ones,
	// separated by spaces.
	Environment string      `json:"environment,omitempty"`
	Shadow      *ShadowPlan `json:"shadow,omitempty"`
	// RequestConfig is the request configuration, windows and parameters, as text. Bootstrap forwards it unchanged. A change
	// of it restarts no process.
	RequestConfig string `json:"-"`
	// TimeLimit bounds the wait for an answer; 0: the autoscaler's default. A change of it restarts no process.
	TimeLimit time.Duration `json:"-"`
}

// NewSignalPlan returns the plan of a signal at its documented address.
func NewSignalPlan(app, namespace, name, version string) SignalPlan {
	return SignalPlan{
		App: app, Namespace: namespace, Name: name, Version: version,
		Address: sigproto.Address(namespace, name, app),
	}
}

// Shipped reports whether the signal's program is weir itself.
func (s SignalPlan) Shipped() bool { return s.Version == "" }

// Ref returns the release of a signal that is not shipped.
func (s SignalPlan) Ref() release.Ref {
	return release.Ref{Namespace: s.Namespace, Name: s.Name, Version: s.Version}
}

// process returns the plan of the process without its shadow.
func (s SignalPlan) process() SignalPlan {
	s.Shadow = nil
	return s
}

// runsAs reports whether both plans have the same process. If not, a change from one to the other is a swap.
func (s SignalPlan) runsAs(o SignalPlan) bool {
	s.RequestConfig, s.TimeLimit = o.RequestConfig, o.TimeLimit
	return s.process() == o.process()
}

// same reports whether the plans are equal.
func (s SignalPlan) same(o SignalPlan) bool {
	if s.process() != o.process() || (s.Shadow == nil) != (o.Shadow == nil) {
		return false
	}
	return s.Shadow == nil || *s.Shadow == *o.Shadow
}

// movable reports whether the signal may get another app argument, up to the last alternative.
func (s SignalPlan) movable() bool {
	return !s.FixedApp && len(s.place(maxAlternatives).address) <= maxAddress
}

// place returns the n-th address where the signal may listen; 0 is the documented one.
func (s SignalPlan) place(n int) place {
	if n == 0 {
		return place{s.App, s.Address}
	}
	app := fmt.Sprintf("%s~%d", s.App, n)
	return place{app, sigproto.Address(s.Namespace, s.Name, app)}
}

// promoted returns the plan with the shadow's version as the pinned one.
func (s SignalPlan) promoted() SignalPlan {
	s.Version, s.Shadow = s.Shadow.Version, nil
	return s
}
