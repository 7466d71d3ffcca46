package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Shown is what the bucket says of a release.
type Shown struct {
	Manifest  Manifest  `json:"manifest"`
	Signature Signature `json:"signature"`
	Yanked    *Yanked   `json:"yanked,omitempty"` // nil: it is not
}

// Show returns what the bucket says of a release, without its files; the
// signature is judged by the trusted keys. A yank or a bad signature is no error
// here. ErrNotFound, ErrCorrupt.
func Show(ctx context.Context, b Bucket, ref Ref, platform Platform, trust Trust) (Shown, error) {
	w, err := readWord(ctx, b, ref, platform, patience(DefaultPatience))
	if err != nil {
		return Shown{}, fmt.Errorf("show %s: %w", ref, err)
	}
	signature, _ := trust.judge(w.manifest, w.Raw, w.Signature)
	return Shown{Manifest: w.manifest, Signature: signature, Yanked: w.Yanked}, nil
}

// Check is one thing that Verify looked at.
type Check struct {
	Name   string `json:"check"` // manifest, yank, signature, archive, files
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what was found, or what is wrong
	Err    error  `json:"-"`      // nil if OK
}

// Report is what Verify found. What could not be looked at, because something
// before it is wrong, is missing.
type Report struct {
	Ref      Ref      `json:"ref"`
	Platform Platform `json:"platform"`
	Checks   []Check  `json:"checks"`
}

// Err joins what is wrong; nil if the release would be run.
func (r Report) Err() error {
	var errs []error
	for _, c := range r.Checks {
		errs = append(errs, c.Err)
	}
	return errors.Join(errs...)
}

func (r *Report) add(name string, err error, detail string) {
	if err != nil {
		detail = err.Error()
	}
	r.Checks = append(r.Checks, Check{Name: name, OK: err == nil, Detail: detail, Err: err})
}

// Verify downloads a release, checks everything that Fetch would, and keeps
// nothing. The error is that the question could not be answered; that the
// release is not fit to be run is the report's.
func Verify(ctx context.Context, b Bucket, ref Ref, platform Platform, trust Trust) (Report, error) {
	report := Report{Ref: ref, Platform: platform}
	w, err := readWord(ctx, b, ref, platform, patience(DefaultPatience))
	if errors.Is(err, ErrCorrupt) {
		report.add("manifest", err, "")
		return report, nil
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify %s: %w", ref, err)
	}
	report.add("manifest", nil, fmt.Sprintf("%d files, %d bytes", len(w.manifest.Files), w.manifest.unpacked()))
	if w.Yanked != nil {
		report.add("yank", w.Yanked.err(), "")
	} else {
		report.add("yank", nil, "not yanked")
	}
	report.add("signature", trust.admit(w.manifest, w.Raw, w.Signature), trust.describe(w))
	if err := report.checkArchive(ctx, b, w.manifest); err != nil {
		return Report{}, fmt.Errorf("verify %s: %w", ref, classifyLocal(err))
	}
	return report, nil
}

func (t Trust) describe(w word) string {
	signature, _ := t.judge(w.manifest, w.Raw, w.Signature)
	switch signature.State {
	case SignatureNone:
		return "not signed, and no signature is required"
	case SignatureTrusted:
		return "signed by key " + signature.KeyID + ", which is trusted"
	}
	return "signed by key " + signature.KeyID + ", not checked: no key is trusted"
}

// checkArchive downloads and unpacks the release in a folder of its own. The
// error is of the way there, not of the release.
func (r *Report) checkArchive(ctx context.Context, b Bucket, m Manifest) error {
	temp, err := os.MkdirTemp("", "weir-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	object, err := os.Create(filepath.Join(temp, "object"))
	if err != nil {
		return err
	}
	defer object.Close()
	t := newTransfer(b, m, object, func(int64, int64) {})
	err = t.run(ctx, patience(DefaultPatience))
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) {
		return err
	}
	r.add("archive", err, fmt.Sprintf("%d bytes, sha256 %v", m.Object.Size, m.Object.SHA256))
	if err != nil {
		return nil
	}
	err = unpackInto(ctx, filepath.Join(temp, "files"), object, m)
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsafe) {
		return err
	}
	r.add("files", err, "each as the manifest says")
	return nil
}
