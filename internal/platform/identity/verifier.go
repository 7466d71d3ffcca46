package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// Request is the input of a verifier. The agent has signed the nonce with its key.
type Request struct {
	Statement
	Proof json.RawMessage
}

// Identity is what a proof proves.
type Identity struct {
	Pool string
	Node string
}

// Verifier checks proofs of one form.
type Verifier interface {
	// Verify returns the proven identity. Its error is a *Refusal, or the end of ctx.
	Verify(ctx context.Context, r Request) (Identity, error)
}

// Prover makes proofs of one form, for one agent.
type Prover interface {
	// Prove returns the proof as a JSON value. It runs within the server's time limit for a
	// connection: it must not start long requests.
	Prove(ctx context.Context, s Statement) (any, error)
}

// Kind describes a verifier.
type Kind struct {
	Key   string // below auth.verifiers and identity in weir.yaml, and in tokens
	About string // what proves the identity, in a few words
	// NewVerifier and NewProver return pointers to empty structs with yaml tags. The
	// configuration decodes the key's value into them and rejects unknown keys.
	NewVerifier func() Settings
	NewProver   func() Settings
	// Open returns the verifier of "weir auth".
	Open func(ctx context.Context, s Site) (Verifier, error)
	// Prove returns the prover of an agent. The context bounds this call only.
	Prove func(ctx context.Context, s Settings) (Prover, error)
}

// Settings is the decoded value of a kind's key.
type Settings interface {
	// Check returns each mistake of the value. Key is the path below the kind's key.
	Check() strictyaml.Problems
}

// Site is the input of Kind.Open.
type Site struct {
	Settings  Settings // from NewVerifier
	Instances Instances
	Bindings  Bindings
	Log       *slog.Logger
}

// Instances finds machines at the providers of the cluster's pools.
type Instances interface {
	// Known returns the pool and the launch time of an instance. For an instance that no pool
	// has, the error is ErrUnknownInstance. Any other error means that this is unknown now.
	Known(ctx context.Context, instance string) (pool string, launched time.Time, err error)
}

// Bindings keeps the public key of each node durably.
type Bindings interface {
	// Bound returns the key of a node; empty without a binding.
	Bound(ctx context.Context, node string) (key string, err error)
	// Bind binds the node to the key unless it has a binding. It returns the key that is bound
	// after the call.
	Bind(ctx context.Context, node, key string) (bound string, err error)
}

// Reason is the class of a refusal. The values are labels of a metric.
type Reason string

// Reasons of refusals.
const (
	Malformed       Reason = "malformed"        // the token, its proof or its size
	Unsigned        Reason = "unsigned"         // the nkey did not sign the server's nonce
	UnknownVerifier Reason = "unknown_verifier" // the configuration has no such verifier
	Forged          Reason = "forged"           // the proof does not match its signature
	Stale           Reason = "stale"            // the proof or the machine is too old
	Stolen          Reason = "stolen"           // the node is bound to another key
	ForeignAccount  Reason = "foreign_account"  // account, region or role is not allowed
	WrongName       Reason = "wrong_name"       // the proof is of another cluster, pool or node
	UnknownInstance Reason = "unknown_instance" // no provider of a pool has the machine
	Unavailable     Reason = "unavailable"      // a part that the check needs did not answer
	Overload        Reason = "overload"         // too many connections at once, or too late
)

// Reasons returns all reasons, in the order of metrics and texts.
func Reasons() []Reason {
	return []Reason{Malformed, Unsigned, UnknownVerifier, Forged, Stale, Stolen, ForeignAccount, WrongName, UnknownInstance, Unavailable, Overload}
}

// Refusal is the error of a refused connection.
type Refusal struct {
	Reason Reason
	What   string // the problem; one line
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.What }

// Refuse returns a Refusal.
func Refuse(reason Reason, format string, args ...any) error {
	return &Refusal{Reason: reason, What: fmt.Sprintf(format, args...)}
}
