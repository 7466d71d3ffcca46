package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// TestLinks requires that each link between the documents leads to an existing file and heading, and that README.md
// leads to each page.
func TestLinks(t *testing.T) {
	problems, err := brokenLinks(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

func TestLinkRules(t *testing.T) {
	const readme = "[a](docs/a.md)\n"
	for _, test := range []struct {
		name, readme, page string
		want               string // part of the only problem; empty: none
	}{
		{"true", readme, "# A page\n[home](../README.md), [here](#a-page), [web](https://example.com/x)", ""},
		{"heading with code", readme, "## The `health` block, in 2 parts\n[x](#the-health-block-in-2-parts)", ""},
		{"in a block", readme, "```\n[x](gone.md)\n```\n", ""},
		{"in code", readme, "`[x](gone.md)`", ""},
		{"gone", readme, "[x](gone.md)", "docs/a.md: link to gone.md: docs/gone.md does not exist"},
		{"heading of another page", readme, "[x](../README.md#gone)", `README.md has no heading "gone"`},
		{"own heading", readme, "# Here\n[x](#there)", `docs/a.md has no heading "there"`},
		{"picture", "![p](docs/p.svg) " + readme, "", "docs/p.svg does not exist"},
		{"page without a link", "", "# A", "README.md: add a link to docs/a.md"},
	} {
		t.Run(test.name, func(t *testing.T) {
			problems, err := brokenLinks(fstest.MapFS{"README.md": {Data: []byte(test.readme)}, "docs/a.md": {Data: []byte(test.page)}})
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && len(problems) > 0 {
				t.Errorf("problems %q, want none", problems)
			}
			if test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
				t.Errorf("problems %q, want one with %q", problems, test.want)
			}
		})
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// brokenLinks returns a problem for each relative link of a document that leads nowhere, and for each page of docs that
// README.md does not link.
func brokenLinks(tree fs.FS) (problems []string, err error) {
	linked := []string{}
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && ignored(d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".md"):
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(fence.ReplaceAllString(string(text), ""), ""), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			name, anchor, _ := strings.Cut(found[1], "#")
			target := p
			if name != "" {
				target = path.Join(path.Dir(p), name)
			}
			if p == "README.md" {
				linked = append(linked, target)
			}
			if what := missingTarget(tree, target, anchor); what != "" {
				problems = append(problems, fmt.Sprintf("%s: link to %s: %s", p, found[1], what))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	pages, err := fs.Glob(tree, "docs/*.md")
	for _, page := range pages {
		if !slices.Contains(linked, page) {
			problems = append(problems, "README.md: add a link to "+page)
		}
	}
	return problems, err
}

// missingTarget returns why a link does not work; empty if it does.
func missingTarget(tree fs.FS, target, anchor string) string {
	if _, err := fs.Stat(tree, target); err != nil {
		return target + " does not exist"
	}
	if anchor == "" {
		return ""
	}
	text, err := fs.ReadFile(tree, target)
	if err != nil {
		return err.Error()
	}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		if anchorOf(h[1]) == anchor {
			return ""
		}
	}
	return fmt.Sprintf("%s has no heading %q", target, anchor)
}

// anchorOf returns the anchor of a heading, as GitHub makes it.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
