package check

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

// goreleaser's own decoder refuses unknown keys. The rest are promises of docs/install.md.
func TestReleaseConfiguration(t *testing.T) {
	path := filepath.Join("..", "release", "goreleaser.yaml")
	project, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.LoadReader(strings.NewReader(string(text) + "\nsingatures: []\n")); err == nil {
		t.Error("an unknown key is accepted")
	}
	if len(project.Builds) != 2 {
		t.Fatalf("%d builds, want weir and weir-local", len(project.Builds))
	}
	for _, b := range project.Builds {
		if _, err := os.Stat(filepath.Join("..", "..", b.Main)); err != nil {
			t.Errorf("build %s: %v", b.ID, err)
		}
		if !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) || !slices.Equal(b.Goos, []string{"linux"}) || !slices.Contains(b.Tags, "grpcnotrace") ||
			!slices.Contains(b.Flags, "-trimpath") || !slices.Contains(b.Env, "CGO_ENABLED=0") {
			t.Errorf("build %s: %+v, want both architectures, static, as \"make packages\" builds it", b.ID, b)
		}
	}
	for _, a := range project.Archives {
		for _, f := range a.Files {
			if strings.HasPrefix(f.Source, "dist/") {
				continue // the hook before the release builds it
			}
			if found, err := filepath.Glob(filepath.Join("..", "..", f.Source)); err != nil || len(found) == 0 {
				t.Errorf("archive %s: %s: no file, %v", a.ID, f.Source, err)
			}
		}
	}
	if project.Checksum.Algorithm != "sha256" || len(project.Checksum.ExtraFiles) != 3 || len(project.Release.ExtraFiles) != 3 {
		t.Errorf("checksums %+v, release %+v, want sha256 with both kinds of packages and the script", project.Checksum, project.Release)
	}
	if len(project.SBOMs) != 1 || project.SBOMs[0].Artifacts != "archive" {
		t.Errorf("SBOMs %+v, want one for each archive", project.SBOMs)
	}
	if len(project.Signs) != 1 || project.Signs[0].Cmd != "minisign" || project.Signs[0].Artifacts != "checksum" || !strings.HasSuffix(project.Signs[0].Signature, ".minisig") {
		t.Errorf("signatures %+v, want one of minisign over the checksums", project.Signs)
	}
}

// A release runs these templates and commands first: a mistake in them would show only on the day of the release. TestSnapshot runs
// goreleaser itself.
func TestReleaseTemplatesAndHooks(t *testing.T) {
	project, err := config.Load(filepath.Join("..", "release", "goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{project.Checksum.NameTemplate}
	for _, b := range project.Builds {
		texts = append(append(texts, b.ModTimestamp), b.Ldflags...)
	}
	for _, a := range project.Archives {
		texts = append(texts, a.NameTemplate)
	}
	for _, s := range project.Signs {
		texts = append(append(texts, s.Signature), s.Args...)
	}
	for _, hook := range project.Before.Hooks {
		texts = append(texts, hook)
	}
	fields := map[string]any{"Version": "1.2.3", "Os": "linux", "Arch": "amd64", "CommitTimestamp": "1767225600", "Env": map[string]string{"MINISIGN_KEY_FILE": "key"}}
	for _, text := range texts {
		parsed, err := template.New("").Option("missingkey=error").Parse(text)
		if err == nil {
			err = parsed.Execute(io.Discard, fields)
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	script, err := os.ReadFile(filepath.Join("..", "packages", "build.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range project.Before.Hooks {
		words := strings.Fields(strings.ReplaceAll(hook, "{{ .Version }}", "1.2.3"))
		if words[0] != "make" {
			t.Errorf("hook %q: want a target of the Makefile", hook)
			continue
		}
		dry := exec.Command("make", append([]string{"--dry-run", "-C", filepath.Join("..", "..")}, words[1:]...)...)
		if out, err := dry.CombinedOutput(); err != nil || !strings.Contains(string(out), "VERSION=1.2.3") {
			t.Errorf("hook %q: %v\n%s", hook, err, out)
		}
	}
	for _, a := range project.Archives {
		for _, f := range a.Files {
			name, built := strings.CutPrefix(f.Source, "dist/stage-amd64/")
			if built && !strings.Contains(string(script), strings.TrimSuffix(name, "/*")) {
				t.Errorf("archive %s: deploy/packages/build.sh does not write %s", a.ID, f.Source)
			}
		}
	}
}
