package release

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"aead.dev/minisign"

	"github.com/weirkeeper/weirkeeper/bootstrap/release/keyfile"
)

const (
	signatureName = manifestName + ".minisig"
	maxSignature  = 4 << 10 // bytes of a signature object
)

// Trust defines whose releases may run.
type Trust struct {
	// Keys are the trusted keys. If there are any, a signed release must be signed by one of them. Without keys,
	// signatures are ignored.
	Keys []minisign.PublicKey
	// Required rejects releases without a signature.
	Required bool
}

// Validate returns an error if signatures are required and there are no keys.
func (t Trust) Validate() error {
	if t.Required && len(t.Keys) == 0 {
		return errors.New("signatures are required, but no key is trusted: no release could run; configure a trusted key")
	}
	return nil
}

// SignatureState is the result of checking a release's signature.
type SignatureState string

const (
	SignatureNone      SignatureState = "none"      // the release is not signed
	SignatureTrusted   SignatureState = "trusted"   // by a trusted key, over these bytes
	SignatureUntrusted SignatureState = "untrusted" // by another key; not verified
	SignatureBad       SignatureState = "bad"       // damaged, or over other bytes
)

// Signature describes a release's signature.
type Signature struct {
	State SignatureState `json:"state"`
	KeyID string         `json:"key_id,omitempty"` // of the signing key, as the signature claims
}

// judge compares a signature, nil for none, with its manifest. The error is ErrUntrusted or ErrBadSignature.
func (t Trust) judge(m Manifest, raw, signature []byte) (Signature, error) {
	if signature == nil {
		return Signature{State: SignatureNone}, nil
	}
	s, err := decodeSignature(signature)
	if err != nil {
		return Signature{State: SignatureBad}, err
	}
	verdict := Signature{State: SignatureUntrusted, KeyID: keyfile.FormatID(s.KeyID)}
	for _, key := range t.Keys {
		if key.ID() != s.KeyID {
			continue
		}
		if minisign.Verify(key, raw, signature) && s.TrustedComment == trustedComment(m) {
			verdict.State = SignatureTrusted
			return verdict, nil
		}
		verdict.State = SignatureBad // another key may have the same id
	}
	if verdict.State == SignatureBad {
		return verdict, fmt.Errorf("%w: key %s, which is trusted, did not sign this manifest as that of %s for %s",
			ErrBadSignature, verdict.KeyID, m.Ref, m.Platform)
	}
	return verdict, fmt.Errorf("%w: signed by key %s, trusted: %s", ErrUntrusted, verdict.KeyID, t.ids())
}

// admit returns why a release must not run: ErrUnsigned, ErrUntrusted or ErrBadSignature. If there are trusted keys, an
// optional signature must be valid too.
func (t Trust) admit(m Manifest, raw, signature []byte) error {
	if signature == nil && t.Required {
		return fmt.Errorf("%w, and a signature is required; trusted: %s", ErrUnsigned, t.ids())
	}
	if len(t.Keys) == 0 {
		return nil
	}
	_, err := t.judge(m, raw, signature)
	return err
}

func (t Trust) ids() string {
	if len(t.Keys) == 0 {
		return "no key"
	}
	names := make([]string, len(t.Keys))
	for i, key := range t.Keys {
		names[i] = keyfile.FormatID(key.ID())
	}
	return strings.Join(names, ", ")
}

// decodeSignature decodes a signature object, or returns ErrBadSignature.
func decodeSignature(data []byte) (minisign.Signature, error) {
	var s minisign.Signature
	if len(data) > maxSignature {
		return s, fmt.Errorf("%w: it is larger than %d bytes", ErrBadSignature, maxSignature)
	}
	if err := s.UnmarshalText(data); err != nil {
		return s, fmt.Errorf("%w: %w", ErrBadSignature, err)
	}
	return s, nil
}

// sign returns the signature object of a manifest. The same key produces the same bytes.
func sign(key minisign.PrivateKey, m Manifest, raw []byte) ([]byte, error) {
	r := minisign.NewReader(bytes.NewReader(raw)) // signs the hash, as minisign does
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, err
	}
	return r.SignWithComments(key, trustedComment(m), "signature of a Weirkeeper release by key "+keyfile.FormatID(key.ID())), nil
}

// trustedComment returns the signed comment. It binds the signature to the release, also for users of the minisign
// tool.
func trustedComment(m Manifest) string { return commentPrefix(m) + m.Created.Format(time.RFC3339Nano) }

func commentPrefix(m Manifest) string {
	return fmt.Sprintf("release %s for %s, created ", m.Ref, m.Platform)
}

// createdBy returns the publishing time in a signature.
func createdBy(m Manifest, s minisign.Signature) (time.Time, error) {
	text, ok := strings.CutPrefix(s.TrustedComment, commentPrefix(m))
	if !ok {
		return time.Time{}, fmt.Errorf("%w: its comment is %.200q", ErrBadSignature, s.TrustedComment)
	}
	return time.Parse(time.RFC3339Nano, text)
}
