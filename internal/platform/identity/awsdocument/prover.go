package awsdocument

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

// proof is the proof's JSON value.
type proof struct {
	Document  []byte `json:"document"`  // as the metadata service returns it, in base64
	Signature []byte `json:"signature"` // in base64
}

// document has the parts of an identity document that the verifier uses. AWS adds other keys over time.
type document struct {
	Account  string `json:"accountId"`
	Region   string `json:"region"`
	Instance string `json:"instanceId"`
	Pending  string `json:"pendingTime"` // begin of the last start, RFC 3339
}

// prover has the document, which does not change while the machine runs.
type prover struct {
	proof    proof
	instance string
}

func newProver(ctx context.Context, s ProverSettings) (*prover, error) {
	client := imds.New(imds.Options{Endpoint: s.Endpoint})
	p := new(prover)
	var signature []byte
	for path, into := range map[string]*[]byte{"document": &p.proof.Document, "signature": &signature} {
		out, err := client.GetDynamicData(ctx, &imds.GetDynamicDataInput{Path: "instance-identity/" + path})
		if err != nil {
			return nil, fmt.Errorf("read the instance identity %s: %w; check that this is an EC2 machine with its metadata service on", path, err)
		}
		*into, err = io.ReadAll(io.LimitReader(out.Content, maxDocument+1))
		_ = out.Content.Close() // only read
		if err != nil || len(*into) > maxDocument {
			return nil, fmt.Errorf("read the instance identity %s: it is longer than %d bytes, or broken: %w", path, maxDocument, err)
		}
	}
	var d document
	if err := json.Unmarshal(p.proof.Document, &d); err != nil {
		return nil, fmt.Errorf("read the instance identity document: %w", err)
	}
	plain, err := base64.StdEncoding.DecodeString(string(bytes.ReplaceAll(bytes.TrimSpace(signature), []byte("\n"), nil)))
	if err != nil {
		return nil, fmt.Errorf("read the instance identity signature: %w", err)
	}
	p.proof.Signature, p.instance = plain, d.Instance
	return p, nil
}

// Prove implements identity.Prover.
func (p *prover) Prove(_ context.Context, s identity.Statement) (any, error) {
	if s.Node != p.instance {
		return nil, fmt.Errorf("this machine is instance %.40q and not %s: start the agent with --id %s", p.instance, s.Node, p.instance)
	}
	return p.proof, nil
}
