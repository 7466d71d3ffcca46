package release_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// refusals are the sentinels that a command line distinguishes.
var refusals = map[string]error{
	"not found": release.ErrNotFound, "corrupt": release.ErrCorrupt, "unsafe": release.ErrUnsafe,
	"unsigned": release.ErrUnsigned, "untrusted": release.ErrUntrusted, "bad signature": release.ErrBadSignature,
	"yanked": release.ErrYanked, "no space": release.ErrNoSpace, "unavailable": release.ErrUnavailable,
	"exists": release.ErrExists, "changed": release.ErrChanged,
}

// classes returns the names of the sentinels that an error wraps.
func classes(err error) (found []string) {
	for name, sentinel := range refusals {
		if errors.Is(err, sentinel) {
			found = append(found, name)
		}
	}
	return found
}

// Each attack on the chain from publisher to process has its own error, from Fetch and from Verify. Nothing is
// installed, and the running version stays. TestFetchWithoutSpace covers a full disk.
func TestSupplyChain(t *testing.T) {
	server, b := startBucket(t)
	ours, signer := newKey(t)
	_, stranger := newKey(t)
	trust := release.Trust{Required: true}
	trust.Keys = append(trust.Keys, ours)
	ref := func(version string) release.Ref {
		return release.Ref{Namespace: v1.Namespace, Name: v1.Name, Version: version}
	}
	behind := func(m release.Manifest, change func([]byte) []byte) {
		path := server.Path(bucketName, "some/prefix/"+objectKey(m, m.Object.Name))
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(data), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	flip := func(d []byte) []byte { d = bytes.Clone(d); d[len(d)/2] ^= 1; return d }
	half := func(d []byte) []byte { return d[:len(d)/2] }

	dir := t.TempDir()
	c := openTrusting(t, dir, true, ours)
	publishSigned(t, b, v1, "the running version", signer)
	running, _ := mustFetch(t, c, b, v1)
	before := tree(t, dir)
	for _, tc := range []struct {
		version, want, fails string // the error, and the check that fails
		do                   func(ref release.Ref)
	}{
		{"not-published", "not found", "", func(release.Ref) {}},
		{"byte-flipped-on-disk", "corrupt", "archive", func(ref release.Ref) { behind(publishSigned(t, b, ref, "x", signer), flip) }},
		{"byte-flipped", "corrupt", "archive", func(ref release.Ref) {
			m := publishSigned(t, b, ref, "x", signer)
			rewriteObject(t, server, b, m, m.Object.Name, flip)
		}},
		{"file-swapped", "corrupt", "archive", func(ref release.Ref) {
			m := publishSigned(t, b, ref, "x", signer)
			rewriteObject(t, server, b, m, m.Object.Name, func([]byte) []byte {
				return tarred(t, []entry{{name: "run", body: "y", kind: tar.TypeReg}})
			})
		}},
		{"truncated-on-disk", "corrupt", "archive", func(ref release.Ref) { behind(publishSigned(t, b, ref, "x", signer), half) }},
		{"truncated", "corrupt", "archive", func(ref release.Ref) {
			m := publishSigned(t, b, ref, "x", signer)
			rewriteObject(t, server, b, m, m.Object.Name, half)
		}},
		{"manifest-no-json", "corrupt", "manifest", func(ref release.Ref) {
			rewriteObject(t, server, b, publishSigned(t, b, ref, "x", signer), "manifest.json", half)
		}},
		{"manifest-changed", "bad signature", "signature", func(ref release.Ref) {
			rewriteObject(t, server, b, publishSigned(t, b, ref, "x", signer), "manifest.json", func(d []byte) []byte {
				return bytes.Replace(d, []byte("2026-03-04"), []byte("2026-03-05"), 1)
			})
		}},
		{"signature-of-another-version", "bad signature", "signature", func(ref release.Ref) {
			data, err := os.ReadFile(server.Path(bucketName, "some/prefix/"+objectKey(running.Manifest, signatureObject)))
			if err != nil {
				t.Fatal(err)
			}
			rewriteObject(t, server, b, publishSigned(t, b, ref, "x", signer), signatureObject, func([]byte) []byte { return data })
		}},
		{"signature-removed", "unsigned", "signature", func(ref release.Ref) {
			removeObject(t, server, publishSigned(t, b, ref, "x", signer), signatureObject)
		}},
		{"wrong-key", "untrusted", "signature", func(ref release.Ref) { publishSigned(t, b, ref, "x", stranger) }},
		{"yanked", "yanked", "yank", func(ref release.Ref) {
			publishSigned(t, b, ref, "x", signer)
			if _, err := release.Yank(t.Context(), b, ref, linux, release.Yanked{Why: "it is wrong", At: today}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.version, func(t *testing.T) {
			tc.do(ref(tc.version))
			err := refusal(t, c, b, ref(tc.version))
			diff(t, "classes of the refusal", classes(err), []string{tc.want})
			if !strings.Contains(err.Error(), "s3://releases/some/prefix/shop/") {
				t.Errorf("Fetch = %v, want it to name the object", err)
			}
			after := tree(t, dir)
			for path, text := range after { // a yank is recorded
				if tc.want == "yanked" && strings.Contains(path, "/seen/") && strings.HasPrefix(text, `{"yanked":`) {
					delete(after, path)
				}
			}
			diff(t, "cache", after, before)

			report, err := release.Verify(t.Context(), b, ref(tc.version), linux, trust)
			if tc.fails == "" {
				diff(t, "classes of Verify", classes(err), []string{tc.want})
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "classes of the report", classes(report.Err()), []string{tc.want})
			for _, check := range report.Checks {
				if check.OK != (check.Name != tc.fails) || check.Detail == "" {
					t.Errorf("check %+v, want that %s fails", check, tc.fails)
				}
			}
		})
	}
	if _, entry := mustFetch(t, c, b, v1); entry != "the running version" {
		t.Errorf("the running version is %q", entry)
	}
}

func TestVerify(t *testing.T) {
	server, b := startBucket(t)
	ours, signer := newKey(t)
	publishSigned(t, b, v1, "x", signer)
	trust := release.Trust{Required: true}
	trust.Keys = append(trust.Keys, ours)
	report, err := release.Verify(t.Context(), b, v1, linux, trust)
	if err != nil || report.Err() != nil {
		t.Fatalf("Verify = %v, %v", report.Err(), err)
	}
	var got []string
	for _, check := range report.Checks {
		got = append(got, check.Name+": "+check.Detail[:min(9, len(check.Detail))])
	}
	diff(t, "checks", got, []string{"manifest: 1 files, ", "yank: not yanke", "signature: signed by", "archive: " + report.Checks[3].Detail[:9], "files: all match"})

	unsafe := release.Ref{Namespace: "bad", Name: "link", Version: "v1"}
	craft(t, b, unsafe, []entry{{name: "run", body: "x", kind: tar.TypeReg}, {name: "l", kind: tar.TypeSymlink, link: "/etc"}}, nil)
	if report, err := release.Verify(t.Context(), b, unsafe, linux, release.Trust{}); err != nil || !errors.Is(report.Err(), release.ErrUnsafe) {
		t.Errorf("Verify of an unsafe archive = %v, %v", report.Err(), err)
	}
	server.Kill()
	t.Run("cancelled", func(t *testing.T) {
		ctx := cancelled(t)
		if _, err := release.Verify(ctx, b, v1, linux, trust); err == nil {
			t.Error("Verify = nil, want an error")
		}
	})
}
