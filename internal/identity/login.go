package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/wholefile"
)

// Settings of an agent's connection. Two thousand agents must not connect again at once.
const (
	reconnectWait   = 5 * time.Second
	reconnectJitter = 2 * time.Second
	connectTimeout  = 5 * time.Second // longer than the server's own limit for a connection
	proveTimeout    = time.Second     // the server's limit runs meanwhile
)

// Login makes a new proof for each connection of one agent.
type Login struct {
	Claim
	Verifier string // key of the Kind of Prover
	Prover   Prover
	Key      nkeys.KeyPair
	Log      *slog.Logger

	mu       sync.Mutex
	token    string // for the connection attempt under way
	attempts int    // since the last connection
}

// Apply adds the login to the options of a connection. The connection is tried without end, also
// after a refusal: at most once at each server in 5 to 7 seconds.
func (l *Login) Apply(o *nats.Options) error {
	public, err := l.Key.PublicKey()
	if err != nil {
		return fmt.Errorf("use the agent's nkey: %w", err)
	}
	o.Nkey, o.SignatureCB, o.TokenHandler = public, l.sign, l.made
	o.IgnoreAuthErrorAbort, o.RetryOnFailedConnect = true, true
	o.MaxReconnect = -1
	o.ReconnectWait, o.ReconnectJitter, o.ReconnectJitterTLS = reconnectWait, reconnectJitter, reconnectJitter
	o.Timeout = max(o.Timeout, connectTimeout)
	o.ConnectedCB, o.ReconnectedCB = l.connected(o.ConnectedCB), l.connected(o.ReconnectedCB)
	if report := o.AsyncErrorCB; report != nil {
		o.AsyncErrorCB = func(nc *nats.Conn, sub *nats.Subscription, err error) { report(nc, sub, Explain(err)) }
	}
	return nil
}

// connected returns a handler that ends the count of attempts.
func (l *Login) connected(then nats.ConnHandler) nats.ConnHandler {
	return func(nc *nats.Conn) {
		l.mu.Lock()
		l.attempts = 0
		l.mu.Unlock()
		if then != nil {
			then(nc)
		}
	}
}

// Explain adds the remedy to the error of a refused connection. A server does not pass on why
// "weir auth" refuses.
func Explain(err error) error {
	switch text := strings.ToLower(err.Error()); {
	case strings.Contains(text, "nkeys not supported"):
		return fmt.Errorf("%w: the server sends no nonce: add a user with an nkey to its configuration", err)
	case errors.Is(err, nats.ErrAuthorization), strings.Contains(text, "authorization violation"):
		return fmt.Errorf(`%w: the identity is refused: the log of "weir auth" has the reason`, err)
	case errors.Is(err, nats.ErrAuthExpired), strings.Contains(text, "authentication timeout"), strings.Contains(text, "expected 'pong'"):
		return fmt.Errorf(`%w: the server has no answer from "weir auth": check that it runs`, err)
	case strings.Contains(text, "maximum control line"):
		return fmt.Errorf("%w: the identity token is too long for the server: raise its max_control_line", err)
	}
	return err
}

// sign signs the server's nonce and makes the token of the same attempt.
func (l *Login) sign(nonce []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), proveTimeout)
	defer cancel()
	public, err := l.Key.PublicKey()
	if err != nil {
		return nil, err
	}
	if !validNonce(string(nonce)) {
		return nil, fmt.Errorf("prove identity of node %s: the server sent no valid nonce", l.Node)
	}
	proof, err := l.Prover.Prove(ctx, Statement{Claim: l.Claim, Key: public, Nonce: string(nonce), Now: time.Now()})
	if err != nil {
		return nil, fmt.Errorf("prove identity of node %s by %s: %w", l.Node, l.Verifier, err)
	}
	data, err := json.Marshal(proof)
	if err != nil {
		return nil, fmt.Errorf("prove identity of node %s by %s: %w", l.Node, l.Verifier, err)
	}
	token, err := Token{Verifier: l.Verifier, Claim: l.Claim, Proof: data}.Encode()
	if err != nil {
		return nil, err
	}
	l.begin(token)
	return l.Key.Sign(nonce)
}

// begin stores the token of an attempt. The client library reports only some of the failed attempts, so begin logs
// those before this one.
func (l *Login) begin(token string) {
	l.mu.Lock()
	l.token = token
	failed := l.attempts
	l.attempts++
	l.mu.Unlock()
	if failed > 0 {
		l.Log.Warn("identity not accepted", "node", l.Node, "pool", l.Pool, "verifier", l.Verifier, "attempts", failed,
			"help", `the log of "weir auth" has the reason`)
	}
}

// made returns the token of the attempt. nats.go calls it after sign, on the same goroutine.
func (l *Login) made() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// OpenKey returns the nkey of a node. At the first start it creates the key in the data folder, in
// a file that only its owner may read.
func OpenKey(data, node string) (nkeys.KeyPair, error) {
	path := filepath.Join(data, "identity", node+".nk")
	seed, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("agent's nkey: %w", err)
	}
	return ParseSeed(path, seed, nkeys.PrefixByteUser)
}

func createKey(path string) (nkeys.KeyPair, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("create the agent's nkey: %w", err)
	}
	seed, err := pair.Seed()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = wholefile.Write(path, append(seed, '\n'))
	}
	if err != nil {
		return nil, fmt.Errorf("create the agent's nkey: %w", err)
	}
	return pair, nil
}

// ReadSeed reads the seed of an nkey from a file that only its owner may read.
func ReadSeed(path string, want nkeys.PrefixByte) (nkeys.KeyPair, error) {
	data, err := ReadSecret(path)
	if err != nil {
		return nil, err
	}
	return ParseSeed(path, data, want)
}

// ParseSeed reads the seed of an nkey. The errors name path, and never the seed.
func ParseSeed(path string, data []byte, want nkeys.PrefixByte) (nkeys.KeyPair, error) {
	data = bytes.TrimSpace(data)
	prefix, _, err := nkeys.DecodeSeed(data)
	if err != nil || prefix != want {
		return nil, fmt.Errorf("read %s: it is not the seed of an nkey of type %s: want one line that begins with S%c", path, want, want.String()[0]-'a'+'A')
	}
	return nkeys.FromSeed(data)
}
