package bootstrap

import (
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Plan is what one pool's processes should be.
type Plan struct {
	Cluster string       `json:"cluster"`
	Pool    string       `json:"pool"`
	Signals []SignalPlan `json:"signals"` // the default signal first
}

// SignalPlan is one signal process.
type SignalPlan struct {
	App       string `json:"app"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version is the release to fetch; empty for a signal that weir ships.
	Version string `json:"version,omitempty"`
	// Address is the documented socket, where it answers unless somebody else
	// holds that.
	Address string `json:"address"`
}

// NewSignalPlan returns the plan of a signal at its documented address.
func NewSignalPlan(app, namespace, name, version string) SignalPlan {
	return SignalPlan{
		App: app, Namespace: namespace, Name: name, Version: version,
		Address: sigproto.Address(namespace, name, app),
	}
}

// Shipped reports whether weir itself is the signal's program.
func (s SignalPlan) Shipped() bool { return s.Version == "" }

// Ref names the release of a signal that is not shipped.
func (s SignalPlan) Ref() release.Ref {
	return release.Ref{Namespace: s.Namespace, Name: s.Name, Version: s.Version}
}

// Process is a process of the plan as it is now.
type Process struct {
	App      string    `json:"app,omitempty"`     // of a signal
	Signal   string    `json:"signal"`            // namespace/name; "autoscaler" for the autoscaler
	Version  string    `json:"version,omitempty"` // what runs; empty if weir ships it
	Wanted   string    `json:"wanted,omitempty"`  // the pinned version
	Address  string    `json:"address,omitempty"` // of a signal: its socket
	State    string    `json:"state"`             // of package supervise; "fetching", "not fetched" before the first start
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	Why      string    `json:"why,omitempty"` // what is wrong, or where the release came from
}

// Status is all processes of a pool as they are now.
type Status struct {
	Cluster    string    `json:"cluster"`
	Pool       string    `json:"pool"`
	PID        int       `json:"pid"`
	Signals    []Process `json:"signals"`
	Autoscaler Process   `json:"autoscaler"`
}

// Title names a process for people: "web (shop/rps)", "autoscaler".
func (p Process) Title() string {
	if p.App == "" {
		return p.Signal
	}
	return p.App + " (" + p.Signal + ")"
}
