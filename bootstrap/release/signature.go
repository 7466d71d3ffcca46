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

// Trust says whose releases are run.
type Trust struct {
	// Keys are trusted: a release that is signed has to be signed by one of
	// them. Without keys signatures are not looked at.
	Keys []minisign.PublicKey
	// Required refuses a release without a signature.
	Required bool
}

// Validate wants keys where signatures are required.
func (t Trust) Validate() error {
	if t.Required && len(t.Keys) == 0 {
		return errors.New("signatures are required, but no key is trusted: nothing could be run")
	}
	return nil
}

// SignatureState is what is known of a release's signature.
type SignatureState string

const (
	SignatureNone      SignatureState = "none"      // the release is not signed
	SignatureTrusted   SignatureState = "trusted"   // by a trusted key, over these bytes
	SignatureUntrusted SignatureState = "untrusted" // by another key: it says nothing
	SignatureBad       SignatureState = "bad"       // damaged, or over other bytes
)

// Signature is what a release's signature says.
type Signature struct {
	State SignatureState `json:"state"`
	KeyID string         `json:"key_id,omitempty"` // of the key that signed, as the signature claims
}

// judge compares a signature, nil for none, with the manifest that it is of. The
// error says why a signature is not trusted: ErrUntrusted, ErrBadSignature.
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
		verdict.State = SignatureBad // but another key may have the same id
	}
	if verdict.State == SignatureBad {
		return verdict, fmt.Errorf("%w: key %s, which is trusted, did not sign this manifest as that of %s for %s",
			ErrBadSignature, verdict.KeyID, m.Ref, m.Platform)
	}
	return verdict, fmt.Errorf("%w: signed by key %s, trusted: %s", ErrUntrusted, verdict.KeyID, t.ids())
}

// admit reports why a release must not be run: ErrUnsigned, ErrUntrusted,
// ErrBadSignature. Where signatures are not required, one that is there counts
// all the same if there are trusted keys: who claims to be somebody must be.
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

// decodeSignature reads a signature object: ErrBadSignature.
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

// sign returns the signature object of a manifest. The same key gives the same
// bytes.
func sign(key minisign.PrivateKey, m Manifest, raw []byte) ([]byte, error) {
	r := minisign.NewReader(bytes.NewReader(raw)) // signs the hash, as minisign itself does
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, err
	}
	return r.SignWithComments(key, trustedComment(m), "signature of a Weirkeeper release by key "+keyfile.FormatID(key.ID())), nil
}

// trustedComment is the signed comment: it binds the signature to what the
// manifest is of, for people with a minisign of their own too.
func trustedComment(m Manifest) string { return commentPrefix(m) + m.Created.Format(time.RFC3339Nano) }

func commentPrefix(m Manifest) string {
	return fmt.Sprintf("release %s for %s, created ", m.Ref, m.Platform)
}

// createdBy returns the time of publishing that a signature was made for.
func createdBy(m Manifest, s minisign.Signature) (time.Time, error) {
	text, ok := strings.CutPrefix(s.TrustedComment, commentPrefix(m))
	if !ok {
		return time.Time{}, fmt.Errorf("%w: its comment is %.200q", ErrBadSignature, s.TrustedComment)
	}
	return time.Parse(time.RFC3339Nano, text)
}
