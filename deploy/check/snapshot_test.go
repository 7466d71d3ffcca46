//go:build release

package check

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goreleaser makes a snapshot of this tree, without signatures and lists of components. "make release-check" runs this test: it compiles
// goreleaser, and weir for both architectures.
func TestSnapshot(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", "github.com/goreleaser/goreleaser/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "go", "run", "github.com/goreleaser/goreleaser/v2@"+strings.TrimSpace(string(version)),
		"release", "--snapshot", "--clean", "--skip=sign,sbom", "--config", "deploy/release/goreleaser.yaml")
	run.Dir, run.Stdout, run.Stderr = root, t.Output(), t.Output()
	if err := run.Run(); err != nil {
		t.Fatal(err)
	}
	dist := filepath.Join(root, "dist", "release")
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data := release(t, root, name)
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has another checksum than SHA256SUMS", name)
		}
		count[filepath.Ext(name)]++
		if strings.HasSuffix(name, ".tar.gz") {
			wantArchive(t, name, data)
		}
	}
	for kind, want := range map[string]int{".gz": 2, ".deb": 2, ".rpm": 2, ".sh": 1} {
		if count[kind] != want {
			t.Errorf("SHA256SUMS has %d files *%s, want %d:\n%s", count[kind], kind, want, sums)
		}
	}
}

// release returns the content of a file of a release.
func release(t *testing.T, root, name string) []byte {
	t.Helper()
	for _, folder := range []string{"dist/release", "dist", "deploy/release"} {
		if data, err := os.ReadFile(filepath.Join(root, folder, name)); err == nil {
			return data
		}
	}
	t.Fatalf("%s is in SHA256SUMS and nowhere else", name)
	return nil
}

// wantArchive checks the files of an archive, and the architecture of its programs.
func wantArchive(t *testing.T, name string, data []byte) {
	t.Helper()
	missing := map[string]bool{}
	for _, file := range []string{
		"weir", "weir-local", "LICENSE", "README.md", "man/weir.1.gz", "share/weir/sdk.zip", "deploy/systemd/weir-agent.service", "deploy/aws/iam-policy.json",
		"deploy/terraform/pool.tf", "deploy/prometheus/weir-alerts.yml", "deploy/grafana/weir-pool.json",
	} {
		missing[file] = true
	}
	machine := elf.EM_X86_64
	if strings.Contains(name, "arm64") {
		machine = elf.EM_AARCH64
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for files := tar.NewReader(unzipped); ; {
		file, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		delete(missing, file.Name)
		if file.Name != "weir" && file.Name != "weir-local" {
			continue
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if program, err := elf.NewFile(bytes.NewReader(content)); err != nil || program.Machine != machine || file.Mode&0o111 == 0 {
			t.Errorf("%s: %s is no program of its architecture: %v", name, file.Name, err)
		}
	}
	for file := range missing {
		t.Errorf("%s lacks %s", name, file)
	}
}
