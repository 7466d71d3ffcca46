package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// releasePage serves a release, as the page of a project does.
type releasePage struct {
	*testing.T
	dir, key, bin string
	env           []string
	files         map[string][]byte
	newest        string
}

func newReleasePage(t *testing.T) *releasePage {
	t.Helper()
	path, env, err := testprograms.Minisign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &releasePage{T: t, dir: t.TempDir(), bin: filepath.Dir(path), env: env, files: map[string][]byte{}, newest: "1.2.3"}
	out := p.minisign("-G", "-W", "-p", "pub", "-s", "sec")
	lines := strings.Split(strings.TrimSpace(out), " ")
	p.key = lines[len(lines)-1]
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	files := tar.NewWriter(zip)
	for _, name := range []string{"weir", "weir-local"} {
		text := "#!/bin/sh\necho " + name + " 1.2.3\n"
		if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(files, text)
	}
	files.Close()
	zip.Close()
	p.files[p.archive()] = archive.Bytes()
	p.files["weir_1.2.3_"+runtime.GOARCH+".deb"] = []byte("a package")
	p.sign("weir 1.2.3")
	return p
}

func (p *releasePage) archive() string { return "weir_1.2.3_linux_" + runtime.GOARCH + ".tar.gz" }

func (p *releasePage) minisign(args ...string) string {
	p.Helper()
	c := exec.Command(filepath.Join(p.bin, "minisign"), args...)
	c.Dir, c.Env = p.dir, append(os.Environ(), p.env...)
	out, err := c.CombinedOutput()
	if err != nil {
		p.Fatalf("minisign %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// sign lists the digests of all files, and signs the list with a comment.
func (p *releasePage) sign(comment string) {
	p.Helper()
	var sums strings.Builder
	for name, data := range p.files {
		if !strings.HasPrefix(name, "SHA256SUMS") {
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
		}
	}
	path := filepath.Join(p.dir, "SHA256SUMS")
	if err := os.WriteFile(path, []byte(sums.String()), 0o600); err != nil {
		p.Fatal(err)
	}
	p.minisign("-S", "-s", "sec", "-m", "SHA256SUMS", "-t", comment)
	signature, err := os.ReadFile(path + ".minisig")
	if err != nil {
		p.Fatal(err)
	}
	p.files["SHA256SUMS"], p.files["SHA256SUMS.minisig"] = []byte(sums.String()), signature
}

// ServeHTTP serves the page and the files of the newest release.
func (p *releasePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := strings.CutPrefix(r.URL.Path, "/releases/download/v"+p.newest+"/")
	switch {
	case r.URL.Path == "/releases/latest":
		http.Redirect(w, r, "/releases/tag/v"+p.newest, http.StatusFound)
	case r.URL.Path == "/releases/tag/v"+p.newest:
	case ok && p.files[file] != nil:
		w.Write(p.files[file])
	default:
		http.NotFound(w, r)
	}
}

// install runs the script, with an apt-get that prints its arguments.
func (p *releasePage) install(args ...string) (string, error) {
	p.Helper()
	server := httptest.NewServer(p)
	defer server.Close()
	stub := p.TempDir()
	if err := os.WriteFile(filepath.Join(stub, "apt-get"), []byte("#!/bin/sh\necho apt-get \"$@\"\n"), 0o755); err != nil {
		p.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("..", "release", "install.sh"))
	if err != nil {
		p.Fatal(err)
	}
	c := exec.Command(script, args...)
	c.Dir = p.dir
	c.Env = append(append(os.Environ(), p.env...), "PATH="+stub+":"+p.bin+":"+os.Getenv("PATH"), "WEIR_RELEASES="+server.URL+"/releases")
	out, err := c.CombinedOutput()
	return string(out), err
}

// The script installs the newest release if its signature, the signed version and the checksum are right.
func TestInstallScript(t *testing.T) {
	p := newReleasePage(t)
	out, err := p.install("--archive", "bin", p.key)
	if err != nil || !strings.Contains(out, "weir 1.2.3 is installed in "+filepath.Join(p.dir, "bin")) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command(filepath.Join(p.dir, "bin", "weir")).Output(); err != nil || string(out) != "weir 1.2.3\n" {
		t.Errorf("the installed program prints %q, %v", out, err)
	}
	if out, err := p.install(p.key, "1.2.3"); err != nil || !strings.Contains(out, "apt-get install -y ./weir_1.2.3_"+runtime.GOARCH+".deb\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// A wrong key, file, version or machine installs nothing.
func TestInstallScriptRefuses(t *testing.T) {
	other := newReleasePage(t)
	for name, c := range map[string]struct {
		spoil func(*releasePage)
		key   string // empty: that of the page
		want  string
	}{
		"another key":             {func(*releasePage) {}, other.key, "the signature of SHA256SUMS is not by this key"},
		"a changed list":          {func(p *releasePage) { p.files["SHA256SUMS"] = append(p.files["SHA256SUMS"], ' ') }, "", "the signature of SHA256SUMS is not by this key"},
		"a changed file":          {func(p *releasePage) { p.files[p.archive()] = []byte("x") }, "", "has another checksum"},
		"a list of an older one":  {func(p *releasePage) { p.sign("weir 1.2.2") }, "", `is signed for "weir 1.2.2", not for weir 1.2.3`},
		"no file of this machine": {func(p *releasePage) { delete(p.files, p.archive()); p.sign("weir 1.2.3") }, "", "has no file for this machine"},
		"no signature":            {func(p *releasePage) { delete(p.files, "SHA256SUMS.minisig") }, "", "download SHA256SUMS.minisig of version 1.2.3"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newReleasePage(t)
			c.spoil(p)
			key := c.key
			if key == "" {
				key = p.key
			}
			out, err := p.install("--archive", "bin", key)
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v: %s, want %q", err, out, c.want)
			}
			if _, err := os.Stat(filepath.Join(p.dir, "bin")); err == nil {
				t.Error("something is installed")
			}
		})
	}
}
