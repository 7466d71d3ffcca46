package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Shown is the bucket's record of a release.
type Shown struct {
	Manifest  Manifest  `json:"manifest"`
	Signature Signature `json:"signature"`
	Yanked    *Yanked   `json:"yanked,omitempty"` // nil: not yanked
}

// Show returns the bucket's record of a release, without its files, and checks the signature against the trusted keys.
// A yank or a bad signature is not an error. Other errors are ErrNotFound and ErrCorrupt.
func Show(ctx context.Context, b Bucket, ref Ref, platform Platform, trust Trust) (Shown, error) {
	w, err := readBucketRecord(ctx, b, ref, platform, retryTimeout(defaultRetryTimeout))
	if err != nil {
		return Shown{}, fmt.Errorf("show %s: %w", ref, err)
	}
	signature, _ := trust.judge(w.manifest, w.Raw, w.Signature)
	return Shown{Manifest: w.manifest, Signature: signature, Yanked: w.Yanked}, nil
}

// Check is one check of Verify.
type Check struct {
	Name   string `json:"check"` // manifest, yank, signature, archive, files
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // the finding or the problem
	Err    error  `json:"-"`      // nil if OK
}

// Report is the result of Verify. Checks that an earlier failure prevents are missing.
type Report struct {
	Ref      Ref      `json:"ref"`
	Platform Platform `json:"platform"`
	Checks   []Check  `json:"checks"`
}

// Err joins the problems. It is nil if the release may run.
func (r Report) Err() error {
	var errs []error
	for _, c := range r.Checks {
		errs = append(errs, c.Err)
	}
	return errors.Join(errs...)
}

func (r *Report) addCheck(name string, err error, detail string) {
	if err != nil {
		detail = err.Error()
	}
	r.Checks = append(r.Checks, Check{Name: name, OK: err == nil, Detail: detail, Err: err})
}

// Verify downloads a release, checks everything that Fetch checks, and stores nothing. The error means that the checks
// could not be completed. Problems of the release are in the report.
func Verify(ctx context.Context, b Bucket, ref Ref, platform Platform, trust Trust) (Report, error) {
	report := Report{Ref: ref, Platform: platform}
	w, err := readBucketRecord(ctx, b, ref, platform, retryTimeout(defaultRetryTimeout))
	if errors.Is(err, ErrCorrupt) {
		report.addCheck("manifest", err, "")
		return report, nil
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify %s: %w", ref, err)
	}
	report.addCheck("manifest", nil, fmt.Sprintf("%d files, %d bytes", len(w.manifest.Files), w.manifest.unpacked()))
	if w.Yanked != nil {
		report.addCheck("yank", w.Yanked.err(), "")
	} else {
		report.addCheck("yank", nil, "not yanked")
	}
	report.addCheck("signature", trust.admit(w.manifest, w.Raw, w.Signature), trust.describe(w))
	if err := report.checkArchive(ctx, b, w.manifest); err != nil {
		return Report{}, fmt.Errorf("verify %s: %w", ref, classifyLocal(err))
	}
	return report, nil
}

func (t Trust) describe(w bucketRecord) string {
	signature, _ := t.judge(w.manifest, w.Raw, w.Signature)
	switch signature.State {
	case SignatureNone:
		return "not signed, and no signature is required"
	case SignatureTrusted:
		return "signed by key " + signature.KeyID + ", which is trusted"
	}
	return "signed by key " + signature.KeyID + ", not checked: no key is trusted"
}

// checkArchive downloads and unpacks the release in a temporary folder. The error is not a problem of the release.
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
	err = t.run(ctx, retryTimeout(defaultRetryTimeout))
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) {
		return err
	}
	r.addCheck("archive", err, fmt.Sprintf("%d bytes, sha256 %v", m.Object.Size, m.Object.SHA256))
	if err != nil {
		return nil
	}
	err = unpackInto(ctx, filepath.Join(temp, "files"), object, m)
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsafe) {
		return err
	}
	r.addCheck("files", err, "all match the manifest")
	return nil
}
