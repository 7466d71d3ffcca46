// Package provider describes a provider of machines by one value, a [Kind]: the keys that select
// its groups in a pool file, its abilities for node health, and how to open it. internal/config/providers
// lists the kinds. The configuration, the check of a node-health policy and the daemons read that
// list. None of them names a provider.
//
// A Kind does not change, so it may be read concurrently.
package provider

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Kind describes one provider.
type Kind struct {
	Name string // for people: "AWS"
	// Selectors are the keys of an entry of resource_groups that select groups of this provider.
	// Each key belongs to one kind.
	Selectors []Selector
	// Networks are the CIDR ranges of its machines besides private networks. A poll_url may lead
	// there unless the pool file names networks.
	Networks []string
	// Environment is the prefix of the variables that Open reads, such as "AWS_". The process of a
	// pool receives them. Empty: Open reads none.
	Environment string
	// Owner names the process of Weirkeeper runs the machines, and how to start it. Bootstrap logs it when it loads a
	// pool. Empty: the machines need no process of Weirkeeper.
	Owner string
	// Denied is what a person does if the provider denies a right, and Unread if its groups cannot be read. They are sentences for
	// "weir doctor", without a capital letter. Empty: a person checks the groups of the pool's file.
	Denied, Unread string
	// Open connects to the provider. The context bounds this call, not the lifetime of the
	// provider.
	Open func(ctx context.Context, s Site) (Opened, error)
}

// Selector is one key of an entry of resource_groups.
type Selector struct {
	Key   string // "asg"
	About string // what it selects, in a few words: "Auto Scaling groups of AWS"
	// New returns a pointer to an empty struct with yaml tags. The configuration decodes
	// the key's value into it and rejects unknown keys and values of another type.
	New func() Group
	// Can is what the provider can do for a node-health policy on these groups.
	Can judge.Abilities
	// Isolated lists the fences that the policy adds to Can.Fencing if it names an
	// isolation_security_group. Empty: the groups cannot use one.
	Isolated []judge.Level
}

// Group is the decoded value of a selector's key.
type Group interface {
	// Check returns each mistake of the value. In a problem, Key is the path below the selector's
	// key. What is the mistake and the valid values. The configuration adds line and file.
	Check() strictyaml.Problems
}

// Named is a [Group] that names one group instead of finding groups by a rule. The name is the
// value's key "name". The configuration checks that it is unique in the pool.
type Named interface {
	Group
	GroupName() string
}

// Sized is a [Named] group of equal machines whose size the file has.
type Sized interface {
	Named
	// Machines returns the kind of the machines. Room is their number at the maximum of the group.
	Machines() api.PlacesKind
}

// Site is the input of Kind.Open.
type Site struct {
	Cluster string
	Pool    string
	Groups  []Group // of the pool, each made by a Selector of the kind
	// Others returns the groups of the cluster's other pools, by pool. It reads files. The result
	// includes groups of other kinds.
	Others func() map[string][]Group
	// Isolation is the policy's isolation_security_group. Empty: the policy names none.
	Isolation string
	Account   Account
	Conn      *nats.Conn
	Now       func() time.Time // nil: time.Now
	Log       *slog.Logger
}

// Account is the cloud account, from the service file.
type Account struct {
	Region string
	// Endpoint returns the URL that replaces the cloud's own URL of a service. Empty: use the
	// cloud's own.
	Endpoint func(service string) string
	// Keys returns the current keys of access_key_file, both empty without such a file. Call it for
	// each request: keys are rotated.
	Keys func() (access, secret string, err error)
	// Events is the queue of the provider's warnings and lifecycle events. Empty: no queue is
	// configured.
	Events string
}

// Opened is a connected provider.
type Opened struct {
	pools.Provider
	// ReceiveNotices sends warnings and hints to two channels until its context ends. Either channel may be
	// nil. A nil ReceiveNotices means that the provider sends no notices here.
	ReceiveNotices func(ctx context.Context, warnings, hints chan<- pools.Notice) error
	// Console returns the last output of a machine of the pool, at most MaxConsole bytes. It
	// changes nothing. A nil Console means that the provider stores no output.
	Console func(ctx context.Context, instance string) ([]byte, error)
	// Rights tests the rights that the pool needs, without effect. repairs adds those of repairs in
	// place. A nil Rights means that the provider has no rights of its own.
	Rights func(ctx context.Context, repairs bool) ([]Right, error)
}

// Right is the result of the test of one right.
type Right struct {
	Action string // as in a policy
	Repair bool   // only repairs in place need it
	Result RightResult
	Why    string // why it is denied or untested
}

// RightResult is whether a right is granted. The zero value is untested.
type RightResult int

const (
	Untested RightResult = iota // it cannot be tested without effect, or the test failed
	Granted
	Denied
)

// MaxConsole bounds what Opened.Console returns, in bytes.
const MaxConsole = 64 << 10

// Find returns the kind and the selector of a key. ok is false for an unknown key.
func Find(kinds []Kind, key string) (k Kind, s Selector, ok bool) {
	for _, k := range kinds {
		if i := slices.IndexFunc(k.Selectors, func(s Selector) bool { return s.Key == key }); i >= 0 {
			return k, k.Selectors[i], true
		}
	}
	return Kind{}, Selector{}, false
}

// Abilities returns the abilities that groups of all of these selectors have in common. isolation
// means that the policy names an isolation_security_group.
func Abilities(selectors []Selector, isolation bool) judge.Abilities {
	var can judge.Abilities
	for i, s := range selectors {
		one := s.Can
		if isolation {
			one.Fencing = slices.Concat(one.Fencing, s.Isolated)
		}
		if i == 0 {
			can = one
			continue
		}
		can.Actions, can.Modes, can.Fencing = common(can.Actions, one.Actions), common(can.Modes, one.Modes), common(can.Fencing, one.Fencing)
		can.OwnsRepair = can.OwnsRepair && one.OwnsRepair
	}
	return can
}

func common[T comparable](a, b []T) []T {
	var both []T
	for _, x := range a {
		if slices.Contains(b, x) {
			both = append(both, x)
		}
	}
	return both
}

// Isolates reports whether groups of the kind can use an isolation_security_group.
func (k Kind) Isolates() bool {
	return slices.ContainsFunc(k.Selectors, func(s Selector) bool { return len(s.Isolated) > 0 })
}

// Describe returns on one line what the selector's groups are and what their provider can do.
func (s Selector) Describe() string {
	var repairs []api.RepairAction
	for _, a := range s.Can.Actions {
		if a != api.ActionWorkflow { // Workflow needs no provider
			repairs = append(repairs, a)
		}
	}
	text := fmt.Sprintf("%s: %s; repairs %s; fences %s", s.Key, s.About, words(repairs), words(slices.Concat(s.Can.Fencing, s.Isolated)))
	if s.Can.OwnsRepair {
		text += "; replaces unfit machines by itself"
	}
	return text
}

func words[T ~string](all []T) string {
	if len(all) == 0 {
		return "nothing"
	}
	texts := make([]string, len(all))
	for i, x := range all {
		texts[i] = string(x)
	}
	return strings.Join(texts, ", ")
}
