package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"pgregory.net/rapid"
)

func FuzzDecodeYanked(f *testing.F) {
	f.Add([]byte(`{"why": "too large", "at": "2026-03-04T05:06:07Z"}`))
	f.Add([]byte(`{"why": "a\nb"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		y, err := decodeYanked(data)
		if err != nil {
			if !isCorrupt(err) {
				t.Fatalf("DecodeYanked = %v, want ErrCorrupt", err)
			}
			return
		}
		again, err := json.Marshal(y)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeYanked(again); err != nil || back.Why != y.Why || !back.At.Equal(y.At) {
			t.Errorf("round trip of %v = %v, %v", y, back, err)
		}
	})
}

// Only a signature object of the key is trusted.
func FuzzJudge(f *testing.F) {
	public, private, err := minisign.GenerateKey(bytes.NewReader(make([]byte, 64)))
	if err != nil {
		f.Fatal(err)
	}
	m := validManifest()
	raw, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	good, err := sign(private, m, raw)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.Replace(good, []byte("v1"), []byte("v2"), 1))
	trust := Trust{Keys: []minisign.PublicKey{public}}
	want, err := decodeSignature(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		signature, err := trust.judge(m, raw, append([]byte{}, data...))
		if err == nil {
			if got, err := decodeSignature(data); err != nil || !got.Equal(want) || signature.State != SignatureTrusted {
				t.Errorf("judge trusts %q as %+v", data, signature)
			}
			return
		}
		if !errors.Is(err, ErrBadSignature) && !errors.Is(err, ErrUntrusted) {
			t.Errorf("judge = %v, want ErrBadSignature or ErrUntrusted", err)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	m := validManifest()
	raw, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	data, err := json.Marshal(bucketRecord{Raw: raw, Signature: []byte("s"), Yanked: &Yanked{Why: "x"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"manifest": "e30="}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := decodeRecord(data, m.Ref, m.Platform)
		if err == nil && (w.manifest.Ref != m.Ref || w.manifest.Validate() != nil) {
			t.Errorf("decodeRecord = %+v", w.manifest)
		}
		if err != nil && !isCorrupt(err) {
			t.Errorf("decodeRecord = %v, want ErrCorrupt", err)
		}
	})
}

func FuzzDecodeTarball(f *testing.F) {
	f.Add([]byte(`{"tag": "x", "files": [{"path": "a", "size": 1, "mode": "0755"}], "links": [{"path": "prodenv/bin/python", "target": "/usr/bin/python3"}]}`))
	f.Add([]byte(`{"links": [{"path": "a", "target": "../x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := decode[tarball](data, maxRecord, "")
		if err != nil && !isCorrupt(err) {
			t.Errorf("decode = %v, want ErrCorrupt", err)
		}
	})
}

// For any tarball, unpacked files stay in its folder, and only the entry's link leads out of it.
func FuzzUnpackVenv(f *testing.F) {
	f.Add(venvArchive(f, links{{"prodenv/bin/python", "/usr/bin/python3"}, {"l", "prodenv/bin"}}))
	f.Add(venvArchive(f, links{{"prodenv/bin/python", "python3"}, {"prodenv/bin/python3", "../../../x"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		object, err := os.Create(filepath.Join(parent, "object"))
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		if _, err := object.Write(data); err != nil {
			t.Fatal(err)
		}
		inside := filepath.Join(parent, "in")
		files, made, err := unpackVenv(t.Context(), inside, object, clustermanEntry)
		if entries, _ := os.ReadDir(parent); len(entries) != 2 {
			t.Errorf("beside the folder there are %v", entries)
		}
		if err != nil {
			return
		}
		if err := (Installed{Dir: inside, Manifest: Manifest{Files: files}, links: made}).verify(t.Context()); err != nil {
			t.Errorf("unpacked, but: %v", err)
		}
		checkInside(t, inside, made)
	})
}

// checkInside follows each link as the kernel does.
func checkInside(t interface {
	Errorf(format string, args ...any)
}, dir string, made links) {
	for _, one := range made {
		if filepath.IsAbs(one.Target) {
			continue
		}
		end, err := filepath.EvalSymlinks(filepath.Join(dir, one.Path))
		if err != nil || strings.HasPrefix(end, "/usr/") { // missing target, or the interpreter
			continue
		}
		if rel, err := filepath.Rel(dir, end); err != nil || !filepath.IsLocal(rel) {
			t.Errorf("link %v leads to %s", one, end)
		}
	}
}

// Accepted links stay inside even if they lead through each other.
func TestLinksStayInside(t *testing.T) {
	dir := t.TempDir()
	n := 0
	part := rapid.SampledFrom([]string{"..", "a", "b", "."})
	rapid.Check(t, func(t *rapid.T) {
		n++
		inside := filepath.Join(dir, strings.Repeat("d/", 3), string(rune('A'+n%26))+time.Duration(n).String())
		if err := os.MkdirAll(filepath.Join(inside, "a", "b"), 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(inside)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		all := links{}
		for _, p := range []string{"a/b/x", "a/x", "x"} {
			target := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "target"), "/") + rapid.SampledFrom([]string{"", "/x"}).Draw(t, "end")
			all = append(all, link{p, target})
		}
		if all.check("entry") != nil {
			return
		}
		if err := all.make(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		checkInside(t, inside, all)
	})
}

func TestTrustValidate(t *testing.T) {
	if err := (Trust{Required: true}).Validate(); err == nil {
		t.Error("Validate = nil, want an error: no key is trusted")
	}
	if err := (Trust{}).Validate(); err != nil {
		t.Errorf("Validate of none = %v", err)
	}
}

// venvArchive returns a tarball with these links and one file.
func venvArchive(t testing.TB, all links) []byte {
	t.Helper()
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	w := tar.NewWriter(gz)
	for _, one := range all {
		if err := w.WriteHeader(&tar.Header{Name: one.Path, Typeflag: tar.TypeSymlink, Linkname: one.Target}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "prodenv/pyvenv.cfg", Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
