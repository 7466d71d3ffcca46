package release_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/keyfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
)

func newKey(t *testing.T) (minisign.PublicKey, *minisign.PrivateKey) {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, &private
}

func publishSigned(t *testing.T, b release.Bucket, ref release.Ref, content string, key *minisign.PrivateKey) release.Manifest {
	t.Helper()
	m, err := tryPublish(t, b, ref, content, key)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func tryPublish(t *testing.T, b release.Bucket, ref release.Ref, content string, key *minisign.PrivateKey) (release.Manifest, error) {
	t.Helper()
	return release.Publish(t.Context(), b, ref, linux, release.Source{
		Path: writeFolder(t, map[string]string{"run*": content}), Entry: "run", Created: today, Key: key,
	})
}

func openTrusting(t *testing.T, dir string, required bool, keys ...minisign.PublicKey) *release.Cache {
	t.Helper()
	c, err := release.OpenCache(t.Context(), release.Config{
		Dir: dir, Platform: linux, RetryTimeout: 2 * time.Second, Trust: release.Trust{Keys: keys, Required: required},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rewriteObject changes an object, as any process with write access to the bucket can.
func rewriteObject(t *testing.T, server *s3test.Server, b release.Bucket, m release.Manifest, object string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(server.Path(bucketName, "some/prefix/"+objectKey(m, object)))
	if err != nil {
		t.Fatal(err)
	}
	removeObject(t, server, m, object)
	put(t, b, objectKey(m, object), change(data))
}

func removeObject(t *testing.T, server *s3test.Server, m release.Manifest, object string) {
	t.Helper()
	if err := os.Remove(server.Path(bucketName, "some/prefix/"+objectKey(m, object))); err != nil {
		t.Fatal(err)
	}
}

const signatureObject = "manifest.json.minisig"

func TestSignatures(t *testing.T) {
	server, b := startBucket(t)
	ours, signer := newKey(t)
	second, _ := newKey(t)
	_, stranger := newKey(t)
	any := release.Trust{}
	lax := release.Trust{Keys: []minisign.PublicKey{second, ours}}
	strict := release.Trust{Keys: lax.Keys, Required: true}
	id := func(key *minisign.PrivateKey) string { return keyfile.FormatID(key.ID()) }

	for i, tc := range []struct {
		name                      string
		key                       *minisign.PrivateKey
		bend                      func(m release.Manifest)
		underAny, underLax, under error // what Fetch returns under each trust
		state                     release.SignatureState
		wantText                  []string
	}{
		{"signed", signer, nil, nil, nil, nil, release.SignatureTrusted, nil},
		{"unsigned", nil, nil, nil, nil, release.ErrUnsigned, release.SignatureNone, []string{id(signer)}},
		{
			"by an untrusted key", stranger, nil, nil, release.ErrUntrusted, release.ErrUntrusted, release.SignatureUntrusted,
			[]string{id(stranger), id(signer), keyfile.FormatID(second.ID())},
		},
		{"other manifest", signer, func(m release.Manifest) {
			rewriteObject(t, server, b, m, "manifest.json", func(d []byte) []byte { return bytes.Replace(d, []byte(`"entry"`), []byte(` "entry"`), 1) })
		}, nil, release.ErrBadSignature, release.ErrBadSignature, release.SignatureBad, []string{id(signer)}},
		{"garbage", signer, func(m release.Manifest) {
			rewriteObject(t, server, b, m, signatureObject, func(d []byte) []byte { return d[:len(d)/2] })
		}, nil, release.ErrBadSignature, release.ErrBadSignature, release.SignatureBad, nil},
		{"of another release", nil, func(m release.Manifest) {
			raw, err := os.ReadFile(server.Path(bucketName, "some/prefix/"+objectKey(m, "manifest.json")))
			if err != nil {
				t.Fatal(err)
			}
			put(t, b, objectKey(m, signatureObject), minisign.SignWithComments(*signer, raw, "release shop/x@v1 for linux-amd64, created then", ""))
		}, nil, release.ErrBadSignature, release.ErrBadSignature, release.SignatureBad, nil},
		{"far too long", signer, func(m release.Manifest) {
			rewriteObject(t, server, b, m, signatureObject, func(d []byte) []byte { return bytes.Repeat(d, 100) })
		}, nil, release.ErrBadSignature, release.ErrBadSignature, release.SignatureBad, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ref := release.Ref{Namespace: "signed", Name: "case", Version: string(rune('a' + i))}
			m := publishSigned(t, b, ref, tc.name, tc.key)
			if tc.bend != nil {
				tc.bend(m)
			}
			for _, under := range []struct {
				name  string
				trust release.Trust
				want  error
			}{{"any", any, tc.underAny}, {"lax", lax, tc.underLax}, {"strict", strict, tc.under}} {
				dir := t.TempDir()
				_, err := openTrusting(t, dir, under.trust.Required, under.trust.Keys...).Fetch(t.Context(), b, ref)
				if !errors.Is(err, under.want) || (under.want == nil && err != nil) {
					t.Errorf("Fetch, trust %s = %v, want %v", under.name, err, under.want)
				}
				if err == nil {
					continue
				}
				if cause, _, ok := strings.Cut(err.Error(), " (s3://"); !ok || !strings.Contains(cause, under.want.Error()) {
					t.Errorf("Fetch, trust %s = %v, want the cause before the URL", under.name, err)
				}
				for _, part := range append(tc.wantText, "manifest.json") {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("Fetch, trust %s = %v, want it to say %s", under.name, err, part)
					}
				}
				diff(t, "cache", tree(t, dir), map[string]string{"/lock": ""})
			}
			shown, err := release.Show(t.Context(), b, ref, linux, strict)
			if err != nil || shown.Signature.State != tc.state || shown.Yanked != nil {
				t.Errorf("Show = %+v, %v, want %s", shown, err, tc.state)
			}
		})
	}
}

// While the bucket is unavailable, the cached release's signature still counts.
func TestSignatureInTheCache(t *testing.T) {
	server, b := startBucket(t)
	ours, signer := newKey(t)
	other, _ := newKey(t)
	publishSigned(t, b, v1, "signed", signer)
	v2 := release.Ref{Namespace: v1.Namespace, Name: v1.Name, Version: "v2"}
	publishSigned(t, b, v2, "not signed", nil)
	dir := t.TempDir()
	c := openCache(t, dir)
	mustFetch(t, c, b, v1)
	mustFetch(t, c, b, v2)
	server.Kill()
	if in, entry := mustFetch(t, openTrusting(t, dir, true, ours), b, v1); in.BucketErr == nil || entry != "signed" {
		t.Errorf("Fetch = %q, away %v", entry, in.BucketErr)
	}
	if err := refusal(t, openTrusting(t, dir, true, ours), b, v2); !errors.Is(err, release.ErrUnsigned) {
		t.Errorf("Fetch of the unsigned = %v, want ErrUnsigned", err)
	}
	if err := refusal(t, openTrusting(t, dir, true, other), b, v1); !errors.Is(err, release.ErrUntrusted) {
		t.Errorf("Fetch under another trust = %v, want ErrUntrusted", err)
	}
}

func TestPublishSigned(t *testing.T) {
	server, b := startBucket(t)
	ours, signer := newKey(t)
	_, stranger := newKey(t)
	strict := func(t *testing.T) *release.Cache { return openTrusting(t, t.TempDir(), true, ours) }

	t.Run("stock minisign verifies it", func(t *testing.T) {
		m := publishSigned(t, b, release.Ref{Namespace: "p", Name: "stock", Version: "v1"}, "x", signer)
		folder := filepath.Dir(server.Path(bucketName, "some/prefix/"+objectKey(m, "manifest.json")))
		files := tree(t, folder)
		if !minisign.Verify(ours, []byte(files["/manifest.json"]), []byte(files["/"+signatureObject])) {
			t.Error("minisign.Verify = false")
		}
		if !strings.Contains(files["/"+signatureObject], "trusted comment: release p/stock@v1 for linux-amd64, created 2026-03-04T05:06:07Z\n") {
			t.Errorf("signature is\n%s", files["/"+signatureObject])
		}
	})
	t.Run("signature is added", func(t *testing.T) {
		ref := release.Ref{Namespace: "p", Name: "added", Version: "v1"}
		publishSigned(t, b, ref, "x", nil)
		publishSigned(t, b, ref, "x", signer)
		publishSigned(t, b, ref, "x", signer)
		mustFetch(t, strict(t), b, ref)
		if _, err := tryPublish(t, b, ref, "x", stranger); !errors.Is(err, release.ErrExists) {
			t.Errorf("Publish with another key = %v, want ErrExists", err)
		}
	})
	t.Run("a publisher that died", func(t *testing.T) {
		ref := release.Ref{Namespace: "p", Name: "died", Version: "v1"}
		m := publishSigned(t, b, ref, "x", signer)
		removeObject(t, server, m, "manifest.json")
		if _, err := release.ReadManifest(t.Context(), b, ref, linux); !errors.Is(err, release.ErrNotFound) {
			t.Fatalf("ReadManifest = %v, want ErrNotFound", err)
		}
		for name, try := range map[string]func() (release.Manifest, error){
			"other files": func() (release.Manifest, error) { return tryPublish(t, b, ref, "y", signer) },
			"other key":   func() (release.Manifest, error) { return tryPublish(t, b, ref, "x", stranger) },
			"no key":      func() (release.Manifest, error) { return tryPublish(t, b, ref, "x", nil) },
		} {
			if _, err := try(); !errors.Is(err, release.ErrExists) {
				t.Errorf("Publish with %s = %v, want ErrExists", name, err)
			}
		}
		again, err := release.Publish(t.Context(), b, ref, linux, release.Source{
			Path: writeFolder(t, map[string]string{"run*": "x"}), Entry: "run", Created: today.Add(time.Hour), Key: signer,
		})
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "manifest", again, m)
		mustFetch(t, strict(t), b, ref)
	})
	t.Run("race", func(t *testing.T) {
		ref := release.Ref{Namespace: "p", Name: "race", Version: "v1"}
		errs := make(chan error, 6)
		for i := range cap(errs) {
			go func() { _, err := tryPublish(t, b, ref, string(rune('a'+i)), signer); errs <- err }()
		}
		won := 0
		for range cap(errs) {
			if err := <-errs; err == nil {
				won++
			} else if !errors.Is(err, release.ErrExists) {
				t.Errorf("Publish = %v, want ErrExists", err)
			}
		}
		if won != 1 {
			t.Errorf("%d publishers won, want 1", won)
		}
		mustFetch(t, strict(t), b, ref)
	})
}
