package bootstrap

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Plan is what one pool's processes should be.
type Plan struct {
	Cluster string       `json:"cluster"`
	Pool    string       `json:"pool"`
	Signals []SignalPlan `json:"signals"` // the default signal first
	// Tick is the time from one tick of the autoscaler to the next. 0: unknown; then it
	// may be without a sign of life for as long as it likes.
	Tick time.Duration `json:"-"`
	// Config is what the autoscaler is to hold the pool by; bootstrap hands it on
	// as it is, and does not look into it.
	Config []byte `json:"-"`
}

// Kind says how a signal's process is spoken to, beside its socket.
type Kind string

const (
	KindRelease Kind = ""       // as the release's manifest says: a plugin if it names a protocol
	KindPlugin  Kind = "plugin" // a go-plugin with the control service
	KindExec    Kind = "exec"   // any executable; it offers nothing
)

// Limits bound what a signal's process may use; a zero field is no limit.
type Limits struct {
	Memory    int64   `json:"memory,omitempty"`     // bytes, of all its processes (cgroup)
	CPUs      float64 `json:"cpus,omitempty"`       // shares of a core (cgroup)
	Processes int     `json:"processes,omitempty"`  // and threads (cgroup)
	OpenFiles int     `json:"open_files,omitempty"` // RLIMIT_NOFILE
	AddressMB int64   `json:"address_mb,omitempty"` // RLIMIT_AS, in MiB
}

// ShadowPlan is a version that runs beside the pinned one, without effect.
type ShadowPlan struct {
	Version string `json:"version"`
	// PromoteAfter is how many ticks in a row it has to agree before it takes the
	// pinned version's place; 0: never.
	PromoteAfter int `json:"promote_after,omitempty"`
	// Tolerance is how far a resource may differ and still agree, as a fraction
	// of the pinned version's answer.
	Tolerance float64 `json:"tolerance"`
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
	Kind    Kind   `json:"kind,omitempty"`
	// FixedApp: the signal makes something else of its third argument than its
	// socket, so it is never told APP~1: a swap stops it first.
	FixedApp bool   `json:"fixed_app,omitempty"`
	Limits   Limits `json:"limits,omitzero"`
	// Environment names the variables of bootstrap's environment that the signal gets,
	// with a space between: beside those that every signal gets.
	Environment string      `json:"environment,omitempty"`
	Shadow      *ShadowPlan `json:"shadow,omitempty"`
	// Question is what the autoscaler asks the signal with, its windows and
	// parameters, as text. Bootstrap hands it on as it is, and does not look into
	// it. It is of no process: a change of it alone changes none.
	Question string `json:"-"`
	// TimeLimit is how long the autoscaler waits for an answer; 0: its default. It is of
	// no process either.
	TimeLimit time.Duration `json:"-"`
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

// process is the plan of the process alone, without a shadow.
func (s SignalPlan) process() SignalPlan {
	s.Shadow = nil
	return s
}

// runsAs reports whether the plans have the same process: if not, going from one
// to the other is a swap.
func (s SignalPlan) runsAs(o SignalPlan) bool {
	s.Question, s.TimeLimit = o.Question, o.TimeLimit
	return s.process() == o.process()
}

// same reports whether the plans are equal.
func (s SignalPlan) same(o SignalPlan) bool {
	if s.process() != o.process() || (s.Shadow == nil) != (o.Shadow == nil) {
		return false
	}
	return s.Shadow == nil || *s.Shadow == *o.Shadow
}

// movable reports whether the signal may be told another app part than its own,
// up to the last of its rivals'.
func (s SignalPlan) movable() bool {
	return !s.FixedApp && len(s.place(maxRivals).address) <= maxAddress
}

// place is the n-th place where the signal may answer; 0 is the documented one.
func (s SignalPlan) place(n int) place {
	if n == 0 {
		return place{s.App, s.Address}
	}
	app := fmt.Sprintf("%s~%d", s.App, n)
	return place{app, sigproto.Address(s.Namespace, s.Name, app)}
}

// promoted is the plan with the shadow's version in place of the pinned one.
func (s SignalPlan) promoted() SignalPlan {
	s.Version, s.Shadow = s.Shadow.Version, nil
	return s
}
