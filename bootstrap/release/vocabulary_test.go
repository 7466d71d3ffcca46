package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestParseRef(t *testing.T) {
	for _, tc := range []struct {
		text string
		ok   bool
	}{
		{"shop/RequestsPerSecond@v1.4.0", true},
		{"a/b@feature/x+1", true},
		{"_a/instance_count@master", true},
		{"", false},
		{"shop/x", false},
		{"x@v1", false},
		{"shop/x@", false},
		{"/x@v1", false},
		{"a/b/c@v1", false},
		{"a/b@v1@v2", false},
		{"../b@v1", false},
		{"a/b@..", false},
		{"a/b@x/../y", false},
		{"a/b@/x", false},
		{"a/b@x/", false},
		{"a/b@x~y", false},
		{"a/b@-x", false},
		{"a/b@v 1", false},
		{"a/b@v1\n", false},
		{"ä/b@v1", false},
		{strings.Repeat("a", 65) + "/b@v1", false},
		{"a/b@" + strings.Repeat("1", 129), false},
	} {
		t.Run(tc.text, func(t *testing.T) {
			ref, err := ParseRef(tc.text)
			if (err == nil) != tc.ok {
				t.Fatalf("ParseRef(%q) = %v, want ok %v", tc.text, err, tc.ok)
			}
			if tc.ok && ref.String() != tc.text {
				t.Errorf("ParseRef(%q) = %v", tc.text, ref)
			}
		})
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("shop/web@v1.4.0")
	f.Add("a/b@feature/x")
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := ParseRef(text)
		if err != nil {
			return
		}
		if ref.String() != text {
			t.Errorf("ParseRef(%q).String() = %q", text, ref)
		}
		back, object, ok := parseKey(key(ref, Host(), manifestName))
		if !ok || object != manifestName || back.Ref != ref || back.Platform != Host() {
			t.Errorf("key of %v reads as %v, %v, %v", ref, back, object, ok)
		}
		if !filepath.IsLocal(ref.folder()) {
			t.Errorf("folder of %v leads out", ref)
		}
	})
}

func TestCompareVersionsIsAnOrder(t *testing.T) {
	version := rapid.OneOf(rapid.StringMatching(`v?[0-3]\.[0-3]\.[0-3](-rc\.[1-3])?`), rapid.StringMatching(`[a-c]{1,2}`))
	rapid.Check(t, func(t *rapid.T) {
		vs := rapid.SliceOfN(version, 2, 8).Draw(t, "versions")
		other := slices.Clone(vs)
		slices.Reverse(other)
		slices.SortFunc(vs, compareVersions)
		slices.SortFunc(other, compareVersions)
		if !slices.Equal(vs, other) {
			t.Errorf("%v and %v are both sorted", vs, other)
		}
	})
}

func validManifest() Manifest {
	m := Manifest{
		Format: 1, Ref: Ref{"shop", "web", "v1"}, Platform: Platform{"linux", "amd64"},
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), SDK: "weir/0.1.0", Protocol: 1, Entry: "run",
		Object: Object{Size: 10, SHA256: Digest{1}},
		Files:  []File{{Path: "lib/a", Size: 1, Mode: Plain}, {Path: "run", Size: 2, Mode: Executable}},
	}
	m.Object.Name = objectName(m.Object.SHA256)
	return m
}

func TestManifestRoundTrip(t *testing.T) {
	m := validManifest()
	data, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, got); d != "" {
		t.Errorf("round trip (-want +got):\n%s", d)
	}
}

func TestDecodeManifestRefuses(t *testing.T) {
	edit := func(old, new string) string {
		data, err := validManifest().encode()
		if err != nil {
			t.Fatal(err)
		}
		s := strings.Replace(string(data), old, new, 1)
		if s == string(data) {
			t.Fatalf("%s is not in the manifest", old)
		}
		return s
	}
	for _, tc := range []struct{ name, text string }{
		{"empty", ""},
		{"null", "null"},
		{"unknown key", edit(`"format"`, `"surprise": 1, "format"`)},
		{"something after", edit("\n", "") + "{}"},
		{"format of tomorrow", edit(`"format": 1`, `"format": 2`)},
		{"bad name", edit(`"shop"`, `"../shop"`)},
		{"bad platform", edit(`"amd64"`, `"amd/64"`)},
		{"setuid", edit(`"0755"`, `"4755"`)},
		{"short digest", edit(`"sha256": "01`, `"sha256": "1`)},
		{"upper-case digest", edit(`"sha256": "010`, `"sha256": "01A`)},
		{"object elsewhere", edit(`"name": "sha256-`, `"name": "../sha256-`)},
		{"object too large", edit(`"size": 10`, `"size": 1073741825`)},
		{"negative size", edit(`"size": 2`, `"size": -2`)},
		{"files too large", edit(`"size": 2`, `"size": 4294967296`)},
		{"size overflows", edit(`"size": 2`, `"size": 9223372036854775807`)},
		{"path out", edit(`"lib/a"`, `"lib/../../a"`)},
		{"absolute path", edit(`"lib/a"`, `"/a"`)},
		{"path with a newline", edit(`"lib/a"`, `"lib/\n"`)},
		{"not in order", edit(`"lib/a"`, `"zzz"`)},
		{"path twice", edit(`"lib/a"`, `"run"`)},
		{"no such entry", edit(`"entry": "run"`, `"entry": "go"`)},
		{"entry is not executable", edit(`"entry": "run"`, `"entry": "lib/a"`)},
		{"too long", `{"sdk": "` + strings.Repeat("x", maxManifest) + `"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := decodeManifest([]byte(tc.text)); err == nil {
				t.Error("DecodeManifest = nil, want an error")
			} else if !isCorrupt(err) {
				t.Errorf("DecodeManifest = %v, want ErrCorrupt", err)
			}
		})
	}
}

func FuzzDecodeManifest(f *testing.F) {
	data, err := validManifest().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"files":[{"path":"../x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeManifest(data)
		if err != nil {
			if !isCorrupt(err) {
				t.Fatalf("DecodeManifest = %v, want ErrCorrupt", err)
			}
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeManifest(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, back); d != "" {
			t.Errorf("round trip (-want +got):\n%s", d)
		}
	})
}

// pack produces the same bytes for the same files at any place and time.
func TestPackIsDeterministic(t *testing.T) {
	var archives [2]bytes.Buffer
	for i := range archives {
		dir := t.TempDir()
		for _, name := range []string{"b", "a"} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Unix(int64(i), 0), time.Unix(int64(i), 0)); err != nil {
				t.Fatal(err)
			}
		}
		paths, err := walk(dir)
		if err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if _, err := pack(&archives[i], root, paths); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("two archives of the same files differ")
	}
}

// For any archive, unpack stays in its folder, writes only regular files, and accepts only files of the manifest.
func FuzzUnpack(f *testing.F) {
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run"), []byte("hi"), 0o755); err != nil {
		f.Fatal(err)
	}
	source, err := os.OpenRoot(dir)
	if err != nil {
		f.Fatal(err)
	}
	defer source.Close()
	var archive bytes.Buffer
	files, err := pack(&archive, source, []string{"run"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(archive.Bytes())
	f.Add(archive.Bytes()[:archive.Len()/2])
	m := validManifest()
	m.Files = files
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		inside := filepath.Join(parent, "in")
		if err := os.Mkdir(inside, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(inside)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		err = unpack(t.Context(), bytes.NewReader(data), m, root)
		if err == nil {
			if err := (Installed{Dir: inside, Manifest: m}).verify(t.Context()); err != nil {
				t.Errorf("unpacked, but: %v", err)
			}
		}
		for _, dir := range []string{parent, inside} {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if e.Name() != "in" && e.Name() != "run" {
					t.Errorf("%s is in %s", e.Name(), dir)
				}
			}
		}
	})
}

// Leftovers of an ended process are removed. Files that a live process holds are not.
func TestOpenCacheSweeps(t *testing.T) {
	dir := t.TempDir()
	dead, alive := filepath.Join(dir, "tmp-dead"), filepath.Join(dir, "tmp-alive")
	for _, d := range []string{dead, alive, filepath.Join(dir, "sha256-kept")} {
		if err := os.MkdirAll(filepath.Join(d, "files"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tmp-1.json"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(alive)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCache(t.Context(), Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if d := cmp.Diff([]string{"lock", "sha256-kept", "tmp-alive"}, got); d != "" {
		t.Errorf("folder (-want +got):\n%s", d)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
	}{
		{"no folder", Config{}},
		{"bad platform", Config{Dir: "x", Platform: Platform{OS: "linux"}}},
		{"negative patience", Config{Dir: "x", RetryTimeout: -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := OpenCache(t.Context(), tc.cfg); err == nil {
				t.Error("OpenCache = nil, want an error")
			}
		})
	}
}

func isCorrupt(err error) bool { return errors.Is(err, ErrCorrupt) }

func TestReadersNeedAccessControlLists(t *testing.T) {
	const without = "/proc/self/fd"
	if users, err := readers(without); len(users) > 0 || err != nil {
		t.Errorf("readers = %v, %v", users, err)
	}
	if err := setReaders(without, []uint32{60990}); err == nil || !strings.Contains(err.Error(), "has no POSIX access control lists: choose") {
		t.Errorf("setReaders = %v", err)
	}
}
