package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
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
}

// attempt makes the proofs of one connection. It has one caller at a time.
type attempt struct {
	*Login
	token string // of the newest attempt
}

// Setting returns the key in weir.yaml of the proof.
func (l *Login) Setting() string { return "identity." + l.Verifier }

// Apply adds the login to the options of a connection. The connection is tried without end, also
// after a refusal: at most once at each server in 5 to 7 seconds.
func (l *Login) Apply(o *nats.Options) error {
	public, err := l.Key.PublicKey()
	if err != nil {
		return fmt.Errorf("use the agent's nkey: %w", err)
	}
	a := &attempt{Login: l}
	o.Nkey, o.SignatureCB, o.TokenHandler = public, a.sign, a.made
	o.IgnoreAuthErrorAbort, o.RetryOnFailedConnect = true, true
	o.MaxReconnect = -1
	o.ReconnectWait, o.ReconnectJitter, o.ReconnectJitterTLS = reconnectWait, reconnectJitter, reconnectJitter
	o.Timeout = max(o.Timeout, connectTimeout)
	return nil
}

// sign signs the server's nonce and makes the token of the same attempt.
func (l *attempt) sign(nonce []byte) ([]byte, error) {
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
	l.token = token
	return l.Key.Sign(nonce)
}

// made returns the token of the attempt. nats.go calls it after sign, on the same goroutine.
func (l *attempt) made() string { return l.token }

// KeyFile returns the path of a node's nkey in the data folder.
func KeyFile(data, node string) string { return filepath.Join(data, "identity", node+".nk") }

// OpenKey returns the nkey of a node. At the first start it creates the key in the data folder, in
// a file that only its owner may read.
func OpenKey(data, node string) (nkeys.KeyPair, error) {
	path := KeyFile(data, node)
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
