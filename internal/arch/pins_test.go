package arch

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestPinned: actions of workflows, and images to build from, have a digest. A tag can be moved to other content.
func TestPinned(t *testing.T) {
	problems, err := unpinned(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

func TestUnpinnedIsFound(t *testing.T) {
	commit, digest := strings.Repeat("0a", 20), "sha256:"+strings.Repeat("0a", 32)
	for _, test := range []struct {
		name, text string
		want       bool // a problem
	}{
		{"action by tag", "steps:\n  - uses: actions/checkout@v7", true},
		{"action by branch", "    uses: \"actions/checkout@main\"", true},
		{"action without a version", "- uses: actions/checkout", true},
		{"action by an abbreviated commit", "- uses: actions/checkout@" + commit[:12], true},
		{"action by its commit", "- uses: actions/checkout@" + commit + " # v7.0.1", false},
		{"action of the same repository", "- uses: ./.github/actions/x", false},
		{"action from an image by tag", "- uses: docker://alpine:3", true},
		{"action from an image by digest", "- uses: docker://alpine@" + digest, false},
		{"image by tag", "FROM --platform=$BUILDPLATFORM golang:1.26 AS build", true},
		{"image by digest", "FROM --platform=$BUILDPLATFORM golang:1.26@" + digest + " AS build", false},
		{"lower case", "FROM golang:1.26 as build", true},
		{"image of a variable", "ARG BASE\nFROM $BASE", true},
		{"no image, and an earlier stage", "FROM golang@" + digest + " AS build\nFROM scratch\nFROM build", false},
		{"copy from an image", "COPY --from=busybox:1 /bin/sh /bin/sh", true},
		{"copy from an image, with another flag", "COPY --from=busybox:1 --chown=1:1 /bin/sh /bin/sh", true},
		{"copy from a stage", "FROM golang@" + digest + " AS build\nCOPY --chown=1:1 --from=build /x /x", false},
		{"syntax by tag", "# syntax=docker/dockerfile:1", true},
		{"code in a document", "Text\n\n```\nFROM debian:12\n```", true},
		{"prose", "From here on, it uses: nothing.\nfrom x on\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			problems, err := unpinned(fstest.MapFS{".github/x.md": {Data: []byte(test.text)}})
			if err != nil || (len(problems) > 0) != test.want {
				t.Errorf("unpinned(%q) = %q, %v", test.text, problems, err)
			}
			line := fmt.Sprintf(".github/x.md:%d: ", strings.Count(strings.TrimSuffix(test.text, "\n```"), "\n")+1)
			if test.want && !strings.HasPrefix(problems[0], line) {
				t.Errorf("problem %q, want it at %s", problems[0], line)
			}
		})
	}
}

var (
	// reference matches a line that names an action, a base image, or the program that reads a container file.
	reference = regexp.MustCompile(`^(?:\s*(?:- +)?uses: *|FROM +(?:--\S+ +)*|COPY +(?:--\S+ +)*--from=|# *syntax=)["']?([^\s"']+)["']?(?: +(?i:AS) +(\S+))?(?:\s.*)?$`)
	pin       = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40}$|@sha256:[0-9a-f]{64}$`)
)

// unpinned returns a problem for each reference to an action or an image without a digest, in all text files of the tree.
func unpinned(tree fs.FS) (problems []string, err error) {
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular() || strings.HasSuffix(p, ".go"):
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		known := []string{"scratch"} // and the earlier stages of the file
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			found := reference.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
			if found == nil {
				continue
			}
			if name := found[1]; !pin.MatchString(name) && !strings.HasPrefix(name, "./") && !slices.Contains(known, name) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s has no digest: add @ and the commit of an action, @sha256: and the digest of an image", p, number, name))
			}
			known = append(known, found[2])
		}
		return nil
	})
	return problems, err
}
