package signaltest

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Target is a signal's program and the parameters of its test.
type Target struct {
	Path string   // of the executable
	Args []string // before NAMESPACE NAME APP: a script's path, if Path is its interpreter
	Env  []string // KEY=value, in addition to the environment of this process
	// App is the application argument of the signal; "app" if empty.
	App string
	// Hello contains the parameters that the signal needs, if any.
	Hello sigproto.Hello
	// Sample is a request that the signal can answer. Without one, the request contains common metrics. The signal may
	// have no opinion on them, and the test shows less.
	Sample sigproto.Evaluation
	// FixedApp: the signal uses its third argument for more than its socket, and its pool file has "distinct_app:
	// false". The check distinct_app does not apply.
	FixedApp bool
	Limits   Limits

	answers  *Answers          // counts the answers; nil: not counted
	limitsOf map[string]Limits // by check; others have Limits
}

// Limits bound how long a signal may take. A zero field means its default.
type Limits struct {
	Start  time.Duration // until it listens, as in bootstrap; 10 s
	Listen time.Duration // until the kit stops waiting; 30 s
	Answer time.Duration // for each step of an evaluation; 10 s
	Exit   time.Duration // from SIGTERM to its end, as in bootstrap; 2 s
	Rest   time.Duration // idle time between two evaluations; 3 s
}

// Validate returns every problem of the target.
func (t Target) Validate() error {
	var errs []error
	if t.Path == "" {
		errs = append(errs, errors.New("the path of the signal's program is empty"))
	}
	t = t.withDefaults()
	for _, limit := range []struct {
		name string
		is   time.Duration
	}{{"start", t.Limits.Start}, {"listen", t.Limits.Listen}, {"answer", t.Limits.Answer}, {"exit", t.Limits.Exit}, {"rest", t.Limits.Rest}} {
		if limit.is < 0 {
			errs = append(errs, fmt.Errorf("the limit %s is %v, want more than 0", limit.name, limit.is))
		}
	}
	longest := t.socketArgs()
	longest.app += "~1"
	if n := len(longest.address()); n > sigproto.MaxAddress {
		errs = append(errs, fmt.Errorf("app %.200q makes a socket address of %d bytes, at most %d are possible: shorten it", t.App, n, sigproto.MaxAddress))
	}
	if strings.ContainsRune(t.App, 0) {
		errs = append(errs, fmt.Errorf("app %q contains a NUL byte", t.App))
	}
	return errors.Join(errs...)
}

func (t Target) withDefaults() Target {
	t.App = cmp.Or(t.App, "app")
	t.Hello.Cluster = cmp.Or(t.Hello.Cluster, "test")
	t.Hello.Pool = cmp.Or(t.Hello.Pool, "test")
	t.Hello.Setpoint = cmp.Or(t.Hello.Setpoint, 0.7)
	t.Limits.Start = cmp.Or(t.Limits.Start, 10*time.Second)
	t.Limits.Listen = cmp.Or(t.Limits.Listen, 30*time.Second)
	t.Limits.Answer = cmp.Or(t.Limits.Answer, 10*time.Second)
	t.Limits.Exit = cmp.Or(t.Limits.Exit, 2*time.Second)
	t.Limits.Rest = cmp.Or(t.Limits.Rest, 3*time.Second)
	return t
}

// socketArgs are the three arguments that determine a signal's address.
type socketArgs struct{ namespace, name, app string }

// socketArgs returns arguments that are unique on this host.
func (t Target) socketArgs() socketArgs {
	return socketArgs{"signaltest", rand.Text()[:12], t.App}
}

func (w socketArgs) list() []string { return []string{w.namespace, w.name, w.app} }

func (w socketArgs) address() string { return sigproto.Address(w.namespace, w.name, w.app) }

// argv returns the arguments after the program's path.
func (t Target) argv(socketArgs ...string) []string { return slices.Concat(t.Args, socketArgs) }
