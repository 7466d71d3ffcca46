package check

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// containerfiles are the container files by their program.
func containerfiles() map[string]string {
	folder := filepath.Join("..", "container")
	return map[string]string{"weir": filepath.Join(folder, "Containerfile"), "weir-kubernetes": filepath.Join(folder, "Containerfile.kubernetes")}
}

// lintImage returns the problem with the container file of a program.
func lintImage(program string, text []byte) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return []string{err.Error()}
	}
	warnings := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) { bad("%s: %s", rule, message) }})
	stages, _, err := instructions.Parse(tree.AST, warnings)
	if err != nil {
		return []string{err.Error()}
	}
	for i, stage := range stages {
		last := i == len(stages)-1
		if last != (stage.BaseName == "scratch") {
			bad("stage %d is from %s: want scratch for the last stage alone", i, stage.BaseName)
		}
		if !last && (stage.Platform != "$BUILDPLATFORM" || !regexp.MustCompile(`:\d+\.\d+`).MatchString(stage.BaseName)) {
			bad("stage %d is from %s on %q: want a version, on $BUILDPLATFORM", i, stage.BaseName, stage.Platform)
		}
		for _, c := range stage.Commands {
			if _, ok := c.(*instructions.AddCommand); ok {
				bad("ADD: want COPY")
			}
			if c, ok := c.(*instructions.CopyCommand); ok && last && c.From == "" {
				bad("COPY %v: want the files of a stage", c.SourcePaths)
			}
		}
	}
	if len(stages) < 2 {
		return append(problems, "want a stage that builds")
	}
	return append(problems, lintLast(program, stages[len(stages)-1], text)...)
}

func lintLast(program string, stage instructions.Stage, text []byte) (problems []string) {
	user, entry := "", ""
	for _, c := range stage.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			if !c.PrependShell {
				entry = strings.Join(c.CmdLine, " ")
			}
		}
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		problems = append(problems, fmt.Sprintf("USER %q: want the ids of a user without rights", user))
	}
	if entry != "/usr/bin/"+program {
		problems = append(problems, fmt.Sprintf("ENTRYPOINT %q: want %s without a shell", entry, program))
	}
	for _, part := range []string{"GOARCH=$TARGETARCH", "CGO_ENABLED=0", "-trimpath", "-tags=grpcnotrace"} {
		if !bytes.Contains(text, []byte(part)) {
			problems = append(problems, "the build lacks "+part)
		}
	}
	return problems
}

func TestContainerfile(t *testing.T) {
	for program, path := range containerfiles() {
		t.Run(program, func(t *testing.T) { checkImage(t, program, path) })
	}
}

func checkImage(t *testing.T, program, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range lintImage(program, text) {
		t.Error(p)
	}
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(mod)
	if version == nil || !bytes.Contains(text, []byte("golang:"+string(version[1])+"-")) {
		t.Errorf("the image builds with another Go than go.mod: %q", version)
	}
	for name, change := range map[string][2]string{
		"root":         {"USER 65532:65532", "USER root"},
		"no user":      {"USER 65532:65532\n", ""},
		"shell":        {`ENTRYPOINT ["/usr/bin/` + program + `"]`, "ENTRYPOINT /usr/bin/" + program},
		"base":         {"FROM scratch", "FROM debian:12"},
		"no version":   {"golang:1.26.8-bookworm", "golang"},
		"one platform": {"--platform=$BUILDPLATFORM ", ""},
		"architecture": {"GOARCH=$TARGETARCH ", ""},
		"context":      {"COPY --from=build /out/" + program, "COPY bin/" + program},
		"ADD":          {"COPY . .", "ADD . ."},
		"syntax":       {"WORKDIR /src", "WORKDIRR /src"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.ReplaceAll(string(text), change[0], change[1])
			if changed == string(text) || len(lintImage(program, []byte(changed))) == 0 {
				t.Errorf("%q in place of %q is not found", change[1], change[0])
			}
		})
	}
	if !slices.Equal(lintImage(program, nil), lintImage(program, nil)) || len(lintImage(program, nil)) == 0 {
		t.Error("an empty file is not found")
	}
}
