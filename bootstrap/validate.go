package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	// maxSignals bounds the signals of one plan.
	maxSignals = 1000

	// MaxPlanConfig bounds Plan.Config, in bytes.
	MaxPlanConfig = 1 << 20

	// MaxRequestConfigs bounds all SignalPlan.RequestConfig of a plan, in bytes of JSON strings, which is their form in the
	// directory.
	MaxRequestConfigs = 2 << 20

	maxAddress    = 107 // bytes of an abstract socket's name
	maxPromotion  = 1_000_000
	candidateMark = "~"
)

// Validate returns every problem of the plan.
func (p Plan) Validate() error {
	var errs []error
	if len(p.Signals) == 0 {
		errs = append(errs, errors.New("plan has no signal, not even the default one"))
	} else if p.Signals[0].App != sigproto.DefaultApp {
		errs = append(errs, fmt.Errorf("the plan's first signal is of app %q, want the default signal, of app %s", p.Signals[0].App, sigproto.DefaultApp))
	}
	if len(p.Signals) > maxSignals {
		return fmt.Errorf("plan has %d signals, at most %d", len(p.Signals), maxSignals)
	}
	if len(p.Config) > MaxPlanConfig {
		errs = append(errs, fmt.Errorf("the autoscaler's configuration has %d bytes, at most %d", len(p.Config), MaxPlanConfig))
	}
	requestConfigs := 0
	for _, s := range p.Signals {
		if s.TimeLimit < 0 {
			errs = append(errs, fmt.Errorf("signal of app %q: time limit %v is negative", s.App, s.TimeLimit))
		}
		requestConfigs += encodedLen(s.RequestConfig)
		if err := s.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("signal of app %q: %w", s.App, err))
		}
	}
	if requestConfigs > MaxRequestConfigs {
		errs = append(errs, fmt.Errorf("windows and parameters of all signals have %d bytes, at most %d", requestConfigs, MaxRequestConfigs))
	}
	return errors.Join(append(errs, p.validateUnique())...)
}

// encodedLen returns the length of a text as a JSON string in bytes.
func encodedLen(text string) int {
	encoded, _ := json.Marshal(text) // a string cannot fail
	return len(encoded)
}

// validateUnique requires one signal per app and one per socket.
func (p Plan) validateUnique() error {
	var errs []error
	apps, sockets := map[string]SignalPlan{}, map[string]SignalPlan{}
	for _, s := range p.Signals {
		other, twice := apps[s.App]
		_, clash := sockets[s.Address]
		switch {
		case twice && other.Namespace == s.Namespace && other.Name == s.Name:
			errs = append(errs, fmt.Errorf("two signals have namespace %q, name %q and app %q", s.Namespace, s.Name, s.App))
		case twice:
			errs = append(errs, fmt.Errorf("app %q has two signals, %s/%s and %s/%s", s.App, other.Namespace, other.Name, s.Namespace, s.Name))
		case clash:
			other = sockets[s.Address]
			errs = append(errs, fmt.Errorf("two signals have socket @%s: %s/%s of app %q, and %s/%s of app %q",
				s.Address, other.Namespace, other.Name, other.App, s.Namespace, s.Name, s.App))
		}
		apps[s.App], sockets[s.Address] = s, s
	}
	return errors.Join(errs...)
}

// Validate returns every problem of the plan of one signal, without naming its app.
func (s SignalPlan) Validate() error {
	errs := []error{s.validateNames()}
	if err := supervise.Limits(s.Limits).Validate(); err != nil {
		errs = append(errs, fmt.Errorf("limits: %w", err))
	}
	if !s.Shipped() {
		errs = append(errs, s.Ref().Validate())
	}
	switch s.Kind {
	case api.KindRelease, api.KindPlugin, api.KindExec:
	default:
		errs = append(errs, fmt.Errorf("kind %q: want %s, %s or nothing", s.Kind, api.KindPlugin, api.KindExec))
	}
	for name := range strings.FieldsSeq(s.Environment) {
		if !IsVariable(name) {
			errs = append(errs, fmt.Errorf("environment: %q is not the name of a variable", name))
		}
	}
	if s.Shadow != nil {
		errs = append(errs, s.validateShadow())
	}
	return errors.Join(errs...)
}

// IsVariable reports whether a word is a variable name that a plan may use: up to 128 letters, digits and underscores,
// and not a variable that bootstrap sets to mark its children.
func IsVariable(name string) bool {
	const longest = 128
	outside := func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	return name != "" && len(name) <= longest && !strings.ContainsFunc(name, outside) &&
		name != supervise.TagVariable && name != sigproto.PeerVariable
}

func (s SignalPlan) validateNames() error {
	var errs []error
	for _, n := range []struct{ what, text string }{{"namespace", s.Namespace}, {"name", s.Name}, {"app", s.App}} {
		if n.text == "" || strings.ContainsFunc(n.text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			errs = append(errs, fmt.Errorf("%s %q: want a word without white space", n.what, n.text))
		}
	}
	if app, advisor, is := strings.Cut(s.App, candidateMark); is && (app == "" || !isAdvisor(advisor)) {
		errs = append(errs, fmt.Errorf("app %q holds a %s, which marks the sockets of candidates: want APP, or APP~NAME of an advisor", s.App, candidateMark))
	}
	if want := sigproto.Address(s.Namespace, s.Name, s.App); s.Address != want {
		errs = append(errs, fmt.Errorf("socket @%s: want the documented one, @%s", s.Address, want))
	}
	if n := len(s.Address); n > maxAddress {
		errs = append(errs, fmt.Errorf("socket name %q has %d bytes, at most %d: shorten namespace, name or app", s.Address, n, maxAddress))
	}
	return errors.Join(errs...)
}

// isAdvisor reports whether a word behind the mark is the name of an advisor, and not the number of a candidate.
func isAdvisor(name string) bool {
	return strings.Trim(name, "0123456789") != "" && !strings.Contains(name, candidateMark)
}

func (s SignalPlan) validateShadow() error {
	var errs []error
	switch {
	case s.Shipped():
		errs = append(errs, errors.New("shadow: a signal that ships with weir has no versions"))
	case s.Shadow.Version == "":
		errs = append(errs, errors.New("shadow: no version"))
	case s.Shadow.Version == s.Version:
		errs = append(errs, fmt.Errorf("shadow: version %s is the pinned one", s.Version))
	default:
		if err := s.promoted().Ref().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("shadow: %w", err))
		}
	}
	if !s.movable() {
		errs = append(errs, errors.New("shadow: it needs a socket of its own, which the signal cannot have (fixed_app, or its socket's name is too long)"))
	}
	if s.Shadow.PromoteAfter < 0 || s.Shadow.PromoteAfter > maxPromotion {
		errs = append(errs, fmt.Errorf("shadow: promote_after %d: want 0 to %d ticks", s.Shadow.PromoteAfter, maxPromotion))
	}
	if t := s.Shadow.Tolerance; !(t >= 0) || math.IsInf(t, 0) {
		errs = append(errs, fmt.Errorf("shadow: tolerance %v: want a fraction of at least 0", t))
	}
	return errors.Join(errs...)
}
